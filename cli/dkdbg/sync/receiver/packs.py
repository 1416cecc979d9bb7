"""PACK: small files of one folder in one frame.

Each is an operation of its own, which succeeds or fails like a PUT.

They share the costs of a single file: the walk to the folder, and the write to the ledger, which holds the
intents of all of them before the first is renamed. A new folder together with its files is filled in tmp/, and
put in place by one rename (`Staging`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat

from dkdbg.sync.receiver import content, paths, tree
from dkdbg.sync.receiver.ledger import PATH
from dkdbg.sync.receiver.placing import Temporary
from dkdbg.sync.receiver.problems import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Tuple, Union

    from dkdbg.sync.receiver.ledger import Ledger
    from dkdbg.sync.receiver.obstacles import Obstacles
    from dkdbg.sync.receiver.placing import Placer
    from dkdbg.sync.receiver.state import State
    from dkdbg.sync.receiver.wire import Entry

    Filled = List[Tuple[Entry, os.stat_result]]
    Problem = Union[OSError, Refused]
    Failure = Tuple[int, str, Problem]

#: Maximum characters of a path that is certainly not too long, whatever its length in UTF-8.
_SHORT_PATH_CHARS = 1000
#: Maximum files to have open at the same time; some targets allow 256 descriptors.
_MAX_TOGETHER = 64
#: Name in tmp/ of a folder that is being filled.
_NAME = b"folder"


class _Packed:
    """One file of a pack, in tmp/, with its descriptor open."""

    __slots__ = ("entry", "number", "parts", "temporary")

    def __init__(self, number: int, parts: List[bytes], entry: Entry, temporary: Temporary) -> None:
        self.number = number
        self.parts = parts
        self.entry = entry
        self.temporary = temporary


class Packs:
    """Puts the files of packs in place.

    Args:
        state: sync's own folder.
        way: makes room below the root.
        admit: raises Refused for a path that the file system maps to another name that sync holds.
    """

    def __init__(
        self, state: State, book: Ledger, way: Obstacles, placer: Placer, admit: Callable[[str], None]
    ) -> None:
        self._state = state
        self._ledger = book
        self._way = way
        self._placer = placer
        self._admit = admit
        self._above: Tuple[str, List[bytes]] = ("", [])  # the folder whose components are known

    def put(self, head: Dict[str, Any], body: bytes, begins: Callable[[int], None]) -> List[Failure]:
        """Put all files of a pack in place and return the failures: id, path and reason.

        Args:
            head: the frame's head.
            body: the files' contents, one after the other.
            begins: called with the id of a file that may have to keep an entry.
        """
        above = head["folder"] + "/" if head["folder"] else ""
        failed: List[Failure] = []
        files, at = head["files"], 0
        together = (
            _MAX_TOGETHER if self._state.case_sensitive else 1
        )  # one after the other: one name may be in the way of the next
        for first in range(0, len(files), together):
            group: List[_Packed] = []
            try:
                for one in files[first : first + together]:
                    end = at + one[3]
                    try:
                        group.append(self._write(above + one[1], one, body[at:end]))
                    except (OSError, Refused) as error:
                        failed.append((one[0], above + one[1], error))
                    at = end
                self._place(group, failed, begins)
            finally:
                for packed in group:
                    if packed.temporary.descriptor is not None:
                        with contextlib.suppress(OSError):
                            os.close(packed.temporary.descriptor)
        return failed

    def _write(self, path: str, one: List[Any], data: bytes) -> _Packed:
        """Write one file to tmp/. Raises OSError or Refused: nothing is left."""
        number, _, mode, size, mtime_ns, digest, stamp = one
        parts = self._components(path, one[1])
        self._admit(path)
        if hashlib.sha256(data).hexdigest() != digest:
            raise Refused("the received content does not match its digest", "it changed while it was read")
        name, descriptor = self._placer.new_file(data, mode)
        entry = [path, "f", mode, size, digest, stamp]
        return _Packed(number, parts, entry, Temporary(name, descriptor, mtime_ns))

    def _components(self, path: str, name: str) -> List[bytes]:
        """Return the components of a path that ends in `name`; those of the folder are the same for many."""
        if len(path) > _SHORT_PATH_CHARS:
            return paths.components(path)
        above = path[: len(path) - len(name)]
        if above != self._above[0]:
            self._above = (above, paths.components(above[:-1]) if above else [])
        return self._above[1] + paths.components(name)

    def _place(self, group: List[_Packed], failed: List[Failure], begins: Callable[[int], None]) -> None:
        """Rename files of one folder to their places: together where nothing is in the way, else one by one."""
        if not group:
            return
        begins(group[0].number)
        folder = self._intended(group)
        try:
            for one in group:
                problem = self._place_one(folder, one, begins)
                if problem is not None:
                    self._placer.drop(one.temporary.name)
                    failed.append((one.number, one.entry[PATH], problem))
        finally:
            if folder >= 0:
                os.close(folder)

    def _place_one(self, folder: int, one: _Packed, begins: Callable[[int], None]) -> Optional[Problem]:
        try:
            if folder < 0 or not self._placed(folder, one):
                begins(one.number)
                self._placer.place(one.parts, one.entry, one.temporary)
            descriptor, one.temporary.descriptor = one.temporary.descriptor, None
            if descriptor is not None:
                os.close(descriptor)  # some file systems report failed writes here
        except ConnectionError:
            raise  # the host would not learn that an entry was kept
        except (OSError, Refused) as error:
            return error
        return None

    def _intended(self, group: List[_Packed]) -> int:
        """Log the intents of the files together, and return a descriptor of their folder.

        Return -1 for a single file, or on failure: then each file does both itself.
        """
        if len(group) < 2:
            return -1
        try:
            folder = self._way.parent(group[0].parts)
        except (OSError, Refused):
            return -1
        try:
            self._ledger.intend_all([one.entry for one in group])
        except OSError:
            os.close(folder)
            return -1
        return folder

    def _placed(self, folder: int, one: _Packed) -> bool:
        """Place a file in its folder; return False when more than that is needed. Raises OSError."""
        try:
            return self._placer.place_intended(folder, one.parts[-1], one.entry, one.temporary)
        except OSError as error:
            if tree.may_pass(error):
                return False
            raise


class Staging:
    """Makes folders with files in them.

    It saves a rename, a check and a name for each file: a first copy consists mostly of this. Unusual cases are
    left to the code that places files one by one and reports the details: nothing has been put in place by then.

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
