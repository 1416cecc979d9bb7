"""A new folder together with its files: filled in tmp/, and put in place by one rename.

It saves a rename, a check and a name for each file: a first copy consists mostly of this. Unusual cases are
left to the code that places files one by one and reports the details: nothing has been put in place by then.
"""

from __future__ import annotations

import hashlib
import os
import stat

from dkdbg.sync.receiver import content, paths, tree
from dkdbg.sync.receiver.problems import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Optional, Tuple

    from dkdbg.sync.receiver.ledger import Ledger
    from dkdbg.sync.receiver.placing import Placer
    from dkdbg.sync.receiver.state import State
    from dkdbg.sync.receiver.wire import Entry

    Filled = List[Tuple[Entry, os.stat_result]]

_NAME = b"folder"


class Staging:
    """Makes folders with files in them.

    Args:
        state: sync's own folder.
        placer: knows the times of removed files.
    """

    def __init__(self, state: State, book: Ledger, placer: Placer) -> None:
        self._state = state
        self._tree = state.tree
        self._ledger = book
        self._placer = placer
        self._surroundings = _surroundings(state.temporary) if state.temporary >= 0 else None

    def put(self, path: str, mode: int, files: List[List[Any]], body: bytes) -> bool:
        """Make a folder with files from a PACK; return False for an unusual case, in which nothing was done.

        Args:
            path: path of the folder.
            mode: mode of the folder.
            files: id, name, mode, size, mtime_ns, digest and stamp of each.
            body: their contents, one after the other.
        """
        if not self._state.case_sensitive or self._surroundings is None or not _are_usual(path, files):
            return False
        parts = paths.encode(path).split(b"/")
        try:
            above = self._tree.open_folder(parts[:-1])
        except OSError:
            return False
        try:
            if tree.look_at(above, parts[-1]) is not None or _surroundings(above) != self._surroundings:
                return False
            return self._move_in(above, parts[-1], [path, "d", mode, 0, "", ""], files, memoryview(body))
        except (OSError, Refused):
            return False
        finally:
            os.close(above)
            tree.discard(self._state.temporary, _NAME)

    def _move_in(
        self, above: int, name: bytes, entry: Entry, files: List[List[Any]], body: memoryview
    ) -> bool:
        self._tree.make_folder(self._state.temporary, _NAME, entry[2])
        folder = tree.open_below(self._state.temporary, _NAME)
        try:
            filled = self._fill(folder, entry[0] + "/", files, body)
            if filled is None:
                return False
            self._ledger.intend_all([entry, *(one for one, _ in filled)])
            # An entry that has appeared meanwhile stays, unless it is an empty folder.
            os.rename(_NAME, name, src_dir_fd=self._state.temporary, dst_dir_fd=above)
            self._ledger.hold(entry, os.fstat(folder))
        finally:
            os.close(folder)
        for one, info in filled:
            self._ledger.hold(one, info)
        return True

    def _fill(self, folder: int, above: str, files: List[List[Any]], body: memoryview) -> Optional[Filled]:
        """Write the files; return None if a digest does not match, or a mode could not be set."""
        filled: Filled = []
        owner, own, dated = self._tree.owner, self._tree.own, self._placer.dated
        at = 0
        for _, name, mode, size, mtime_ns, digest, stamp in files:
            data = body[at : at + size]
            at += size
            if hashlib.sha256(data).hexdigest() != digest:
                return None
            path = above + name
            made = tree.create_file(folder, name.encode("utf-8", "surrogateescape"), mode)
            try:
                content.write_all(made, data)
                if owner is not None:
                    own(made)
                time_ns = dated(path, size, mtime_ns)
                os.utime(made, ns=(time_ns, time_ns))
                info = os.fstat(made)
            finally:
                os.close(made)
            if info.st_mode & 0o777 != mode:
                return None
            filled.append(([path, "f", mode, size, digest, stamp], info))
        return filled


def _are_usual(path: str, files: List[List[Any]]) -> bool:
    """Tell whether folder and names are certainly valid."""
    names = [one[1] for one in files]
    longest = 4 * max(map(len, names))  # maximum bytes in UTF-8
    return (
        "" not in names
        and paths.is_plain("%s/%s" % (path, "/".join(names)))
        and paths.OWN not in path
        and not any(name.startswith(paths.OWN) for name in names)
        and longest <= paths.MAX_NAME
        and 4 * len(path) + longest < paths.MAX_PATH
    )


def _surroundings(folder: int) -> Optional[Tuple[Any, ...]]:
    """Return the properties that a folder passes on to new entries; None if unknown, or different for each.

    A file that is made in tmp/ and moved must be as if it had been made in its place: same file system,
    group, access control lists and security labels.
    """
    info = os.fstat(folder)
    if info.st_mode & stat.S_ISGID or not hasattr(os, "listxattr"):
        return None
    at = "/proc/self/fd/%d" % folder  # the descriptor may only allow walking
    try:
        attributes = {name: os.getxattr(at, name) for name in os.listxattr(at) if _is_handed_on(name)}
    except OSError:
        return None
    return info.st_dev, info.st_gid, sorted(attributes.items())


def _is_handed_on(name: str) -> bool:
    return name.startswith(("security.", "system."))
