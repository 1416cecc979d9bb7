"""One sync from HELLO on: opens the root, carries out each frame, and answers it through the outlet."""

from __future__ import annotations

import contextlib
import os
import sys

from dkdbg.sync.receiver import listing, paths, wire
from dkdbg.sync.receiver.ledger import Ledger
from dkdbg.sync.receiver.problems import CutError, Fatal, Refused, explain, login_name, user_name
from dkdbg.sync.receiver.state import State
from dkdbg.sync.receiver.tree import Tree, mounts_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, List, Tuple, Union

    Head = Dict[str, Any]

_STARTING = (wire.PUT, wire.BEGIN, wire.MKDIR, wire.LINK, wire.MODE, wire.ADOPT, wire.DELETE)
_WRITING = (*_STARTING, wire.DATA, wire.END)
_FOLDER_MODE = 0o755
_FLUSH_BYTES = 1 << 16


class Session:
    """Answers the frames of one stream, which receiver.py has checked. The first is HELLO.

    Attributes:
        silence: timeout in seconds for the next frame, after which the host counts as gone; 0 for none.
    """

    def __init__(self, hello: Head, outlet: Outlet) -> None:
        """Open the root and answer with READY and LISTING. Raises Fatal and OSError."""
        self._outlet = outlet
        self.silence: int = hello.get("silence_s", 0)
        self._write: bool = hello.get("write", True)
        self._last = 0  # the largest id so far
        self._number = 0  # id of the current operation
        self._acknowledged = 0  # id in the last DONE
        self._touched = False
        self._begun: Dict[int, str] = {}
        create = hello.get("create", False) and self._write
        self._tree, name = open_root(hello["root"], create=create)
        self._names = (hello["root"], name)
        self._state = State(self._tree, name, write=self._write, by=hello.get("by", ""))
        source = hello.get("source", "") if self._write else ""
        try:
            self._former = self._state.take_source(source) if source else ""
            self._ledger = Ledger(self._state.folder, write=self._write)
            if hello.get("probe", False) and self._write:
                self._state.make_probe()
            self._greet(name)
        except BaseException:  # no caller closes a session whose __init__ has failed
            self._leave()
            raise
        from dkdbg.sync.receiver.operations import Operations  # late: the host is busy now

        self._operations = Operations(self._state, self._ledger, self._send_kept)
        self._handlers = {
            wire.PUT: self._operations.put, wire.BEGIN: self._begin, wire.DATA: self._data, wire.END: self._end,
            wire.MKDIR: lambda head, _: self._operations.mkdir(head), wire.LINK: lambda head, _: self._operations.link(head),
            wire.MODE: lambda head, _: self._operations.mode(head), wire.ADOPT: lambda head, _: self._operations.adopt(head),
            wire.DELETE: self._delete, wire.STAT: self._stat, wire.VERIFY: self._verify, wire.LIST: self._list,
            wire.GET: self._get, wire.PING: self._ping,
        }  # fmt: skip

    def _greet(self, root: str) -> None:
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
            "mounts": [paths.decode(each) for each in mounts_below(paths.encode(root))][: wire.MAX_MOUNTS],
        }
        self._outlet.send(wire.READY, ready)
        self._outlet.flush()
        listing.settle_intents(self._tree, self._ledger, clean=self._write)
        self._send(wire.LISTING, listing.survey(self._tree, self._ledger))
        self._outlet.flush()
        self._save()
        self._ledger.compact()

    def handle(self, kind: int, head: Head, body: bytes) -> None:
        """Carry out a frame. Raises Fatal if the stream has to end."""
        if self._state.probe:
            self._state.remove_probe()
        number = head.get("id", 0)
        if kind in _WRITING:
            self._admit(kind, number)
        self._number = number
        try:
            self._handlers[kind](head, body)
        except (OSError, Refused) as error:
            if isinstance(error, ConnectionError):
                raise
            self._fail(number, head.get("path") or self._begun.pop(number, ""), error)

    def _admit(self, kind: int, number: int) -> None:
        if not self._write:
            raise Fatal("%s, but HELLO said that nothing will be written" % wire.NAMES[kind])
        if kind in _STARTING:
            if number <= self._last:
                raise Fatal("operation %d after %d: ids must grow" % (number, self._last))
            self._last = number
        self._touched = True

    def settle(self) -> None:
        """Report to the host that all operations received so far are done.

        Raises Fatal and CutError if the root or the ledger is gone, and the results with it.
        """
        if self._write:
            check_root(self._tree, *self._names)
        first = self._operations.transfers.first_open()
        upto = self._last if first is None else first - 1
        if upto > self._acknowledged:
            self._save()
            self._ledger.check()
            self._outlet.send(wire.DONE, {"upto": upto})
            self._acknowledged = upto
        self._outlet.flush()

    def close(self) -> None:
        """Write the ledger, leave parts of large files for the next receiver, and remove unused folders."""
        if self._write:
            self._operations.transfers.close()
            self._save()
            self._ledger.compact()
        self._leave()

    def _leave(self) -> None:
        """Remove the probe, and sync's folder if it was not needed."""
        self._state.remove_probe()
        if self._state.made and not self._touched:
            self._state.remove_if_unused()

    def _save(self) -> None:
        with contextlib.suppress(OSError):
            self._ledger.flush()  # if the disk is full, the next receiver recovers lost entries from the intents

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

    def _send_kept(self, path: str, where: str) -> None:
        self._outlet.send(wire.KEPT, {"id": self._number, "path": path, "where": where})

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
            self._send_kept(left, left)

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

    def _list(self, head: Head, _: bytes) -> None:
        self._send(wire.LISTING, listing.list_below(self._tree, head["path"]))

    def _get(self, head: Head, _: bytes) -> None:
        try:
            listing.send_file(self._tree, head["path"], self._outlet.send_encoded, max_bytes=head.get("size"))
        except FileNotFoundError:
            raise Refused("there is no such file on the target") from None

    def _ping(self, head: Head, _: bytes) -> None:
        self._outlet.send(wire.PONG, {"n": head["n"]})


