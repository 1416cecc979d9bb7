"""Makes room for new entries: removes an entry in the way if sync put it there, and keeps any other.

An entry that sync did not put there, or that has changed since, is never lost: it is moved to
`.dkdbg-sync/kept/TIME/PATH`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time

from dkdbg.sync.receiver import content, ledger, paths, tree
from dkdbg.sync.receiver.problems import Refused
from dkdbg.sync.receiver.state import KEPT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, List, Sequence

    from dkdbg.sync.receiver.ledger import Ledger
    from dkdbg.sync.receiver.tree import Tree
    from dkdbg.sync.receiver.wire import Entry

_OWN = paths.OWN.encode()
_FOLDER_MODE = 0o755


class Obstacles:
    """Makes room below the root.

    Args:
        report: called with the path of each kept entry, and its path in kept/.
    """

    def __init__(self, root: Tree, book: Ledger, report: Callable[[str, str], None]) -> None:
        self._tree = root
        self._ledger = book
        self._report = report

    def parent(self, parts: Sequence[bytes]) -> int:
        """Return a descriptor of the folder above `parts`; create missing folders. Raises OSError."""
        above = parts[:-1]
        try:
            return self._tree.open_folder(above)
        except OSError as error:
            if not tree.is_absent(error):
                raise
        at = self._tree.open_folder(())
        for depth in range(1, len(above) + 1):
            try:
                below = self._enter(at, above[:depth])
            finally:
                os.close(at)
            at = below
        return at

    def _enter(self, folder: int, parts: Sequence[bytes]) -> int:
        """Return a descriptor of a subfolder of the open `folder`; if it is missing, create it by `make_folder`."""
        try:
            return tree.open_below(folder, parts[-1])
        except OSError as error:
            if not tree.is_absent(error):
                raise
        path = paths.decode(b"/".join(parts))
        self.make_folder(folder, path, parts[-1], _FOLDER_MODE)
        return tree.open_below(folder, parts[-1])

    def make_folder(self, folder: int, path: str, name: bytes, mode: int) -> None:
        """Create a folder and record it. Another kind of entry there is removed, or moved to kept/. Raises OSError."""
        old = tree.lstat_at(folder, name)
        entry = [path, "d", mode, 0, "", ""]
        if old is None or tree.kind_of(old) != "d":
            if old is not None:
                self._away(folder, path, name, old)
            self._ledger.intend(entry)
            self._tree.make_folder(folder, name, mode)
        else:
            set_folder_mode(folder, name, mode, old)
        self._ledger.hold(entry, os.stat(name, dir_fd=folder, follow_symlinks=False))

    def before_rename(self, folder: int, name: bytes, old: os.stat_result, entry: Entry) -> None:
        """Make room for renaming `entry` into place. A file stays at its path until the rename replaces it."""
        path, kind, _, size, digest, _ = entry
        if tree.kind_of(old) == "d":
            self._folder_away(folder, path, name)
        elif not self.is_from_sync(folder, path, name, old) and not (
            kind == tree.kind_of(old)
            and (kind == "l" or old.st_size == size)
            and content.digest_at(folder, name, kind) == digest
        ):
            self.set_aside(folder, path, name, old, copy=True)

    def is_from_sync(self, folder: int, path: str, name: bytes, old: os.stat_result) -> bool:
        """Return whether sync put this file or link there: its lstat, or otherwise its digest, is the recorded one."""
        entry = self._ledger.held.get(path)
        if entry is None or entry[ledger.KIND] != tree.kind_of(old):
            return False
        if ledger.is_same(entry, old):
            return True
        found = content.digest_at(folder, name, entry[ledger.KIND])
        return bool(found == entry[ledger.DIGEST])

    def set_aside(
        self, folder: int, path: str, name: bytes, old: os.stat_result, *, copy: bool = False
    ) -> None:
        """Move an entry to kept/. With `copy` hard-link it there: a rename is about to replace it."""
        where = [_OWN, KEPT, time.strftime("%Y%m%dT%H%M%S", time.gmtime()).encode()]
        where[2] += b".%09dZ" % (time.time_ns() % 1_000_000_000)
        where += paths.encode(path).split(b"/")
        place = self._make_way_to(where[:-1])
        try:
            self._move(folder, name, place, where[-1], old, copy=copy)
        finally:
            os.close(place)
        if tree.kind_of(old) == "d":
            self._ledger.forget_below(path)
        elif not copy:
            self._ledger.forget(path)
        self._report(path, paths.decode(b"/".join(where)))

    def _make_way_to(self, parts: List[bytes]) -> int:
        at = self._tree.open_folder(parts[:1])
        for part in parts[1:]:
            with contextlib.suppress(FileExistsError):
                self._tree.make_folder(at, part, 0o700)
            try:
                below = tree.open_below(at, part)
            finally:
                os.close(at)
            at = below
        return at

    def _move(
        self, folder: int, name: bytes, place: int, new: bytes, old: os.stat_result, *, copy: bool
    ) -> None:
        if copy:
            try:
                os.link(name, new, src_dir_fd=folder, dst_dir_fd=place, follow_symlinks=False)
                return
            except (OSError, NotImplementedError):
                pass  # no hard links, or no permission: move it, though its path is then missing for a moment
        try:
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=place)
        except OSError as error:
            if error.errno != errno.EXDEV or tree.kind_of(old) not in ("f", "l"):
                raise
            self._carry(folder, name, place, new, old)
            if not copy:
                os.unlink(name, dir_fd=folder)

    def _carry(self, folder: int, name: bytes, place: int, new: bytes, old: os.stat_result) -> None:
        """Copy a file or link to kept/ from another file system, mounted below the root, where a rename fails."""
        if tree.kind_of(old) == "l":
            self._tree.make_link(place, new, os.readlink(name, dir_fd=folder))
            return
        source = tree.open_file(folder, name)
        try:
            target = tree.create_file(place, new)
            try:
                self._tree.own(target)
                content.copy(source, target)
                os.utime(target, ns=(old.st_mtime_ns, old.st_mtime_ns))
            except OSError:
                tree.remove(place, new)
                raise
            finally:
                os.close(target)
        finally:
            os.close(source)

    def _away(self, folder: int, path: str, name: bytes, old: os.stat_result) -> None:
        if self.is_from_sync(folder, path, name, old):
            os.unlink(name, dir_fd=folder)
            self._ledger.forget(path)
        else:
            self.set_aside(folder, path, name, old)

    def _folder_away(self, folder: int, path: str, name: bytes) -> None:
        """Remove a folder if sync made it and it is empty; otherwise move it to kept/."""
        if path in self._ledger.held:
            try:
                os.rmdir(name, dir_fd=folder)
                self._ledger.forget(path)
                return
            except OSError as error:
                if error.errno == errno.EBUSY:
                    raise Refused(
                        "it is a mount point on the target", "leave it out with [sync] ignore in dkdbg.toml"
                    ) from None
        self.set_aside(folder, path, name, os.stat(name, dir_fd=folder, follow_symlinks=False))


def set_folder_mode(folder: int, name: bytes, mode: int, old: os.stat_result) -> None:
    """Set the mode of a folder in an open folder; setgid and sticky stay. Raises OSError.

    A setgid folder keeps its mode if this process is not in its group, because the kernel would then clear setgid.
    """
    mode |= tree.OWNER_RIGHTS
    special = old.st_mode & (stat.S_ISGID | stat.S_ISVTX)
    if old.st_mode & 0o777 == mode:
        return
    if special & stat.S_ISGID and os.geteuid() != 0 and old.st_gid not in (os.getegid(), *os.getgroups()):
        return
    descriptor = tree.open_below(folder, name)
    try:
        os.fchmod(descriptor, mode | special)
    finally:
        os.close(descriptor)
