"""Copy folders of the target back, into a place of their own: artefacts, never sources."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import posixpath
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dkdbg.agent.sync import content, paths, tree, wire
from dkdbg.agent.sync.problems import Refused
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.sync.remote.contact import Contact
from dkdbg.sync.remote.stream import Stream, StreamEndedError, expect
from dkdbg.sync.report import event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dkdbg.agent.sync.wire import Entry
    from dkdbg.sync.report import Event
    from dkdbg.sync.roots import Roots
    from dkdbg.targets.place import Reach

#: Where pulled folders lie by default, relative to the local root; left out of sync by default.
FOLDER = "dkdbg-pulled"
#: Files asked for ahead of the one that arrives.
_AHEAD = 16
_SECONDS = 300.0
_SYMLINK = "a symlink, which is not followed"


@dataclass
class Pulled:
    """What was done: files copied and found equal, bytes copied, and path -> reason of what was not copied."""

    files: int = 0
    equal: int = 0
    bytes: int = 0
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether every file was copied; symlinks never are."""
        return all(reason == _SYMLINK for reason in self.left_out.values())


def destination(root: str, into: str | None, label: str, roots: Roots) -> str:
    """The local folder that pulled ones go below; it is made, with a .gitignore where it is the default.

    Raises:
        DkdbgError: it lies in the synced tree and takes part there: sync would send back what was pulled.
    """
    if into is None:
        folder = os.path.join(root, FOLDER, label)
        os.makedirs(folder, exist_ok=True)
        with (
            contextlib.suppress(FileExistsError),
            open(os.path.join(root, FOLDER, ".gitignore"), "x") as file,
        ):
            file.write("*\n")
        return folder
    folder = os.path.realpath(into)
    local = os.path.realpath(roots.local)
    inside = folder == local or folder.startswith(local.rstrip("/") + "/")
    above = local.startswith(folder.rstrip("/") + "/")
    if (
        folder == local
        or above
        or (inside and roots.rules(local).why(os.path.relpath(folder, local) + "/").takes_part)
    ):
        raise DkdbgError(
            f"{into} holds or would hold sources that are synced from here",
            hint=f"name a folder outside of {roots.local}, or none: {FOLDER}/{label} then",
            exit_code=EXIT_USAGE,
        )
    os.makedirs(folder, exist_ok=True)
    return folder


