"""One receiver, run by a local command line: sends and receives frames, and reports why it ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import re
import select
import threading
import time
from typing import TYPE_CHECKING, Any

from dkdbg import process
from dkdbg.errors import EXIT_TIMEOUT, DkdbgError
from dkdbg.printable import printable
from dkdbg.sync.receiver import wire
from dkdbg.sync.remote import answers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import IO

    from dkdbg.sync.receiver.wire import Frame

#: Bytes to collect before a write, because each write to `docker exec` is expensive.
_FLUSH_BYTES = 256 * 1024
_PIPE_SIZE = 1 << 20
#: Seconds without an answer, or without room to write: after SILENCE_S the other side counts as gone, after QUIET_S the
#: delay is reported.
SILENCE_S, QUIET_S = 120.0, 5.0
_MAX_REASON_CHARS = 1000  # maximum characters of the reason for the end
_MAX_STDERR_BYTES = 4096
#: Bytes of queued frames above which reading pauses. A head counts times _HEAD_WEIGHT, about its size in memory.
_MAX_WAITING_BYTES, _HEAD_WEIGHT = 64 << 20, 16
#: Start of READY or ERROR. A login banner may precede it, or an error: `docker exec` prints on standard output why it
#: cannot start the program.
_FIRST_FRAME = re.compile(rb"[\xc1\xcb]\x00")


class StreamEndedError(Exception):
    """The receiver has ended, or its output was not a frame.

    Attributes:
        code: exit code of the command line, negative for a signal, None if this process had to kill it.
        stderr: the end of its standard error.
        answered: whether the receiver had answered before.
    """

    def __init__(self, reason: str, *, code: int | None, answered: bool, stderr: str = "") -> None:
        super().__init__(reason)
        self.stderr = stderr
        self.code = code
        self.answered = answered


class Stream:
    """A running receiver. Frames arrive on a thread and are queued; this class does not interpret them.

    Args:
        argv: local command line.
        first: returns the bytes before the first frame; called after the program was started.
        bell: called, on the reading thread, after each arrival and at the end.
        quiet: called when the other side has not answered for QUIET_S seconds.

    Raises:
        DkdbgError: the program does not exist.
    """

    def __init__(
        self, argv: Sequence[str], first: Callable[[], bytes], *, bell: Callable[[], None] = lambda: None,
        quiet: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._child = process.converse(argv)
        self._bell, self._quiet = bell, quiet
        self._frames: queue.SimpleQueue[tuple[Frame, int] | StreamEndedError | DkdbgError] = (
            queue.SimpleQueue()
        )
        self._waiting, self._closing, self._room = 0, False, threading.Condition()
        self._ended: StreamEndedError | DkdbgError | None = None
        self._stderr = self._banner = b""
        self._out: list[bytes] = [first()]
        self._out_size = len(self._out[0])
        self._torn = False  # whether half a frame may have been written
        self._widen()
        self._listener = threading.Thread(target=self._listen, name="dkdbg-sync-stderr", daemon=True)
        self._reader = threading.Thread(target=self._read, name="dkdbg-sync-stream", daemon=True)
        self._listener.start()
        self._reader.start()

    def send(self, kind: int, head: dict[str, Any] | None = None, body: bytes = b"") -> None:
        """Queue one frame; it is written together with others, at the latest by `flush`.

        Raises:
            StreamEndedError: the other side is gone.
            wire.WireError: the frame is larger than allowed.
        """
        data = wire.encode(kind, head, body)
        self._out.append(data)
        self._out_size += len(data)
        if self._out_size >= _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the queued frames; wait while the other side does not read.

        Raises:
            StreamEndedError: the other side is gone.
        """
        if not self._out:
            return
        data = memoryview(b"".join(self._out))
        self._out, self._out_size = [], 0
        assert self._child.stdin is not None  # noqa: S101 - converse() makes it
        self._torn = True
        try:
            while data:
                written = self._child.stdin.write(data)
                if written is None:
                    self._wait_for_room(self._child.stdin)
                else:
                    data = data[written:]
        except (OSError, ValueError):
            raise self._end() from None
        self._torn = False

    def _wait_for_room(self, pipe: IO[bytes]) -> None:
        """Wait until the other side has read, so that the pipe has room.

        Raises:
            StreamEndedError: it did not read in time.
        """
        room = select.poll()  # select() rejects descriptors above 1023
        room.register(pipe, select.POLLOUT)
        if room.poll(QUIET_S * 1000):
            return
        if not self._closing:
            self._quiet()
        if not room.poll((SILENCE_S - QUIET_S) * 1000):
            raise no_answer()

    def take(self, timeout: float | None = 0) -> Frame | None:
        """Return the next frame; None when none came within `timeout` seconds (None waits for ever).

        Raises:
            StreamEndedError: the other side is gone, and all its frames have been taken.
            DkdbgError: the other side is not our receiver.
        """
        if timeout == 0 and self._frames.empty():
            return None
        try:
            found = self._get(timeout)
        except queue.Empty:
            return None
        if isinstance(found, Exception):
            self._frames.put(found)
            raise found
        frame, weight = found
        with self._room:
            self._waiting -= weight
            if self._waiting <= _MAX_WAITING_BYTES:
                self._room.notify()
        return frame

    def _get(self, timeout: float | None) -> tuple[Frame, int] | StreamEndedError | DkdbgError:
        if timeout is not None and timeout <= QUIET_S:
            return self._frames.get(timeout=timeout)
        with contextlib.suppress(queue.Empty):
            return self._frames.get(timeout=QUIET_S)
        self._quiet()
        return self._frames.get(timeout=None if timeout is None else timeout - QUIET_S)

    def close(self, grace: float = 2.0) -> None:
        """Send BYE, let the receiver finish for `grace` seconds, then end it."""
        with self._room:
            self._closing = True
            self._room.notify()
        watchdog = threading.Timer(grace, self._child.terminate)  # a write to a frozen container may block
        watchdog.daemon = True
        watchdog.start()
        if not self._torn:
            with contextlib.suppress(StreamEndedError, DkdbgError):
                self.send(wire.BYE)
                self.flush()
        with contextlib.suppress(OSError):
            assert self._child.stdin is not None  # noqa: S101
            self._child.stdin.close()
        self._see_it_end(grace)
        watchdog.cancel()
        self._kill()
        self._reader.join(1)
        self._listener.join(1)
        for pipe in (self._child.stdout, self._child.stderr):
            if pipe is not None:
                pipe.close()

    def _see_it_end(self, grace: float) -> None:
        """Wait until the reader sees the child's end of file: faster than waiting for the process, which polls."""
        end = time.monotonic() + grace
        while self._reader.is_alive() and self._child.poll() is None and time.monotonic() < end:
            self._reader.join(0.05)
        with contextlib.suppress(process.TimeoutExpired):
            self._child.wait(max(end - time.monotonic(), 0))

    def _kill(self) -> None:
        if self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(1)
            except process.TimeoutExpired:
                self._child.kill()
                self._child.wait()

    def _widen(self) -> None:
        """Enlarge the pipes for fewer wake-ups (only Linux supports it), and never block in a write."""
        assert self._child.stdin is not None  # noqa: S101
        os.set_blocking(self._child.stdin.fileno(), False)
        with contextlib.suppress(OSError, AttributeError):
            fcntl.fcntl(self._child.stdin, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
            fcntl.fcntl(self._child.stdout, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)  # type: ignore[arg-type]

    def _read(self) -> None:
        parser = wire.Parser()
        answered = False
        reason = ""
        assert self._child.stdout is not None  # noqa: S101
        try:
            while data := self._child.stdout.read(_PIPE_SIZE):
                if not answered:
                    banner = self._banner + data
                    found = _FIRST_FRAME.search(banner)
                    answered = found is not None
                    if found is None:
                        self._banner = banner[-_MAX_STDERR_BYTES:]
                        continue
                    self._banner, data = b"", banner[found.start() :]
                parser.feed(data)
                while (frame := parser.take()) is not None:
                    answers.check(*frame)
                    head, body = parser.taken
                    self._queue(frame, head * _HEAD_WEIGHT + body)
                self._bell()
        except (OSError, ValueError) as error:
            reason = str(error)
        except DkdbgError as error:
            self._ended = error
            self._child.kill()
        self._ended = self._ended or self._why(reason, answered)
        self._frames.put(self._ended)
        self._bell()

    def _queue(self, frame: Frame, weight: int) -> None:
        """Queue a frame; pause reading while too much waits."""
        with self._room:
            if self._closing:
                return
            self._frames.put((frame, weight))
            self._waiting += weight
            if self._waiting > _MAX_WAITING_BYTES:
                self._bell()
                self._room.wait_for(lambda: self._waiting <= _MAX_WAITING_BYTES or self._closing)

    def _listen(self) -> None:
        assert self._child.stderr is not None  # noqa: S101
        with contextlib.suppress(OSError, ValueError):
            while data := self._child.stderr.read(_MAX_STDERR_BYTES):
                self._stderr = (self._stderr + data)[-_MAX_STDERR_BYTES:]

    def _why(self, reason: str, answered: bool) -> StreamEndedError:
        try:
            code: int | None = self._child.wait(3)
        except process.TimeoutExpired:
            code = None
        self._listener.join(1)
        lines, banner = _lines(self._stderr), _lines(self._banner)
        ending = (
            "the stream was cut" if code is None else f"exit code {code}" if code >= 0 else f"signal {-code}"
        )
        text = printable(reason or (lines or banner or [ending])[-1])
        return StreamEndedError(
            text[:_MAX_REASON_CHARS], code=code, answered=answered, stderr="\n".join(lines + banner)
        )

    def _end(self) -> StreamEndedError | DkdbgError:
        """Return why the stream has ended, after a failed write: wait for the reader to find out."""
        deadline = time.monotonic() + 5
        while self._ended is None and time.monotonic() < deadline:
            self._reader.join(0.05)
        return self._ended or StreamEndedError("the stream was cut", code=None, answered=True)


def no_answer() -> StreamEndedError:
    """Return the error for a receiver that has not answered for SILENCE_S."""
    return StreamEndedError(f"no answer for {SILENCE_S:g} s", code=None, answered=True)


def _lines(output: bytes) -> list[str]:
    return [line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()]


def expect(stream: Stream, kinds: frozenset[int], timeout: float) -> Frame:
    """Return the next frame, whose kind has to be one of `kinds`.

    Raises:
        DkdbgError: the receiver reported an error, sent another kind, or nothing for `timeout` seconds.
        StreamEndedError: it is gone.
    """
    frame = stream.take(timeout)
    if frame is None:
        names = " or ".join(sorted(wire.NAMES[kind] for kind in kinds))
        raise DkdbgError(
            f"the receiver on the target did not answer within {timeout:g} s ({names})",
            hint="try again; if it persists, the target may be out of memory or stopped",
            exit_code=EXIT_TIMEOUT,
        )
    kind, head, _ = frame
    if kind == wire.ERROR:
        raise refused(head)
    if kind not in kinds:
        raise DkdbgError(f"unexpected message {wire.NAMES[kind]} from the receiver", hint="try again")
    return frame


def refused(head: dict[str, Any]) -> DkdbgError:
    """Return the error in an ERROR frame."""
    return DkdbgError(
        printable(head["reason"]) or "the receiver on the target gave up", hint=printable(head["hint"])
    )
