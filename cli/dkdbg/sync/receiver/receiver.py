"""The receiver: one loop over standard input and output, which checks each frame, from HELLO to the end of the stream."""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import time

from dkdbg.sync.receiver import wire
from dkdbg.sync.receiver.problems import CutError, Fatal, SyncError, explain
from dkdbg.sync.receiver.session import Outlet, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional

_PIECE = 1 << 20
#: Maximum seconds between two DONE frames while input keeps arriving.
_DONE_INTERVAL_S = 0.1
_ENTRY = {"id": int, "path": str, "mode": int, "size": int, "digest": str, "stamp": str}
_FIELDS: Dict[int, Dict[str, type]] = {
    wire.HELLO: {"version": int, "root": str},
    wire.STAT: {"paths": list},
    wire.PUT: dict(_ENTRY, mtime_ns=int),
    wire.BEGIN: dict(_ENTRY, mtime_ns=int),
    wire.DATA: {"id": int},
    wire.END: {"id": int},
    wire.MKDIR: {"id": int, "path": str, "mode": int},
    wire.LINK: {"id": int, "path": str, "target": str, "stamp": str},
    wire.MODE: {"id": int, "path": str, "mode": int, "stamp": str},
    wire.ADOPT: dict(_ENTRY, kind=str),
    wire.DELETE: {"id": int, "path": str},
    wire.VERIFY: {},
    wire.LIST: {"path": str},
    wire.GET: {"path": str},
    wire.PING: {"n": int},
    wire.BYE: {},
}
_OPTIONAL: Dict[str, type] = {
    "probe": bool,
    "create": bool,
    "write": bool,
    "by": str,
    "silence_s": int,
    "source": str,
}
_WITH_BODY = (wire.PUT, wire.DATA)

#: Minimum and maximum of each number in a head. A time may lie before 1970.
_RANGES = {
    "id": (1, 1 << 53),
    "mode": (0, 0o777),
    "size": (0, 1 << 60),
    "mtime_ns": (wire.EARLIEST, wire.LATEST),
    "silence_s": (0, 1 << 31),
}
_MAX_STAMP = 300
_HEX = frozenset("0123456789abcdef")


def main() -> int:
    """Serve the stream on standard input and output; return the exit code.

    `print` is redirected to standard error: standard output is the stream.
    """
    stream = os.dup(1)
    os.dup2(2, 1)
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # on the local target a Ctrl-C reaches the receiver as well; the host's BYE ends it
    os.umask(0)
    gc.set_threshold(50_000, 20, 100)  # collect rarely: the ledger is many small lists without cycles
    return serve(0, stream)


def serve(source: int, target: int) -> int:
    """Serve the stream on two descriptors; return the exit code: 1 after an ERROR."""
    outlet = Outlet(target)
    try:
        problem = _run(Loop(source, outlet))
    except CutError as cut:
        # No ERROR frame, see CutError.
        sys.stderr.write("dkdbg: %s\n" % cut)
        return 1
    if problem is None:
        return 0
    try:
        outlet.send(wire.ERROR, {"reason": problem.reason, "hint": problem.hint})
        outlet.flush()
    except OSError:
        pass  # the host is gone
    return 1


def _run(loop: Loop) -> Optional[SyncError]:
    """Run the loop to its end; return the error to report to the host in one line, None without one."""
    try:
        try:
            loop.run()
        finally:
            loop.close()
    except CutError:
        raise
    except ConnectionError:
        return None  # the host is gone, as after BYE
    except wire.WireError as error:
        return Fatal("broken stream: %s" % error, "start sync again")
    except SyncError as error:
        return error
    except OSError as error:
        reason, hint = explain(error)
        return Fatal("the receiver cannot continue: %s (%s)" % (reason, _where(error)), hint)
    except Exception as error:
        return Fatal("the receiver failed: %s: %s (%s)" % (type(error).__name__, error, _where(error)))
    return None


