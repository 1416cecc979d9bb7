"""Reads a file for sending, and detects changes meanwhile."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from typing import TYPE_CHECKING, NamedTuple

from dkdbg.sync.beneath import Beneath
from dkdbg.sync.receiver.tree import is_absent
from dkdbg.sync.tree.entries import FILE, Entry
from dkdbg.sync.tree.scan import stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Nanoseconds after a change in which another change may get the same timestamp. Kernels tick every 1 to 10 ms
#: (`_TICK`); some file systems store whole seconds, up to two (`_COARSE`).
_TICK, _COARSE = 30_000_000, 2_100_000_000

_PIECE = 1 << 20


class FileChangedError(Exception):
    """The file was written, replaced or removed while it was read: read it again when it is quiet."""


class Content(NamedTuple):
    """A file's content.

    Attributes:
        entry: the file's entry when reading began. Its stamp is empty if another change may get the same
            timestamp, or if the file has grown.
        digest: sha256 of the content, in hex.
        body: the content if it is at most `keep_bytes` bytes (see `read`), else None.
        grown: whether the file grew while it was read; `body` and `digest` cover its size when reading began.
    """

    entry: Entry
    digest: str
    body: bytes | None
    grown: bool = False


def read(
    root: str | Beneath, path: str, *, keep_bytes: int = _PIECE, now: Callable[[], int] = time.time_ns, growing: bool = False,
    between: Callable[[], object] = lambda: None,
) -> Content:  # fmt: skip
    """Read `path`, relative to `root`, to its end. Follows no symlink below the root.

    Args:
        root: the local root, absolute and resolved, or a `Beneath` of it, which saves opening the root for each file.
        keep_bytes: maximum bytes to return as `Content.body`.
        growing: whether the file may grow meanwhile, like a log: read only up to its size at the beginning.
        between: called after each 1 MiB of a file longer than `keep_bytes`: reading it may take some seconds.

    Raises:
        FileChangedError: the file changed meanwhile, is gone, or is not a file any more.
        OSError: it cannot be read.
    """
    fd = _open(root, path)
    try:
        began = now()
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            raise FileChangedError(path)
        if before.st_size <= min(keep_bytes, _PIECE):
            whole = _whole(fd, before.st_size)
            body: bytes | None = whole
            digest = hashlib.sha256(whole).hexdigest()
        else:
            body, digest = _piecemeal(fd, before.st_size, keep_bytes, between)
        after = os.fstat(fd)
        changed = not _same(after, before)
        if changed and not (growing and after.st_size >= before.st_size):
            raise FileChangedError(path)
    finally:
        os.close(fd)
    entry = _entry(before, began)
    return Content(entry._replace(stamp="") if changed else entry, digest, body, changed)


def _whole(fd: int, size: int) -> bytes:
    """Return the next `size` bytes of an open file, or fewer at its end."""
    data = os.read(fd, size)
    return data if len(data) == size else data + b"".join(_pieces(fd, size - len(data)))


def _piecemeal(
    fd: int, size: int, keep_bytes: int, between: Callable[[], object]
) -> tuple[bytes | None, str]:
    """Read `size` bytes in pieces; return them (None if more than `keep_bytes`) and their digest."""
    digest, kept = hashlib.sha256(), list[bytes]()
    for piece in _pieces(fd, size):
        digest.update(piece)
        if size <= keep_bytes:
            kept.append(piece)
        else:
            between()
    return b"".join(kept) if size <= keep_bytes else None, digest.hexdigest()


def _same(one: os.stat_result, other: os.stat_result) -> bool:
    """Return whether two stats mean equal content; faster than `tree.signature` for thousands of files."""
    return (
        one.st_mtime_ns == other.st_mtime_ns and one.st_ctime_ns == other.st_ctime_ns
        and one.st_size == other.st_size and one.st_ino == other.st_ino
    )  # fmt: skip


def pieces(
    root: str | Beneath, path: str, entry: Entry, *, offset: int = 0, growing: bool = False
) -> Iterator[bytes]:
    """Yield the content of `path` from `offset` in pieces of up to 1 MiB, as long as `entry` describes the file.

    The size and mtime of `entry` are compared before the first piece; changes are detected again after the last
    one. With `growing` the file may have become longer: only its first `entry.size` bytes are yielded, whose digest the
    receiver checks.

    Raises:
        FileChangedError: `path` is another file, or changed meanwhile.
        OSError: it cannot be read.
    """
    fd = _open(root, path)
    try:
        before = os.fstat(fd)
        if not growing and (before.st_size, before.st_mtime_ns) != (entry.size, entry.mtime_ns):
            raise FileChangedError(path)
        os.lseek(fd, offset, os.SEEK_SET)
        yield from _pieces(fd, entry.size - offset)
        after = os.fstat(fd)
        if after.st_size < entry.size if growing else not _same(after, before):
            raise FileChangedError(path)
    finally:
        os.close(fd)


def _open(root: str | Beneath, path: str) -> int:
    try:
        return (Beneath(root) if isinstance(root, str) else root).open_file(path)
    except OSError as error:
        if is_absent(error):
            raise FileChangedError(path) from error
        raise


def _pieces(fd: int, size: int) -> Iterator[bytes]:
    """Yield the next `size` bytes of an open file, or fewer at its end: a growing file needs the limit."""
    while size > 0 and (piece := os.read(fd, min(_PIECE, size))):
        yield piece
        size -= len(piece)


def _entry(status: os.stat_result, began: int) -> Entry:
    margin = _COARSE if status.st_ctime_ns % 1_000_000_000 == 0 else _TICK
    racy = status.st_ctime_ns > began - margin  # not mtime, which programs can set
    version = "" if racy else stamp(status)
    return Entry(FILE, status.st_mode & 0o777, status.st_size, status.st_mtime_ns, version)
