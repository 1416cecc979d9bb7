"""Small files that follow one another and lie in one folder travel in one frame, with that folder if it is new. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dkdbg.sync.receiver import wire

if TYPE_CHECKING:
    from dkdbg.sync.tree.reading import Content

#: What one frame carries at most; the other side places it while we read the next. A head of so many fits, whatever
#: their names are: a character is at most 12 in ASCII JSON.
_FILES, _BYTES = 256, wire.MAX_BODY
#: A file of at most so many bytes leaves room for others.
_SMALL = 64 << 10


class Pack:
    """The files that wait for those after them. Whoever waits for an answer sends them first."""

    def __init__(self) -> None:
        self._folder = ""
        self._made: list[int] = []  # id and mode of the folder, when that is to be made
        self._files: list[list[Any]] = []
        self._names: set[str] = set()
        self._bodies: list[bytes] = []
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._files or self._made)

    def takes(self, folder: str, name: str, size: int) -> bool:
        """Whether a file of `size` bytes in `folder` can go with those that wait; not beside an older self."""
        return not self or (
            folder == self._folder
            and len(self._files) < _FILES
            and self._size + size <= _BYTES
            and name not in self._names
        )

    def make(self, number: int, folder: str, mode: int) -> None:
        """Let a folder wait for files in it, where nothing else waits; its operation is `number`."""
        self._folder, self._made = folder, [number, mode]

    def add(self, number: int, folder: str, name: str, content: Content, body: bytes) -> None:
        """Let a file wait, whose operation is `number`."""
        entry = content.entry
        self._folder = folder
        self._files.append([number, name, entry.mode, len(body), entry.mtime_ns, content.digest, entry.stamp])
        self._bodies.append(body)
        self._names.add(name)
        self._size += len(body)

    def take(self) -> tuple[int, dict[str, Any], bytes]:
        """Kind, head and body of the frame for what waited."""
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
    """Whether a file may go in a pack: it is there with as many bytes as its file system says, and leaves room for others."""
    return (
        content.body is not None and len(content.body) == content.entry.size and len(content.body) <= _SMALL
    )
