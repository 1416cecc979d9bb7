"""Starts the receiver on a target: finds a Python on it without a shell, sends HELLO and waits for READY."""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.printable import printable
from dkdbg.repository.folders import git_folder
from dkdbg.sync.beneath import Beneath
from dkdbg.sync.receiver import boot, wire
from dkdbg.sync.remote.stream import Stream, StreamEndedError, expect

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from dkdbg.core.target import Executor

#: Interpreters to try, in this order. Full paths are for targets whose PATH is empty or wrong, the names with a version
#: for targets whose `python3` is older than 3.8 (RHEL 8, SLES 15).
PYTHONS = (
    "python3", "python", "/usr/local/bin/python3", "/usr/bin/python3", *(f"python3.{minor}" for minor in range(14, 7, -1)),
)  # fmt: skip

#: Exit codes for a missing or non-executable program (OCI runtimes, ssh, shells), and for a Python that is too old.
_NOT_FOUND = (126, 127)
#: Standard error of an old Python; see `boot`.
_OLD = re.compile(r"^Python \d\.\d+$", re.MULTILINE)
_READY_TIMEOUT_S = 30.0
#: Hint for a target that has just disappeared; the next attempt reports the reason, whatever the kind of target.
IS_IT_RUNNING = "check that the target is still running, then try again: the next error gives the reason"
#: Seconds without a frame after which the receiver exits and releases its lock. A session pings more often.
SILENCE_S = 300
#: Files in git's folder that git creates with the clone or worktree, and never changes.
_AS_OLD = ("commondir", "description")


class SameFolderError(DkdbgError):
    """Local and remote root are the same folder, which needs no sync."""


@dataclass(frozen=True, kw_only=True)
class Ready:
    """The receiver's greeting.

    Attributes:
        root: the remote root, as the receiver resolved it.
        probe: path of a file with a random name that the receiver made, relative to the root; empty without one.
        empty: whether the root contains nothing but sync's own folder.
        former: the local folder that was last synced to this root; empty if it is the same or none.
        mounts: mount points below the root, relative to it.
    """

    python: str
    user: str
    root: str
    probe: str
    empty: bool
    former: str = ""
    mounts: tuple[str, ...] = ()


class Contact:
    """The start of one stream.

    `start` returns at once; `ready` waits for READY, and tries the next interpreter if one is missing.

    Args:
        root: remote root, absolute.
        local: local root, absolute: the receiver deletes only files that came from it. Empty if only a probe is made.
        pythons: interpreters to try; the one that answers is tried first next time. A single
            interpreter is the one that the user named.
        look_only: write nothing on the target.
        makes: whether to create a missing root.

    Attributes:
        executor: the target of the last `start`.
        quiet: called when the target has not answered for some seconds.
    """

    def __init__(
        self,
        root: str,
        local: str,
        *,
        pythons: Sequence[str] = PYTHONS,
        look_only: bool = False,
        makes: bool = True,
    ) -> None:
        self._hello = {
            "version": wire.VERSION, "root": root, "probe": not look_only, "create": makes and not look_only,
            "write": not look_only,
            "silence_s": SILENCE_S, "source": source_of(local) if local and not look_only else "", "by": f"pid {os.getpid()} on {os.uname().nodename}",
        }  # fmt: skip
        self._pythons = list(pythons)
        self._stream: Stream | None = None
        self._has_answered = False
        self._bell: Callable[[], None] = lambda: None
        self.quiet: Callable[[], None] = lambda: None
        self.label = root

    @property
    def pythons(self) -> tuple[str, ...]:
        """Return the interpreters to try, in order."""
        return tuple(self._pythons)

    @property
    def started(self) -> bool:
        """Return whether a receiver was started and `ready` has not returned it yet."""
        return self._stream is not None

    def start(self, executor: Executor) -> None:
        """Start the receiver. Raises DkdbgError: the local program of the command line does not exist."""
        self.stop()
        self.executor = executor
        self.label = executor.label
        self._launch(self._pythons[0])

    def ring(self, bell: Callable[[], None]) -> None:
        """Call `bell` on the reading thread whenever a frame has arrived, from now on."""
        self._bell = bell

    def ready(self) -> tuple[Stream, Ready]:
        """Wait for the receiver, and return its stream, which the caller has to close, and its greeting.

        Raises:
            StreamEndedError: the target is gone or refuses.
            DkdbgError: no Python was found, the named one is not a Python, or the receiver refused, with its
                reason.
        """
        if self._stream is None:
            raise AssertionError("start() comes first")
        tried = []
        try:
            for python in tuple(self._pythons):
                if self._stream is None:
                    self._launch(python)
                try:
                    _, head, _ = expect(self._stream, frozenset({wire.READY}), _READY_TIMEOUT_S)
                except StreamEndedError as error:
                    if not error.answered and (explained := self.executor.explain(error.stderr)) is not None:
                        raise explained from error
                    if error.answered or error.code not in _NOT_FOUND:
                        if not (error.answered or self._has_answered) and len(self._pythons) == 1:
                            raise _no_python(python, self.label, error) from None
                        raise
                    old = _OLD.search(error.stderr)
                    tried.append(f"{python} ({old[0]})" if old else python)
                    self.stop()
                    continue
                self._has_answered = True
                self._pythons.remove(python)
                self._pythons.insert(0, python)
                ready = _ready(head)
                stream, self._stream = self._stream, None
                return stream, ready
        finally:
            self.stop()
        raise DkdbgError(
            f"there is no Python 3.8 or newer on {self.label}: tried {', '.join(tried)}",
            hint="name one with --python PATH; the receiver needs nothing else",
        )

    def stop(self) -> None:
        """End a receiver that was started and that `ready` has not returned yet."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _launch(self, python: str) -> None:
        argv = self.executor.wrap(boot.command(python))
        # Lambdas, because `_bell` and `quiet` may be replaced later.
        self._stream = Stream(argv, boot.payload, bell=lambda: self._bell(), quiet=lambda: self.quiet())  # noqa: PLW0108
        try:
            self._stream.send(wire.HELLO, self._hello)
            self._stream.flush()
        except (StreamEndedError, DkdbgError):
            pass  # `ready` reports the reason


def _no_python(python: str, label: str, error: StreamEndedError) -> DkdbgError:
    """Return the error for a named interpreter without an answer: it is not a Python, or the target is gone."""
    return DkdbgError(
        f"{printable(python)} on {label} did not run sync's receiver: {error}",
        hint="name a Python 3.8 or newer, or omit --python: sync then looks for one; check that the target is running",
    )


def _ready(head: dict[str, Any]) -> Ready:
    if head.get("version") != wire.VERSION:
        raise DkdbgError(
            f"the receiver uses version {head['version']} of the sync protocol, this dkdbg version {wire.VERSION}"
        )
    return Ready(
        python=head["python"], user=head["user"], root=head["root"], probe=head.get("probe") or "", empty=head["empty"],
        former=head["former"], mounts=tuple(head["mounts"]),
    )  # fmt: skip


def refuse_same_folder(local: str, ready: Ready) -> None:
    """Raise SameFolderError when the receiver's probe on the target is in the local root."""
    if is_local(local, ready):
        raise SameFolderError(
            f"{printable(ready.root)} on the target and your local {local} are the same folder",
            hint="a mounted workspace needs no sync: saved files are on the target at once",
            exit_code=EXIT_USAGE,
        )


