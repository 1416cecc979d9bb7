"""Collects adjacent small files of one folder for one frame, with that folder if it is new. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dkdbg.sync.receiver import wire

if TYPE_CHECKING:
    from dkdbg.sync.tree.reading import Content

#: Maximum files and bytes in one frame; the other side places it while we read the next. A head of so many
#: fits with any names: a character is at most 12 in ASCII JSON.
_MAX_FILES, _MAX_BYTES = 256, wire.MAX_BODY
#: Maximum bytes of a file that leaves room for others.
_MAX_SMALL_BYTES = 64 << 10


class Pack:
    """The collected files. Before waiting for an answer, send them."""

    def __init__(self) -> None:
        self._folder = ""
        self._made: list[int] = []  # id and mode of the folder, when that has to be made
        self._files: list[list[Any]] = []
        self._names: set[str] = set()
        self._bodies: list[bytes] = []
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._files or self._made)

    def takes(self, folder: str, name: str, size: int) -> bool:
        """Tell whether a file of `size` bytes in `folder` can join the collected ones. Not beside its older version."""
        return not self or (
            folder == self._folder
            and len(self._files) < _MAX_FILES
            and self._size + size <= _MAX_BYTES
            and name not in self._names
        )

    def make(self, number: int, folder: str, mode: int) -> None:
        """Add a folder to an empty pack, to wait for files in it; its operation is `number`."""
        self._folder, self._made = folder, [number, mode]

    def add(self, number: int, folder: str, name: str, content: Content, body: bytes) -> None:
        """Add a file, whose operation is `number`."""
        entry = content.entry
        self._folder = folder
        time_ns = wire.time_of(entry.mtime_ns)
        self._files.append([number, name, entry.mode, len(body), time_ns, content.digest, entry.stamp])
        self._bodies.append(body)
        self._names.add(name)
        self._size += len(body)

    def take(self) -> tuple[int, dict[str, Any], bytes]:
        """Return kind, head and body of the frame, and empty the pack."""
        made = self._made
        head: dict[str, Any]
        if self._files:
            kind, head = wire.PACK, {"folder": self._folder, "files": self._files}
            if made:
                head["make"] = made
        else:
            kind, head = wire.MKDIR, {"id": made[0], "path": self._folder, "mode": made[1]}
        body = b"".join(self._bodies)
        self._made, self._files, self._names, self._bodies, self._size = [], [], set(), [], 0
        return kind, head, body


def is_small(content: Content) -> bool:
    """Tell whether a file may go in a pack: its whole content was read, and it leaves room for others."""
    return (
        content.body is not None
        and len(content.body) == content.entry.size
        and len(content.body) <= _MAX_SMALL_BYTES
    )