def pull(
    roots: Roots, reach: Reach, folders: Sequence[str], into: str, *, report: Callable[[Event], None]
) -> Pulled:
    """Copy `folders`, relative to the remote root, below the local folder `into`. What is equal there is skipped.

    Equal means: the same size and the same mtime; a copy gets both only when it is whole and its digest is right.

    Raises:
        DkdbgError: the target cannot be reached or has no such folder.
    """
    contact = Contact(roots.remote, pythons=roots.pythons, look_only=True)
    try:
        contact.start(reach)
        stream, _ = contact.ready()
    except StreamEndedError as error:
        raise DkdbgError(
            f"cannot pull from {contact.label}: {error}", hint="is it running? docker ps"
        ) from None
    finally:
        contact.stop()
    top = os.open(into, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _listing(stream)
        puller = _Puller(stream, tree.Tree(top), report)
        for folder in folders:
            puller.pull(posixpath.normpath(folder.strip("/")))
        return puller.pulled
    except StreamEndedError as error:
        raise DkdbgError(
            f"{contact.label} went away: {error}", hint="run it again: what is whole here already is skipped"
        ) from None
    finally:
        os.close(top)
        stream.close()


class _Puller:
    def __init__(self, stream: Stream, local: tree.Tree, report: Callable[[Event], None]) -> None:
        self.pulled = Pulled()
        self._stream = stream
        self._tree = local
        self._report = report

    def pull(self, folder: str) -> None:
        """All of one remote folder."""
        self._stream.send(wire.LIST, {"path": "" if folder == "." else folder})
        self._stream.flush()
        try:
            entries = _listing(self._stream)
        except _RefusedThereError as error:
            raise DkdbgError(
                f"{folder}: {error}", hint="name a folder relative to the remote root", exit_code=EXIT_USAGE
            ) from None
        wanted = [entry for entry in entries if self._takes(folder, entry)]
        total = sum(entry[3] for entry in wanted)
        for start in range(0, len(wanted), _AHEAD):
            chunk = wanted[start : start + _AHEAD]
            for entry in chunk:
                self._stream.send(wire.GET, {"path": entry[0]})
            self._stream.flush()
            for entry in chunk:
                self._receive(entry[0])
            facts = {"files": self.pulled.files, "files_total": len(wanted)}
            self._report(event("progress", **facts, bytes=self.pulled.bytes, bytes_total=total))

    def _takes(self, folder: str, entry: Entry) -> bool:
        """Whether an entry has to be copied; folders are made."""
        path, kind, _, size, _, mtime = entry
        try:
            parts = paths.components(path)
            if folder != "." and not path.startswith(folder + "/"):
                raise Refused("it does not lie in the folder that was asked for")
            if kind == "d":
                os.close(self._folder(parts))
            elif kind == "f":
                found = self._tree.look(parts)
                if found is None or (found.st_size, str(found.st_mtime_ns)) != (size, mtime):
                    return True
                self.pulled.equal += 1
            else:
                raise Refused(_SYMLINK)
        except Refused as error:
            self.pulled.left_out[path] = error.reason
        except OSError as error:
            self.pulled.left_out[path] = _why(error)
        return False

    def _receive(self, path: str) -> None:
        try:
            _, head, _ = _frame(self._stream, wire.FILE)
        except _RefusedThereError as error:
            self.pulled.left_out[path] = str(error)
            return
        problem = ""
        name = f".dkdbg-pull-{secrets.token_hex(8)}".encode()
        parts = paths.components(path)
        folder, descriptor = -1, -1
        try:
            folder = self._folder(parts[:-1])
            descriptor = tree.create_file(folder, name)
        except OSError as error:
            problem = _why(error)
        try:
            problem = self._content(descriptor, problem)
            if not problem:
                _dress(descriptor, head)
                os.rename(name, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
                self.pulled.files += 1
                self.pulled.bytes += int(str(head["size"]))
        except OSError as error:
            problem = _why(error)
        finally:
            if problem:
                self.pulled.left_out[path] = problem
            if descriptor >= 0:
                os.close(descriptor)
                tree.remove(folder, name)
            if folder >= 0:
                os.close(folder)

    def _content(self, descriptor: int, problem: str) -> str:
        """Write what comes until END; why that did not work, or empty. All of it is taken off the stream."""
        digest = hashlib.sha256()
        while True:
            try:
                kind, head, body = _frame(self._stream, wire.DATA, wire.END)
            except _RefusedThereError as error:
                return str(error)
            if kind == wire.END:
                return problem or (
                    "" if head["digest"] == digest.hexdigest() else "changed while it was copied"
                )
            digest.update(body)
            if not problem:
                try:
                    content.write_all(descriptor, body)
                except OSError as error:
                    problem = _why(error)

    def _folder(self, parts: list[bytes]) -> int:
        """A descriptor of a local folder, made when it is missing. Follows no symlink."""
        at = os.dup(self._tree.root)
        for part in parts:
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=at)
                below = tree.open_below(at, part)
            finally:
                os.close(at)
            at = below
        return at


class _RefusedThereError(Exception):
    """The other side said why it did not do what it was asked for."""


def _frame(stream: Stream, *kinds: int) -> tuple[int, dict[str, object], bytes]:
    kind, head, body = expect(stream, frozenset((*kinds, wire.FAILED)), _SECONDS)
    if kind == wire.FAILED:
        raise _RefusedThereError(str(head.get("reason", "")))
    return kind, head, body


def _listing(stream: Stream) -> list[Entry]:
    found: list[Entry] = []
    while True:
        _, head, _ = _frame(stream, wire.LISTING)
        entries = head["entries"]
        found += entries if isinstance(entries, list) else []
        if head.get("end", True):
            return found


def _dress(descriptor: int, head: dict[str, object]) -> None:
    """Mode and time of the original, readable and writable for its owner here."""
    os.fchmod(descriptor, int(str(head["mode"])) & 0o777 | 0o600)
    mtime = int(str(head["mtime_ns"]))
    os.utime(descriptor, ns=(mtime, mtime))


def _why(error: OSError) -> str:
    if error.errno in {errno.ELOOP, errno.ENOTDIR}:
        return "a symlink or file stands in its way here"
    return f"cannot be written here: {error.strerror}"
