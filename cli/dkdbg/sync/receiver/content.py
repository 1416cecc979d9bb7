"""File content: digests, complete writes into temporary files, copies, and the mtime of a new file."""

from __future__ import annotations

import errno
import os

from dkdbg.sync.receiver import tree
from dkdbg.sync.receiver.problems import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    import hashlib
    from typing import Optional, Tuple, Union

_PIECE = 1 << 20
_SECOND = 1_000_000_000
#: Maximum seconds by which `fresh_mtime` may set a file's mtime ahead of the clock.
_MAX_DRIFT_S = 60


def of_bytes(data: bytes) -> str:
    """Return the digest of content in memory, or of a symlink's target."""
    import hashlib  # imported late: it takes 4 ms

    return hashlib.sha256(data).hexdigest()


def feed(hasher: hashlib._Hash, descriptor: int) -> int:
    """Hash an open file from its position to its end and return the number of bytes."""
    size = 0
    while True:
        piece = os.read(descriptor, _PIECE)
        if not piece:
            return size
        hasher.update(piece)
        size += len(piece)


def digest_at(folder: int, name: bytes, kind: str) -> str:
    """Return the digest of an entry in an open folder; empty for a folder, and for an unreadable file."""
    try:
        if kind == "l":
            return of_bytes(os.readlink(name, dir_fd=folder))
        if kind != "f":
            return ""
        descriptor = tree.open_file(folder, name)
    except (OSError, Refused):
        return ""
    try:
        import hashlib

        hasher = hashlib.sha256()
        feed(hasher, descriptor)
        return hasher.hexdigest()
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: Union[bytes, memoryview]) -> None:
    """Write all of `data`. Raises OSError; a short write without an error means a full disk."""
    done = os.write(descriptor, data)
    while done < len(data):
        more = os.write(descriptor, data[done : done + _PIECE])
        if not more:
            raise OSError(errno.ENOSPC, "no space left to write")
        done += more


def copy(source: int, target: int) -> None:
    """Copy an open file from its start."""
    os.lseek(source, 0, os.SEEK_SET)
    while True:
        piece = os.read(source, _PIECE)
        if not piece:
            return
        write_all(target, piece)


def fresh_mtime(mtime_ns: int, size: int, old: Optional[Tuple[int, int]]) -> int:
    """Return the mtime for a file of `size` bytes that replaces a file with `old` (size, mtime_ns).

    Python considers a .pyc valid if it records the source's size and its mtime in whole seconds. So a save in the same
    second gets an mtime one second later. Several such saves set the mtime ahead of the clock: an `old` mtime up to
    _MAX_DRIFT_S ahead is therefore treated in the same way.
    """
    if old is None or old[0] != size:
        return mtime_ns
    behind = old[1] // _SECOND - mtime_ns // _SECOND
    return (old[1] // _SECOND + 1) * _SECOND if 0 <= behind < _MAX_DRIFT_S else mtime_ns
