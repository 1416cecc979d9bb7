"""One sync from HELLO on: carries out each frame and answers it."""

from __future__ import annotations

import contextlib
import os
import sys

from dkdbg.sync.receiver import listing, paths, wire
from dkdbg.sync.receiver.ledger import Ledger
from dkdbg.sync.receiver.problems import CutError, Fatal, Refused, explain, login_name, user_name
from dkdbg.sync.receiver.root import check_root, open_root
from dkdbg.sync.receiver.state import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, List, Union

    from dkdbg.sync.receiver.outlet import Outlet

    Head = Dict[str, Any]

_STARTING = (wire.PUT, wire.PACK, wire.BEGIN, wire.MKDIR, wire.LINK, wire.MODE, wire.ADOPT, wire.DELETE)
_WRITING = (*_STARTING, wire.DATA, wire.END)


class Session:
    """The receiver's answers. Frames have been checked by `heads`; HELLO is the first.

    Attributes:
        silence: seconds without a frame after which the host counts as gone; 0: never.
    """

    def __init__(self, hello: Head, outlet: Outlet) -> None:
        """Open the root and answer with READY and LISTING. Raises Fatal and OSError."""
        self._outlet = outlet
        self.silence: int = hello.get("silence_s", 0)
        self._write: bool = hello.get("write", True)
        self._last = 0  # the largest id so far
        self._number = 0  # id of the current operation
        self._told = 0  # id in the last DONE
        self._touched = False
        self._begun: Dict[int, str] = {}
        create = hello.get("create", False) and self._write
        self._tree, name = open_root(hello["root"], create=create)
        self._names = (hello["root"], name)
        self._state = State(self._tree, name, write=self._write, by=hello.get("by", ""))
        source = hello.get("source", "") if self._write else ""
        self._former = self._state.take_source(source) if source else ""
        self._ledger = Ledger(self._state.folder, write=self._write)
        if hello.get("probe", False) and self._write:
            self._state.make_probe()
        self._greet(name, short=hello.get("summary", False))
        from dkdbg.sync.receiver.operations import Operations  # imported late: by now the host is busy

        self._operations = Operations(self._state, self._ledger, self._kept)
        self._handlers = {
            wire.PUT: self._operations.put, wire.PACK: self._pack, wire.BEGIN: self._begin, wire.DATA: self._data, wire.END: self._end,
            wire.MKDIR: lambda head, _: self._operations.mkdir(head), wire.LINK: lambda head, _: self._operations.link(head),
            wire.MODE: lambda head, _: self._operations.mode(head), wire.ADOPT: lambda head, _: self._operations.adopt(head),
            wire.DELETE: self._delete, wire.STAT: self._stat, wire.VERIFY: self._verify, wire.LIST: self._list,
            wire.GET: self._get, wire.SHOW: self._show, wire.PING: self._ping,
        }  # fmt: skip

    def _greet(self, root: str, *, short: bool) -> None:
        own = paths.OWN
        ready = {
            "version": wire.VERSION,
            "python": "%d.%d.%d" % sys.version_info[:3],
            "pid": os.getpid(),
            "user": login_name(os.geteuid()) or user_name(os.geteuid()),
            "root": root,
            "probe": self._state.probe,
            "empty": not any(name != own for name in os.listdir(self._tree.root)),
            "case_sensitive": self._state.case_sensitive,
            "former": self._former,
        }
        self._outlet.send(wire.READY, ready)
        self._outlet.flush()
        listing.settle_intents(self._tree, self._ledger, clean=self._write)
        entries = listing.survey(self._tree, self._ledger)
        if short:
            from dkdbg.sync.receiver import summary

            self._send(wire.SUMMARY, summary.folders(entries))
        else:
            self._send(wire.LISTING, entries)
        self._outlet.flush()
        self._save()
        self._ledger.compact()

    def handle(self, kind: int, head: Head, body: bytes) -> None:
        """Carry out a frame. Raises Fatal when the stream is over."""
        if self._state.probe:
            self._state.remove_probe()
        number = head.get("id", 0)
        if kind in _WRITING:
            self._admit(kind, _numbers(head) if kind == wire.PACK else [number])
        self._number = number
        try:
            self._handlers[kind](head, body)
        except (OSError, Refused) as error:
            if isinstance(error, ConnectionError) or kind == wire.PACK:
                raise
            self._fail(number, head.get("path") or self._begun.pop(number, ""), error)

    def _admit(self, kind: int, numbers: List[int]) -> None:
        if not self._write:
            raise Fatal("%s, but HELLO said that nothing will be written" % wire.NAMES[kind])
        for number in numbers if kind in _STARTING else ():
            if number <= self._last:
                raise Fatal("operation %d after %d: ids must grow" % (number, self._last))
            self._last = number
        self._touched = True

    def settle(self) -> None:
        """Report progress: everything received has been done.

        Raises Fatal and CutError when the results would be lost.
        """
        if self._write:
            check_root(self._tree, *self._names)
        first = self._operations.transfers.first_open()
        upto = self._last if first is None else first - 1
        if upto > self._told:
            self._save()
            self._ledger.check()
            self._outlet.send(wire.DONE, {"upto": upto})
            self._told = upto
        self._outlet.flush()

    def close(self) -> None:
        """Finish. Write the ledger, leave parts of large files for the next receiver, and remove unused folders."""
        self._state.remove_probe()
        if not self._write:
            return
        self._operations.transfers.close()
        self._save()
        self._ledger.compact()
        if self._state.made and not self._touched:
            self._state.remove_if_unused()

    def _save(self) -> None:
        with contextlib.suppress(OSError):
            self._ledger.flush()  # on a full disk it stays in memory; the logged intents recover it

    def _fail(self, number: int, path: str, error: Union[OSError, Refused]) -> None:
        if self._write:
            check_root(self._tree, *self._names)
            self._ledger.check()
            if os.fstat(self._state.temporary).st_nlink == 0:
                raise CutError("%s/tmp was removed from the target while sync ran" % paths.OWN)
        if isinstance(error, Refused):
            reason, hint = error.reason, error.hint
        else:
            reason, hint = explain(error)
        self._outlet.send(wire.FAILED, {"id": number, "path": path, "reason": reason, "hint": hint})

    def _send(self, kind: int, entries: Iterable[wire.Entry]) -> None:
        for frame in wire.encode_entries(kind, entries):
            self._outlet.send_encoded(frame)

    def _kept(self, path: str, where: str) -> None:
        self._outlet.send(wire.KEPT, {"id": self._number, "path": path, "where": where})

    def _pack(self, head: Head, body: bytes) -> None:
        for number, path, error in self._operations.pack(head, body, self._begins):
            self._fail(number, path, error)

    def _begins(self, number: int) -> None:
        self._number = number

    def _begin(self, head: Head, _: bytes) -> None:
        offset = self._operations.begin(head)
        self._begun[head["id"]] = head["path"]
        self._outlet.send(wire.RESUME, {"id": head["id"], "offset": offset})
        self._outlet.flush()

    def _data(self, head: Head, body: bytes) -> None:
        self._operations.transfers.data(head["id"], body)

    def _end(self, head: Head, _: bytes) -> None:
        self._operations.end(head["id"])
        self._begun.pop(head["id"], None)

    def _delete(self, head: Head, _: bytes) -> None:
        left = self._operations.delete(head)
        if left is not None:
            self._kept(left, left)

    def _stat(self, head: Head, _: bytes) -> None:
        asked = head["paths"]
        if not all(type(path) is str for path in asked):
            raise Fatal("STAT needs paths as text")
        found, wrong = listing.stat_paths(self._tree, asked, self._operations.seen)
        for path, error in wrong:
            self._fail(0, path, error)
        self._send(wire.STATS, found)

    def _verify(self, _head: Head, _body: bytes) -> None:
        self._send(wire.LISTING, listing.survey(self._tree, self._ledger, fresh=True))
        self._send(wire.REMOTE, listing.others(self._tree, self._ledger))

    def _show(self, head: Head, _: bytes) -> None:
        asked = head["folders"]
        if not all(type(path) is str for path in asked):
            raise Fatal("SHOW needs folders as text")
        self._send(wire.LISTING, listing.survey(self._tree, self._ledger, folders=frozenset(asked)))

    def _list(self, head: Head, _: bytes) -> None:
        self._send(wire.LISTING, listing.list_below(self._tree, head["path"]))

    def _get(self, head: Head, _: bytes) -> None:
        try:
            listing.send_file(self._tree, head["path"], self._outlet.send_encoded, most=head.get("size"))
        except FileNotFoundError:
            raise Refused("there is no such file on the target") from None

    def _ping(self, head: Head, _: bytes) -> None:
        self._outlet.send(wire.PONG, {"n": head["n"]})


def _numbers(head: Head) -> List[int]:
    """Return the ids in a PACK: its folder's, if that has to be made, and its files'."""
    return [*head.get("make", [])[:1], *(one[0] for one in head["files"])]