def probe(folder: str, executor: Executor, pythons: Sequence[str]) -> tuple[Stream, Ready] | None:
    """Create a probe file in a remote folder; closing the stream removes it. None if the folder is not writable.

    Raises StreamEndedError: the target is gone.
    """
    contact = Contact(folder, "", pythons=pythons, makes=False)
    try:
        contact.start(executor)
        return contact.ready()
    except DkdbgError:
        return None
    finally:
        contact.stop()


def refuse_overlap(local: str, folders: Collection[str], ready: Ready, contact: Contact) -> None:
    """Raise DkdbgError if sync would overwrite the user's own files, because a remote folder is a local one.

    Checks whether the remote root, or a file system that is mounted below it, is `local`, a folder above it, or one of
    `folders` (relative to `local`).
    """
    _refuse_own(local, folders, ready, "--to PATH names another folder on the target")
    for mount in sorted({*folders}.intersection(ready.mounts)):
        found = probe(posixpath.join(ready.root, mount), contact.executor, contact.pythons)
        if found is not None:
            with contextlib.closing(found[0]):
                hint = f'ignore = ["/{printable(mount)}/"] under [sync] in dkdbg.toml leaves it out'
                _refuse_own(local, folders, found[1], hint)


def _refuse_own(local: str, folders: Collection[str], ready: Ready, hint: str) -> None:
    above = [str(each) for each in PurePosixPath(local).parents]
    for folder in (local, *(os.path.join(local, each) for each in folders), *above) if ready.probe else ():
        if os.path.lexists(os.path.join(folder, ready.probe)):
            raise DkdbgError(
                f"{printable(ready.root)} on the target is your local {printable(folder)}: sync would overwrite your own files in it",
                hint=f"files saved in it are on the target at once; {hint}",
                exit_code=EXIT_USAGE,
            )


def is_local(local: str, ready: Ready) -> bool:
    """Return whether the receiver's probe is in the local root."""
    try:
        Beneath(local).lstat(ready.probe)
    except OSError:
        return False
    return True


def source_of(local: str) -> str:
    """Return the local root as the ledger records it: the ID of its checkout, NUL, and its absolute path.

    The ID is the mtime and inode of a file that git created with the clone. Another clone has another mtime, and a copy
    has another inode. Both stay the same when a dev container is rebuilt around the checkout.
    Without git the ID is the machine's name and the root's inode.
    """
    folder = git_folder(Path(local))
    for name in _AS_OLD if folder is not None else ():
        with contextlib.suppress(OSError):
            made = os.stat(os.path.join(folder or "", name), follow_symlinks=False)
            return f"{made.st_mtime_ns} {made.st_ino}\0{local}"
    machine = os.uname().nodename
    with contextlib.suppress(OSError):
        machine += f" {os.stat(local).st_ino}"
    return f"{machine}\0{local}"
