"""The ledger: an append-only log of the files that sync put below the root, or found below it with equal content.

A line is a JSON list. `[path, kind, mode, size, digest, stamp, mtime_ns, ctime_ns, inode]` is a held entry: sync has
put it there, and may delete it. The first six of these are an intent: the result of the next rename. `[path]` is an
entry that is no longer held. mode and stamp are those that the host sent. mtime_ns, ctime_ns and inode belong to the
file on the target: while they and the size are unchanged, the digest is valid. If they are zero, the file has to be
read to know its content.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import time

from dkdbg.sync.receiver import content, paths, tree
from dkdbg.sync.receiver.problems import Fatal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterable, List, TypeGuard

    from dkdbg.sync.receiver.wire import Entry

NAME = b"ledger"
_NEW = b"ledger.new"

#: Indices into an entry.
PATH, KIND, MODE, SIZE, DIGEST, STAMP, MTIME, CTIME, INODE = range(9)
_INTENT = 6
_HELD = 9
_TYPES: List[type] = [str, str, int, int, str, str, int, int, int]
_SHAPES = {length: _TYPES[:length] for length in (1, _INTENT, _HELD)}

#: Nanoseconds after a change in which another change may get the same mtime, like git's "racy" entries.
RACY_NS = 50_000_000
_PIECE = 1 << 20
#: Maximum outdated lines in the log before it is rewritten.
_MAX_WASTE_LINES = 20_000

_dumps = json.JSONEncoder(separators=(",\n", ":"), check_circular=False).encode


class Ledger:
    """The log in memory and on the disk.

    Attributes:
        held: path -> entry.
        intents: path -> entry of a rename whose result was not recorded when the last receiver ended.
    """

    def __init__(self, folder: int, *, write: bool = True) -> None:
        """Read the log in `folder`, the descriptor of sync's own folder (-1 without one). Raises OSError."""
        self.held: Dict[str, Entry] = {}
        self.intents: Dict[str, Entry] = {}
        self._folder = folder
        self._lines = 0
        self._later: List[Entry] = []  # valid lines that are not in the file yet
        self._torn = False  # the file may end within a line
        self._log = -1
        log = self._open(write) if folder >= 0 else -1
        if log >= 0:
            self._read(log)
            if write:
                self._give(log)
                self._log = log
            else:
                os.close(log)

    def _open(self, write: bool) -> int:
        """Return a descriptor of the log; -1 if it is missing and `write` is not set."""
        flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        flags |= os.O_RDWR | os.O_CREAT | os.O_APPEND if write else os.O_RDONLY
        try:
            log = os.open(NAME, flags, 0o600, dir_fd=self._folder)
        except FileNotFoundError:
            return -1
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EISDIR):
                raise _not_plain() from None
            raise
        info = os.fstat(log)
        if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1:
            os.close(log)
            raise _not_plain()
        return log

    def _read(self, log: int) -> None:
        """Read the log in pieces, because parsing needs more memory than the resulting entries."""
        tail = b""
        while True:
            piece = os.read(log, _PIECE)
            if not piece:
                break
            whole, newline, tail = (tail + piece).rpartition(b"\n")
            if newline:
                lines = whole.count(b"\n") + 1
                entries = _parse(whole)
                self._replay(entries)
                self._lines += (
                    lines if len(entries) == lines else lines + _MAX_WASTE_LINES
                )  # a damaged log: rewrite it soon
            tail = tail[-_PIECE:]  # no valid line is longer
        self._torn = bool(tail)

    def _replay(self, lines: Iterable[Entry]) -> None:
        held, intents = self.held, self.intents
        for line in lines:
            path = line[PATH]
            if len(line) == _INTENT:
                intents[path] = line
                continue
            intents.pop(path, None)
            if len(line) == _HELD:
                held[path] = line
            else:
                held.pop(path, None)

    def intend(self, entry: Entry) -> None:
        """Record the result of the next rename. Raises OSError: then the rename must not happen."""
        self._later.append(entry[:_INTENT])
        try:
            self._write()  # not flush(), which may rewrite the log without intents
        except OSError:
            self._later.pop()
            raise

    def hold(self, entry: Entry, info: os.stat_result) -> None:
        """Record that an entry is in place, with its lstat `info`; the next flush writes it to the log."""
        if entry[KIND] == "d" or is_racy(info):
            seen = [0, 0, 0]
        else:
            seen = [info.st_mtime_ns, info.st_ctime_ns, info.st_ino]
        line = entry[:_INTENT] + seen
        self.held[line[PATH]] = line
        self._later.append(line)

    def forget(self, path: str) -> None:
        """Record that sync has nothing at this path any more; the next flush writes that to the log."""
        self.held.pop(path, None)
        self._later.append([path])

    def holds_below(self, path: str) -> bool:
        """Return whether sync has put anything into a folder."""
        prefix = path + "/"
        return any(held.startswith(prefix) for held in self.held)

    def forget_below(self, path: str) -> None:
        """Forget a folder and everything in it."""
        prefix = path + "/"
        for one in [held for held in self.held if held == path or held.startswith(prefix)]:
            self.forget(one)

    def flush(self) -> None:
        """Write pending lines to the log. Raises OSError; the next flush then tries again."""
        self._write()
        if self._lines > 2 * len(self.held) + _MAX_WASTE_LINES:
            self.compact()

    def _write(self) -> None:
        if not self._later or self._log < 0:
            return
        text = _as_lines(self._later)
        data = ("\n" + text if self._torn else text).encode("ascii")
        self._torn = True
        content.write_all(self._log, data)
        self._torn = False
        self._lines += len(self._later)
        self._later.clear()

    def check(self) -> None:
        """Raise Fatal if the log was deleted: further records would be lost."""
        if self._log >= 0 and os.fstat(self._log).st_nlink == 0:
            raise Fatal(
                "sync's folder .dkdbg-sync/ was removed from the target while sync ran (git clean?)",
                "start sync again: it compares everything again",
            )

    def compact(self) -> None:
        """Rewrite the log when that shortens it; a failure leaves the old log."""
        if self._log < 0 or self._lines <= len(self.held) + len(self.held) // 4 + 100:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            tree.remove(self._folder, _NEW)
            log = os.open(_NEW, flags, 0o600, dir_fd=self._folder)
        except OSError:
            return
        try:
            self._give(log)
            if self.held:
                content.write_all(log, _as_lines([*self.held.values()]).encode("ascii"))
            os.rename(_NEW, NAME, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError:
            os.close(log)
            return
        os.close(self._log)
        self._log, self._lines, self._torn = log, len(self.held), False
        self._later.clear()  # the new log contains these lines

    def _give(self, log: int) -> None:
        """chown a log that root has created to the folder's owner, whose receiver may write it next."""
        owner, mine = os.fstat(self._folder), os.fstat(log)
        if (owner.st_uid, owner.st_gid) != (mine.st_uid, mine.st_gid):
            with contextlib.suppress(OSError):
                os.fchown(log, owner.st_uid, owner.st_gid)


def is_racy(info: os.stat_result) -> bool:
    """Return whether a file was changed so recently that another change may get the same mtime."""
    return abs(time.time_ns() - info.st_mtime_ns) < RACY_NS


def _as_lines(entries: List[Entry]) -> str:
    """Return entries as lines of the log. One encoder call for all is faster than one for each.

    The newlines that separate entries are unambiguous, because JSON escapes those in strings.
    """
    text = _dumps(entries)[1:-1]
    return text.replace("],\n[", "]\0[").replace(",\n", ",").replace("\0", "\n") + "\n"


def _not_plain() -> Fatal:
    return Fatal(
        "the ledger in .dkdbg-sync/ is not a regular file, or has other hard links",
        "remove .dkdbg-sync/ledger",
    )


def is_same(entry: Entry, info: os.stat_result) -> bool:
    """Return whether the lstat of a file or symlink equals the recorded one."""
    return bool(
        entry[SIZE] == info.st_size
        and entry[MTIME] == info.st_mtime_ns
        and entry[CTIME] == info.st_ctime_ns
        and entry[INODE] == info.st_ino
    )


def _parse(text: bytes) -> List[Entry]:
    """Return the valid lines of a piece of the log; a kill, a full disk or a crash may have torn others."""
    try:
        found: List[object] = json.loads(b"[" + text.replace(b"\n", b",") + b"]")
    except (ValueError, RecursionError):
        found = [_parse_line(line) for line in text.split(b"\n")]
    if _are_held(found):
        return found
    return [line for line in found if _is_line(line)]


def _parse_line(line: bytes) -> object:
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found


def _are_held(lines: List[object]) -> TypeGuard[List[Entry]]:
    """Return whether all lines are held entries, as in a rewritten log; checking column by column is quick."""
    if set(map(type, lines)) != {list}:
        return False
    entries: List[Entry] = lines  # type: ignore[assignment]
    if set(map(len, entries)) != {_HELD}:
        return False
    columns = list(zip(*entries))
    if any(set(map(type, column)) != {wanted} for column, wanted in zip(columns, _TYPES)):
        return False
    return paths.is_plain("/".join(columns[PATH]))


def _is_line(line: object) -> TypeGuard[Entry]:
    return (
        type(line) is list and list(map(type, line)) == _SHAPES.get(len(line)) and paths.is_plain(line[PATH])
    )