def _where(error: BaseException) -> str:
    """Return file and line of an error, for a report."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return "%s:%d" % (at.tb_frame.f_code.co_filename, at.tb_lineno) if at is not None else "?"


class Loop:
    """Processes frames in order; sends DONE when no more input is waiting."""

    def __init__(self, source: int, outlet: Outlet) -> None:
        self._source = source
        self._outlet = outlet
        self._parser = wire.Parser()
        self._session: Optional[Session] = None

    def run(self) -> None:
        """Serve until BYE, the end of the stream, or the silence timeout. Raises SyncError, WireError and OSError."""
        reported_at = time.monotonic()
        while self._wait():
            data = os.read(self._source, _PIECE)
            if not data:
                if self._parser.rest():
                    raise CutError("the stream was cut within a frame")
                self._settle()
                return
            self._parser.feed(data)
            if not self._serve_frames():
                return
            now = time.monotonic()
            if now - reported_at >= _DONE_INTERVAL_S or not self._readable(0):
                self._settle()
                reported_at = now

    def close(self) -> None:
        """End the session."""
        if self._session is not None:
            self._session.close()

    def _wait(self) -> bool:
        """Wait for input; return False if none arrives within the timeout that HELLO set."""
        silence = self._session.silence if self._session is not None else 0
        return not silence or self._readable(silence)

    def _readable(self, seconds: float) -> bool:
        return bool(select.select([self._source], [], [], seconds)[0])

    def _serve_frames(self) -> bool:
        """Serve the complete frames; return False after BYE."""
        while True:
            frame = self._parser.take()
            if frame is None:
                return True
            kind, head, body = frame
            _check_head(kind, head, body)
            if kind == wire.BYE:
                self._settle()
                return False
            if self._session is None:
                if kind != wire.HELLO:
                    raise Fatal("%s before HELLO" % wire.NAMES[kind])
                self._session = Session(head, self._outlet)
            elif kind == wire.HELLO:
                raise Fatal("HELLO twice")
            else:
                self._session.handle(kind, head, body)

    def _settle(self) -> None:
        if self._session is not None:
            self._session.settle()


def _check_head(kind: int, head: Dict[str, Any], body: bytes) -> None:
    """Raise Fatal unless the frame is one that a host may send, with fields of the right types and ranges."""
    fields = _FIELDS.get(kind)
    if fields is None:
        raise Fatal("a host does not send %s" % wire.NAMES[kind])
    for name, wanted in fields.items():
        value = head.get(name)
        if type(value) is not wanted:
            raise Fatal("%s needs %s as %s, not %.60r" % (wire.NAMES[kind], name, wanted.__name__, value))
        if name in _RANGES:
            _check_range(kind, name, head[name])
    if body and kind not in _WITH_BODY:
        raise Fatal("%s has no body" % wire.NAMES[kind])
    if "stamp" in fields and len(head["stamp"]) > _MAX_STAMP:
        raise Fatal("a stamp of %d characters" % len(head["stamp"]))
    if kind in (wire.PUT, wire.BEGIN):
        _check_digest(head["digest"])
    elif kind == wire.ADOPT:
        _check_adopted(head)
    elif kind == wire.HELLO:
        _check_hello(head)
    elif kind == wire.GET and "size" in head:
        if type(head["size"]) is not int:
            raise Fatal("GET: size must be int, not %.60r" % head["size"])
        _check_range(kind, "size", head["size"])


def _check_range(kind: int, name: str, value: int) -> None:
    min_value, max_value = _RANGES[name]
    if not min_value <= value <= max_value:
        raise Fatal("%s: %s is %d, out of range" % (wire.NAMES[kind], name, value))


def _check_digest(digest: str) -> None:
    if len(digest) != 64 or not _HEX.issuperset(digest):
        raise Fatal("not a sha256 in hex: %.80r" % digest)


def _check_adopted(head: Dict[str, Any]) -> None:
    if head["kind"] not in ("f", "d", "l"):
        raise Fatal("ADOPT: kind is %.20r, not f, d or l" % head["kind"])
    if head["kind"] != "d" or head["digest"]:
        _check_digest(head["digest"])


def _check_hello(head: Dict[str, Any]) -> None:
    for name, wanted in _OPTIONAL.items():
        if name in head:
            if type(head[name]) is not wanted:
                raise Fatal("HELLO: %s must be %s, not %.60r" % (name, wanted.__name__, head[name]))
            if name in _RANGES:
                _check_range(wire.HELLO, name, head[name])
    if head["version"] != wire.VERSION:
        raise Fatal(
            "the host speaks version %.20s of the sync stream, this receiver %d"
            % (head["version"], wire.VERSION)
        )
