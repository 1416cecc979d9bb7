"""PACK: small files of one folder in one frame.

Each is an operation of its own, which succeeds or fails like a PUT.

They share the costs of a single file: the walk to the folder, and the write to the ledger, which holds the
intents of all of them before the first is renamed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os

from dkdbg.sync.receiver import paths, tree
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

    Problem = Union[OSError, Refused]
    Failure = Tuple[int, str, Problem]

#: Maximum characters of a path that is certainly not too long, whatever its length in UTF-8.
_SHORT_PATH_CHARS = 1000
#: Maximum files to have open at the same time; some targets allow 256 descriptors.
_MAX_TOGETHER = 64


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
