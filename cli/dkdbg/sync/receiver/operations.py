"""The stream's operations that change the target. Each one succeeds, or raises Refused and changes nothing."""

from __future__ import annotations

import errno
import os

from dkdbg.sync.receiver import content, ledger, paths, tree
from dkdbg.sync.receiver.obstacles import Obstacles, set_folder_mode
from dkdbg.sync.receiver.placing import Placer, Temporary
from dkdbg.sync.receiver.problems import Refused
from dkdbg.sync.receiver.transfers import Transfers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Tuple

    from dkdbg.sync.receiver.ledger import Ledger
    from dkdbg.sync.receiver.state import State
    from dkdbg.sync.receiver.wire import Entry


class Operations:
    """Carries out PUT, BEGIN, DATA, END, MKDIR, LINK, MODE, ADOPT and DELETE.

    All methods raise OSError and Refused.

    Attributes:
        seen: path -> (size, mtime_ns, ctime_ns, inode), digest from the last STAT: ADOPT relies on it.
    """

    def __init__(self, state: State, book: Ledger, report: Callable[[str, str], None]) -> None:
        self._state = state
        self._tree = state.tree
        self._ledger = book
        self._way = Obstacles(state.tree, book, report)
        self._placer = Placer(state, book, self._way)
        self.transfers = Transfers(state, self._placer)
        self.seen: Dict[str, Tuple[Tuple[int, ...], str]] = {}
        self._names: Optional[Dict[str, str]] = None  # if the file system ignores case: folded path -> path

    def put(self, head: Dict[str, Any], body: bytes) -> None:
        """Put a whole file in place."""
        parts = self._new(head["path"])
        if len(body) != head["size"]:
            raise Refused("received %d of %d bytes" % (len(body), head["size"]))
        if content.of_bytes(body) != head["digest"]:
            raise Refused("the received content does not match its digest", "it changed while it was read")
        name, descriptor = self._placer.new_file(body, head["mode"])
        self._finish(parts, head, name, descriptor)

    def begin(self, head: Dict[str, Any]) -> int:
        """Begin a large file and return how many of its bytes the target already has."""
        try:
            self._new(head["path"])
            return self.transfers.begin(head)
        except (OSError, Refused):
            self.transfers.ignore(head["id"])
            raise

    def end(self, number: int) -> None:
        """Put a large file in place."""
        whole = self.transfers.end(number)
        if whole is None:
            return
        try:
            parts = self._new(whole.head["path"])
            self._placer.dress(whole.descriptor, whole.head["mode"])
        except BaseException:
            os.close(whole.descriptor)
            self._placer.drop(whole.name)
            raise
        self._finish(parts, whole.head, whole.name, whole.descriptor)

    def _finish(self, parts: List[bytes], head: Dict[str, Any], name: bytes, descriptor: int) -> None:
        entry = [head["path"], "f", head["mode"], head["size"], head["digest"], head["stamp"]]
        try:
            self._placer.place(parts, entry, Temporary(name, descriptor, head["mtime_ns"]))
        except BaseException:
            self._placer.drop(name)
            raise
        finally:
            os.close(descriptor)

    def mkdir(self, head: Dict[str, Any]) -> None:
        """Make a folder, or record an existing one."""
        parts = self._new(head["path"])
        folder = self._way.parent(parts)
        try:
            self._way.make_folder(folder, head["path"], parts[-1], head["mode"])
        finally:
            os.close(folder)

    def link(self, head: Dict[str, Any]) -> None:
        """Make a symlink whose target stays in the root."""
        parts = self._new(head["path"])
        target = paths.check_target(head["path"], head["target"])
        entry = [head["path"], "l", 0o777, len(target), content.of_bytes(target), head["stamp"]]
        name = self._placer.temporary_name()
        self._tree.make_link(self._state.temporary, name, target)
        try:
            self._placer.place(parts, entry, Temporary(name, None))
        except BaseException:
            self._placer.drop(name)
            raise

    def mode(self, head: Dict[str, Any]) -> None:
        """Change the mode of a file or folder in the ledger."""
        path, mode = head["path"], head["mode"]
        parts = paths.components(path)
        entry = self._ledger.held.get(path)
        if entry is None or entry[ledger.KIND] == "l":
            raise Refused("sync created no file or folder with this name on the target")
        folder = self._tree.open_folder(parts[:-1])
        try:
            old = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
            if tree.kind_of(old) != entry[ledger.KIND]:
                raise Refused("another kind of entry has this name on the target now")
            changed = [
                path,
                entry[ledger.KIND],
                mode,
                entry[ledger.SIZE],
                entry[ledger.DIGEST],
                head["stamp"],
            ]
            if entry[ledger.KIND] == "d":
                set_folder_mode(folder, parts[-1], mode, old)
                self._ledger.hold(changed, old)
            else:
                self._file_mode(folder, parts, entry, changed, old)
        finally:
            os.close(folder)

    def _file_mode(
        self, folder: int, parts: List[bytes], entry: Entry, changed: Entry, old: os.stat_result
    ) -> None:
        path = entry[ledger.PATH]
        if not self._way.is_from_sync(folder, path, parts[-1], old):
            raise Refused("the file was changed on the target since it was synced")
        if old.st_nlink == 1:
            descriptor = tree.open_file(folder, parts[-1])
            try:
                if os.fstat(descriptor).st_nlink == 1:
                    os.fchmod(descriptor, changed[ledger.MODE])
                    self._ledger.hold(changed, os.fstat(descriptor))
                    return
            except PermissionError:
                pass
            finally:
                os.close(descriptor)
        self._placer.replace_by_copy(folder, parts, changed, old)

    def adopt(self, head: Dict[str, Any]) -> None:
        """Record an existing entry that equals the host's; check its content first."""
        path, kind = head["path"], head["kind"]
        parts = self._new(path)
        folder = self._tree.open_folder(parts[:-1])
        try:
            info = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
            if tree.kind_of(info) != kind:
                raise Refused("another kind of entry has this name on the target")
            if kind != "d" and not self._is_present(folder, parts[-1], info, head):
                raise Refused("its content on the target has changed")
        finally:
            os.close(folder)
        mode, size = head["mode"], 0 if kind == "d" else info.st_size
        real = info.st_mode & 0o777
        if kind != "l" and real != (mode | tree.OWNER_RIGHTS if kind == "d" else mode):
            mode = real
        self._ledger.hold([path, kind, mode, size, head["digest"], head["stamp"]], info)

    def _is_present(self, folder: int, name: bytes, info: os.stat_result, head: Dict[str, Any]) -> bool:
        digest = head["digest"]
        held = self._ledger.held.get(head["path"])
        if held is not None and held[ledger.DIGEST] == digest and ledger.is_same(held, info):
            return True
        if self.seen.pop(head["path"], None) == (tree.signature(info), digest):
            return True
        return bool(content.digest_at(folder, name, head["kind"]) == digest)

    def delete(self, head: Dict[str, Any]) -> Optional[str]:
        """Remove an entry that sync put there.

        Returns the path of a folder that stays because it is not empty, else None.
        """
        path = head["path"]
        parts = paths.components(path)
        entry = self._ledger.held.get(path)
        info = self._tree.lstat(parts)
        if info is None:
            if entry is not None:
                self._ledger.forget(path)
            return None
        if entry is None:
            raise Refused("it was not created by sync", "remove it on the target if it should go")
        folder = self._tree.open_folder(parts[:-1])
        try:
            return self._remove(folder, path, parts[-1], entry, info)
        finally:
            os.close(folder)

    def _remove(
        self, folder: int, path: str, name: bytes, entry: Entry, info: os.stat_result
    ) -> Optional[str]:
        if entry[ledger.KIND] == "d" or tree.kind_of(info) not in ("f", "l"):
            return self._remove_folder(folder, path, name, entry, info)
        if self._way.is_from_sync(folder, path, name, info):
            os.unlink(name, dir_fd=folder)
            self._ledger.forget(path)
            if entry[ledger.KIND] == "f":
                self._placer.remember_gone(path, info)
        else:
            self._way.set_aside(folder, path, name, info)
            self._ledger.forget(path)
        return None

    def _remove_folder(
        self, folder: int, path: str, name: bytes, entry: Entry, info: os.stat_result
    ) -> Optional[str]:
        """Remove a folder if it is empty, and drop it from the ledger; return its path if it stays, otherwise None.

        It stays if it has other files, or if another kind of entry has its name now.

        Raises:
            Refused: the folder contains entries of sync; it stays in the ledger.
        """
        stays = tree.kind_of(info) != "d" or entry[ledger.KIND] != "d"
        if not stays:
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY):
                    raise
                if self._ledger.holds_below(path):
                    raise Refused("the folder still contains something that sync put into it") from None
                stays = True
        self._ledger.forget(path)
        return path if stays else None

    def _new(self, path: str) -> List[bytes]:
        """Return the components of a new path for the ledger.

        Raises:
            Refused: it is not a path below the root, or the file system takes it for another path in the ledger.
        """
        parts = paths.components(path)
        if not self._state.case_sensitive:
            if self._names is None:
                self._names = {_fold(name): name for name in self._ledger.held}
            other = self._names.setdefault(_fold(path), path)
            if other != path and other in self._ledger.held:
                raise Refused(
                    "%s exists on the target, and both names are the same to its file system"
                    % paths.printable(other),
                    "rename one of them",
                )
            self._names[_fold(path)] = path
        return parts


def _fold(path: str) -> str:
    """Return a path as a case-insensitive (or, with APFS, composition-insensitive) file system sees it."""
    import unicodedata

    return unicodedata.normalize("NFC", path).casefold()
