"""Finds a local folder on another machine that shares a file system: guesses paths from mounts, checks by a probe."""

from __future__ import annotations

import contextlib
import posixpath
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.core.target import Capability
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.printable import printable
from dkdbg.sync.remote.contact import PYTHONS, is_local, probe
from dkdbg.sync.remote.stream import StreamEndedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.mapping import Workspace
    from dkdbg.core.target import Executor, Target

_MOUNTS = "/proc/self/mountinfo"
#: Maximum bytes of an answer, and timeout in seconds.
_MAX_OUTPUT_BYTES, _TIMEOUT_S = 1 << 20, 30.0
#: Shell test whether the working directory is the user's home.
_IS_HOME = '[ "$(pwd -P)" = "$(cd && pwd -P)" ]'


def find(root: str, executor: Executor, *, python: str | None = None) -> str | None:
    """Return the path of the same folder as `root` on the other machine; None if it has no such folder.

    Args:
        root: local folder, absolute and resolved.
        python: interpreter on the other machine; None to look for one.
    """
    with contextlib.suppress(DkdbgError):
        local_mounts = _local_mounts()
        output = _asked(executor, f'printf "%s\\n" "$HOME"; cat {_MOUNTS}').partition("\n")
        found = guesses(root, local_mounts, mounts(output[2]), output[0] if output[0].startswith("/") else "")
        found = [each for each in found if each.isprintable()]
        shown = "".join(f"[ -d {shlex.quote(each)} ] && echo {number}; " for number, each in enumerate(found))
        existing = _asked(executor, f"{shown}true").split()
        for number, each in enumerate(found):
            if str(number) in existing and _is_one(root, each, executor, (python,) if python else PYTHONS):
                return each
    return None


def folder_of(target: Target, executor: Executor) -> Workspace:
    """Return the folder of a target's code, after checking that sync may write to it.

    A job runs in the folder that it was submitted from, which may be the user's home.

    Raises:
        DkdbgError: the folder is unknown, or is a home directory, where the repository's files could replace the
            settings of shells and programs.
    """
    found = target.workspace()
    if Capability.TIME_LIMITED in target.capabilities:
        done = process.run(executor.wrap(("sh", "-c", _IS_HOME)), timeout=_TIMEOUT_S)
        if done.code == 0:
            raise DkdbgError(
                f"{target.label} runs in your home folder {printable(found.remote)}: syncing into it could overwrite your shells' start-up files",
                hint=f"dkdbg sync {shlex.quote(str(target.address))} --to {shlex.quote(found.remote.rstrip('/'))}/code, or submit it with --in code",
                exit_code=EXIT_USAGE,
            )
    return found


def _local_mounts() -> list[Mount]:
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            return mounts(file.read(_MAX_OUTPUT_BYTES))
    except OSError:  # macOS
        return bsd_mounts(process.read(("mount",), max_bytes=_MAX_OUTPUT_BYTES, timeout=_TIMEOUT_S).stdout)


def _asked(executor: Executor, text: str) -> str:
    return process.read(
        executor.wrap(("sh", "-c", text)), max_bytes=_MAX_OUTPUT_BYTES, timeout=_TIMEOUT_S
    ).stdout


def _is_one(root: str, folder: str, executor: Executor, pythons: Sequence[str]) -> bool:
    """Return whether local `root` and remote `folder` are the same: a probe created in one appears in the other."""
    with contextlib.suppress(StreamEndedError):
        found = probe(folder, executor, pythons)
        if found is not None:  # None: not writable, so a probe is impossible
            with contextlib.closing(found[0]):
                return is_local(root, found[1])
    return False


#: Escape sequence for space, tab, line end and backslash in /proc/self/mountinfo (proc(5)).
_ESCAPED = re.compile(r"\\([0-7]{3})")
_SSHFS = {"fuse.sshfs", "fuse.rclone", "macfuse", "osxfuse"}
#: Maximum number of guesses that are worth a probe.
_MAX_GUESSES = 6


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A line of mountinfo.

    Attributes:
        source: `server:/export`, `/dev/sda1`, `me@login:/home/me`.
        root: the mounted folder, an absolute path in the source.
        at: mount point on the machine that was queried.
        kind: type of file system.
    """

    source: str
    root: str
    at: str
    kind: str


def mounts(text: str) -> list[Mount]:
    """Return the mounts of a machine, in their order; skip invalid lines.

    Args:
        text: the machine's /proc/self/mountinfo, untrusted.
    """
    found = []
    for line in text.splitlines():
        before, dash, after = line.partition(" - ")
        fields, more = before.split(" "), after.split(" ")
        if dash and len(fields) >= 6 and len(more) >= 2:
            root, at, source = (_plain(each) for each in (fields[3], fields[4], more[1]))
            if at.startswith("/"):
                found.append(Mount(source=source, root=root, at=at, kind=more[0]))
    return found


def bsd_mounts(text: str) -> list[Mount]:
    """Return the mounts in the output of macOS's mount(8), `SOURCE on /FOLDER (KIND, OPTIONS)`."""
    found = re.findall(r"^(.+) on (/.*) \((\w+)[^()]*\)$", text, re.MULTILINE)
    return [Mount(source=source, root="/", at=at, kind=kind) for source, at, kind in found]


def guesses(
    folder: str, local_mounts: Sequence[Mount], remote_mounts: Sequence[Mount], home: str
) -> list[str]:
    """Return paths on the other machine that may lead to `folder`, the likeliest first, absolute and normalized.

    Args:
        folder: absolute path on this machine, without symlinks.
        local_mounts, remote_mounts: the mounts of this and of the other machine.
        home: the user's home on the other machine; empty if unknown.
    """
    mine = _mount_of(folder, local_mounts)
    found = []
    if mine is not None:
        below = posixpath.relpath(folder, mine.at)
        if mine.kind in _SSHFS:
            path = mine.source.partition(":")[2]
            base = path if path.startswith("/") else home and posixpath.join(home, path)
            found += [posixpath.join(base, mine.root.lstrip("/"), below)] if base else []
        elif (whole := _whole(mine)) is not None:
            inside = posixpath.normpath(posixpath.join(whole[1], below))
            for each in remote_mounts:
                other = _whole(each)
                if other is not None and other[0] == whole[0] and _is_below(inside, other[1]):
                    found.append(posixpath.join(each.at, posixpath.relpath(inside, other[1])))
    found.append(folder)  # clusters and their workstations often mount the homes at the same place
    return list(dict.fromkeys(posixpath.normpath(each) for each in found))[:_MAX_GUESSES]


def _whole(mount: Mount) -> tuple[str, str] | None:
    """Return the server or device, and the folder on it; None for a source that cannot be shared, such as tmpfs."""
    server, colon, path = mount.source.partition(":")
    if colon and path.startswith("/"):  # normalized, because a server may export nested folders
        return server, posixpath.normpath(posixpath.join(path, mount.root.lstrip("/")))
    return (mount.source, mount.root) if "/" in mount.source or colon else None


def _mount_of(folder: str, found: Sequence[Mount]) -> Mount | None:
    """Return the mount that `folder` is on: the last one at the deepest mount point above it."""
    above = [each for each in found if _is_below(folder, each.at)]
    return max(enumerate(above), key=lambda each: (len(each[1].at), each[0]))[1] if above else None


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)
