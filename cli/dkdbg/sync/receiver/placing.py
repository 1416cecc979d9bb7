"""Puts whole files and symlinks into place: creates them in `.dkdbg-sync/tmp/`, logs, renames and confirms them."""

from __future__ import annotations

import contextlib
import errno
import os

from dkdbg.sync.receiver import content, paths, tree
from dkdbg.sync.receiver.ledger import MODE, PATH, SIZE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Optional, Sequence, Tuple

    from dkdbg.sync.receiver.ledger import Ledger
    from dkdbg.sync.receiver.obstacles import Obstacles
    from dkdbg.sync.receiver.state import State
    from dkdbg.sync.receiver.wire import Entry

#: Maximum attempts to place a file while another process removes or replaces its folder.
_MAX_ATTEMPTS = 3
_MAX_REMEMBERED = 10_000


class Temporary:
    """A file or symlink in tmp/ that is about to be placed.

    Attributes:
        name: its name in tmp/.
        descriptor: descriptor of the open file; None for a symlink.
        mtime_ns: mtime of the file after placing.
    """

    __slots__ = ("descriptor", "mtime_ns", "name")

    def __init__(self, name: bytes, descriptor: Optional[int], mtime_ns: int = 0) -> None:
        self.name = name
        self.descriptor = descriptor
        self.mtime_ns = mtime_ns


class Placer:
    """Puts files and symlinks into place below the root."""

    def __init__(self, state: State, book: Ledger, way: Obstacles) -> None:
        self._state = state
        self._tree = state.tree
        self._ledger = book
        self._way = way
        self._count = 0
        self._gone: Dict[
            str, Tuple[int, int]
        ] = {}  # removed files: (size, mtime_ns), for content.fresh_mtime

    def temporary_name(self) -> bytes:
        """Return a new name in tmp/."""
        self._count += 1
        return b"t%d" % self._count

    def new_file(self, data: bytes, mode: int) -> Tuple[bytes, int]:
        """Write a temporary file; return its name and open descriptor. Raises OSError, after removing the file."""
        name = self.temporary_name()
        descriptor = tree.create_file(self._state.temporary, name, mode)  # tmp/ is private
        try:
            content.write_all(descriptor, data)
            self._tree.own(descriptor)
        except OSError:
            os.close(descriptor)
            self.drop(name)
            raise
        return name, descriptor

    def dress(self, descriptor: int, mode: int) -> None:
        """Set the final owner and mode of a temporary file."""
        self._tree.own(descriptor)
        with contextlib.suppress(PermissionError):  # a file system without modes: vfat, some network mounts
            os.fchmod(descriptor, mode)

    def drop(self, name: bytes) -> None:
        """Remove a temporary file."""
        tree.remove(self._state.temporary, name)

    def remember_gone(self, path: str, old: os.stat_result) -> None:
        """Remember a removed file, so that a new file at its path gets another mtime (`content.fresh_mtime`)."""
        if len(self._gone) >= _MAX_REMEMBERED:
            self._gone.clear()
        self._gone[path] = (old.st_size, old.st_mtime_ns)

    def place(self, parts: Sequence[bytes], entry: Entry, temporary: Temporary) -> None:
        """Rename a temporary file or symlink to its place.

        Raises:
            OSError: it failed; the temporary file is still there.
            Refused: the same, with a reason for the user.
        """
        left = _MAX_ATTEMPTS
        while left:
            left -= 1
            try:
                folder = self._way.parent(parts)
                try:
                    self._place_in(folder, parts[-1], entry, temporary)
                finally:
                    os.close(folder)
                return
            except OSError as error:
                if not left or not tree.may_pass(error):
                    raise

    def _place_in(self, folder: int, last: bytes, entry: Entry, temporary: Temporary) -> None:
        old = tree.lstat_at(folder, last)
        if old is not None:
            self._way.before_rename(folder, last, old, entry)
        self._date(entry, temporary, old)
        self._ledger.intend(entry)
        self._rename(folder, last, entry, temporary)

    def _date(self, entry: Entry, temporary: Temporary, old: Optional[os.stat_result]) -> None:
        """Set a temporary file's time; `old` is the file that it replaces."""
        before = self._gone.pop(entry[PATH], None)
        if old is not None:
            before = (old.st_size, old.st_mtime_ns)
        if temporary.descriptor is not None:
            temporary.mtime_ns = content.fresh_mtime(temporary.mtime_ns, entry[SIZE], before)
            os.utime(temporary.descriptor, ns=(temporary.mtime_ns, temporary.mtime_ns))

    def _rename(self, folder: int, last: bytes, entry: Entry, temporary: Temporary) -> None:
        descriptor = temporary.descriptor
        try:
            os.rename(temporary.name, last, src_dir_fd=self._state.temporary, dst_dir_fd=folder)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._carry(folder, last, temporary, entry[MODE])
            descriptor = None
        if descriptor is None:
            info = os.stat(last, dir_fd=folder, follow_symlinks=False)
        else:
            info = os.fstat(descriptor)
            if info.st_mode & 0o777 != entry[MODE]:  # inherited ACLs change the mode at creation
                self.dress(descriptor, entry[MODE])
                info = os.fstat(descriptor)
        self._ledger.hold(entry, info)

    def _carry(self, folder: int, last: bytes, temporary: Temporary, mode: int) -> None:
        """Copy a temporary file to another file system, which is mounted below the root, and rename it there."""
        stray = paths.STRAY + os.urandom(8).hex().encode()
        try:
            if temporary.descriptor is None:
                target = os.readlink(temporary.name, dir_fd=self._state.temporary)
                self._tree.make_link(folder, stray, target)
            else:
                made = tree.create_file(folder, stray)
                try:
                    content.copy(temporary.descriptor, made)
                    self.dress(made, mode)
                    os.utime(made, ns=(temporary.mtime_ns, temporary.mtime_ns))
                finally:
                    os.close(made)
            os.rename(stray, last, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            tree.remove(folder, stray)
            raise
        self.drop(temporary.name)

    def replace_by_copy(self, folder: int, parts: Sequence[bytes], entry: Entry, old: os.stat_result) -> None:
        """Set the mode by replacing the file with a copy, because it has other hard links or another owner."""
        source = tree.open_file(folder, parts[-1])
        name = self.temporary_name()
        try:
            made = tree.create_file(self._state.temporary, name)
            try:
                content.copy(source, made)
                self.dress(made, entry[MODE])
                self.place(parts, entry, Temporary(name, made, old.st_mtime_ns))
            finally:
                os.close(made)
        except BaseException:
            self.drop(name)
            raise
        finally:
            os.close(source)
