"""The receiver: one loop over standard input and output, from HELLO to the end of the stream."""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import time

from dkdbg.sync.receiver import heads, wire
from dkdbg.sync.receiver.outlet import Outlet
from dkdbg.sync.receiver.problems import CutError, Fatal, SyncError, explain
from dkdbg.sync.receiver.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

_PIECE = 1 << 20
#: Maximum seconds between two progress reports to the host during a flood of frames.
_DONE_INTERVAL_S = 0.1


def main() -> int:
    """Serve the stream on standard input and output; return the exit code.

    Stray prints go to standard error: standard output is the stream.
    """
    stream = os.dup(1)
    os.dup2(2, 1)
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # on the local target a Ctrl-C reaches the receiver as well; the host's BYE ends it
    os.umask(0)
    gc.set_threshold(50_000, 20, 100)  # the ledger is many small lists without cycles
    return serve(0, stream)


def serve(source: int, target: int) -> int:
    """Serve the stream on two descriptors; return the exit code: 1 after an ERROR."""
    outlet = Outlet(target)
    try:
        problem = _run(Loop(source, outlet))
    except CutError as cut:
        # No ERROR: the host would take it for a refusal, and not connect again.
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
    """Run the loop to its end and return the error: the host gets one line, never a traceback."""
    try:
        try:
            loop.run()
        finally:
            loop.close()
    except CutError:
        raise
    except ConnectionError:
        return None  # the host is gone, which is the same as BYE
    except wire.WireError as error:
        return Fatal("broken stream: %s" % error, "start sync again")
    except SyncError as error:
        return error
    except OSError as error:
        reason, hint = explain(error)
        return Fatal("the receiver cannot go on: %s (%s)" % (reason, _where(error)), hint)
    except Exception as error:
        return Fatal("the receiver broke: %s: %s (%s)" % (type(error).__name__, error, _where(error)))
    return None


def _where(error: BaseException) -> str:
    """Return file and line of an error, for a report."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return "%s:%d" % (at.tb_frame.f_code.co_filename, at.tb_lineno) if at is not None else "?"


class Loop:
    """Processes frames one after the other; DONE goes out as soon as no more input is waiting."""

    def __init__(self, source: int, outlet: Outlet) -> None:
        self._source = source
        self._outlet = outlet
        self._parser = wire.Parser()
        self._session: Optional[Session] = None

    def run(self) -> None:
        """Serve until BYE, the end of the stream, or a silence. Raises SyncError, WireError and OSError."""
        told = time.monotonic()
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
            if now - told >= _DONE_INTERVAL_S or not self._readable(0):
                self._settle()
                told = now

    def close(self) -> None:
        """End the session."""
        if self._session is not None:
            self._session.close()

    def _wait(self) -> bool:
        """Wait for input; return False after the host's silence limit."""
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
            heads.check(kind, head, body)
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