def open_root(name: str, *, create: bool) -> Tuple[Tree, str]:
    """Return the tree below a folder, and the folder's real path. The path may contain symlinks, which the user chose.

    Args:
        name: absolute path on the target.
        create: create a missing folder and its parents, with the owner of the nearest existing folder.

    Raises:
        Fatal: the name is not an absolute path, or the folder is missing, cannot be entered, or is `/`.
    """
    if "\0" in name or not name.startswith("/"):
        raise Fatal("the root must be an absolute path on the target, not %.200r" % name)
    try:
        path = name.encode("utf-8", "surrogateescape")
        if create and not os.path.lexists(path):
            _make(os.path.normpath(path))
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except UnicodeEncodeError:
        raise Fatal(
            "the root's path contains a character that cannot be encoded (a lone surrogate)"
        ) from None
    except OSError as error:
        raise _unopened(name, error) from None
    info, top = os.fstat(descriptor), os.stat("/")
    if (info.st_dev, info.st_ino) == (top.st_dev, top.st_ino):
        raise Fatal("the root is the target's whole file system (/)", "name the folder of the workspace")
    return Tree(descriptor), paths.decode(os.path.realpath(path))


def check_root(tree: Tree, *names: str) -> None:
    """Check that the open root is still the folder at its path: otherwise all writes would be lost.

    Args:
        tree: tree of the root.
        names: the root's path as the user named it, then its real path, which is checked if the first is gone.

    Raises:
        CutError: another folder has this path now; after reconnecting, sync uses it.
        Fatal: there is no folder at this path any more.
    """
    mine = os.fstat(tree.root)
    for name in names:
        try:
            found = os.stat(name.encode("utf-8", "surrogateescape"))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return  # the path is inaccessible, so it cannot be checked
        if (found.st_dev, found.st_ino) != (mine.st_dev, mine.st_ino):
            raise CutError("the root on the target was replaced by another folder")
        return
    raise Fatal("the root folder was removed from the target", "create it again, then start sync again")


def _unopened(name: str, error: OSError) -> Fatal:
    if isinstance(error, FileNotFoundError):
        return Fatal(
            "%s does not exist on the target" % name, "create it, or run dkdbg sync, which creates it"
        )
    if isinstance(error, NotADirectoryError):
        return Fatal("%s is not a folder on the target" % name)
    if isinstance(error, PermissionError):
        return Fatal(
            "%s cannot be opened or created on the target: sync runs there as %s"
            % (name, user_name(os.geteuid())),
            "run sync as the user who owns it",
        )
    reason, hint = explain(error)
    return Fatal("%s cannot be opened: %s" % (name, reason), hint)


def _make(path: bytes) -> None:
    """Make a folder and its missing parents. Raises OSError."""
    missing = []
    while path and not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    owner = os.stat(path)
    for one in reversed(missing):
        os.mkdir(one, _FOLDER_MODE)
        if os.geteuid() == 0 and (owner.st_uid, owner.st_gid) != (0, 0):
            made = os.open(one, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            os.fchown(made, owner.st_uid, owner.st_gid)
            os.close(made)


class Outlet:
    """Writes frames to a descriptor. Raises BrokenPipeError when the host is gone."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting: List[bytes] = []
        self._size = 0

    def send(self, kind: int, head: Dict[str, Any]) -> None:
        """Send a frame without a body at the next flush."""
        self.send_encoded(wire.encode(kind, head))

    def send_encoded(self, frame: bytes) -> None:
        """Send a frame at the next flush, or at once when much is waiting."""
        self._waiting.append(frame)
        self._size += len(frame)
        if self._size > _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the collected frames."""
        if not self._waiting:
            return
        data = memoryview(b"".join(self._waiting))
        self._waiting.clear()
        self._size = 0
        while data:
            data = data[os.write(self._descriptor, data) :]
