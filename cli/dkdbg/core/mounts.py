"""Guess the location of a local folder on another machine, by the mounts of both. Pure; a probe confirms it."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Escape sequence for space, tab, line end and backslash in /proc/self/mountinfo (proc(5)).
_ESCAPED = re.compile(r"\\([0-7]{3})")
_SSHFS = {"fuse.sshfs", "fuse.rclone"}
#: Maximum number of guesses that are worth a probe.
_MOST = 6


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A line of mountinfo.

    Attributes:
        source: `server:/export`, `/dev/sda1`, `me@login:/home/me`.
        root: the mounted folder of the source, absolute there.
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
        text: its /proc/self/mountinfo, untrusted.
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


def guesses(folder: str, here: Sequence[Mount], there: Sequence[Mount], home: str) -> list[str]:
    """Return the folders of the other machine that may be `folder`, the likelier first, absolute and normalized.

    Args:
        folder: absolute, with no links in it, on this machine.
        here, there: the mounts of both.
        home: home of the user there; empty if unknown.
    """
    mine = _mount_of(folder, here)
    found = []
    if mine is not None:
        below = posixpath.relpath(folder, mine.at)
        if mine.kind in _SSHFS:
            path = mine.source.partition(":")[2]
            base = path if path.startswith("/") else home and posixpath.join(home, path)
            found += [posixpath.join(base, mine.root.lstrip("/"), below)] if base else []
        elif (whole := _whole(mine)) is not None:
            inside = posixpath.normpath(posixpath.join(whole[1], below))
            for each in there:
                other = _whole(each)
                if other is not None and other[0] == whole[0] and _is_below(inside, other[1]):
                    found.append(posixpath.join(each.at, posixpath.relpath(inside, other[1])))
    found.append(folder)  # clusters and their workstations often mount the homes at the same place
    return list(dict.fromkeys(posixpath.normpath(each) for each in found))[:_MOST]


def _whole(mount: Mount) -> tuple[str, str] | None:
    """Return the server or device, and the folder of it; None for a source that only this machine has, such as tmpfs."""
    server, colon, path = mount.source.partition(":")
    if colon and path.startswith("/"):  # two exports of a server may lie in each other
        return server, posixpath.normpath(posixpath.join(path, mount.root.lstrip("/")))
    return (mount.source, mount.root) if "/" in mount.source or colon else None


def _mount_of(folder: str, found: Sequence[Mount]) -> Mount | None:
    """Return the last mount at the deepest folder above `folder`."""
    above = [each for each in found if _is_below(folder, each.at)]
    return max(enumerate(above), key=lambda each: (len(each[1].at), each[0]))[1] if above else None


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)
