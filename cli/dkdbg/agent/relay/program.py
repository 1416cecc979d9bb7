"""Runs a program that outlives transports: its keeper holds the other ends of its streams, so it never notices a cut.

While a client is connected, the program waits for a slow reader, as with a pipe. While no client is connected, the
program goes on, and the last MAX_KEPT_BYTES bytes of each output are kept for the next client.
"""

from __future__ import annotations

import array
import collections
import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
import time

from dkdbg.agent import sockets
from dkdbg.agent.relay.wire import WireError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any, Callable, Deque, Dict, List, Optional

#: Bytes of an output to keep while no client is connected, and to buffer while one is.
MAX_KEPT_BYTES, _MAX_BUFFERED_BYTES = 16 << 20, 1 << 16
_CHUNK = 1 << 16
#: Seconds without data, after the program's exit, until an output that another process still has open counts as ended.
_TAIL = 0.5
#: Verbs of the agent that the other end of a relay may run as queries; the description of a job that connects out lists
#: them.
QUERIES = ("ranks", "sessions", "where")
#: Maximum number of queries at a time.
MAX_QUERIES = 8


class Order:
    """The program to run, as the other end sends it.

    Attributes:
        argv: command and arguments.
        terminal: rows and columns of its terminal; None for three pipes.
        environment: variables to add to the keeper's.
        watch: command that exits with 0 once the batch job that the program runs in is over; empty outside of a job.

    Raises:
        WireError: the order is invalid.
    """

    def __init__(self, payload: bytes) -> None:
        try:
            answer: Any = json.loads(payload.decode("utf-8", "surrogateescape"))
            self.argv: List[str] = answer["argv"]
            self.terminal: Optional[List[int]] = answer["terminal"]
            self.environment: Dict[str, str] = answer["environment"]
            sizes = [] if self.terminal is None else self.terminal
            self.watch: List[str] = answer.get("watch", [])
            texts = [*self.argv, *self.environment, *self.environment.values(), *self.watch]
            if not self.argv or any(not isinstance(each, str) or "\0" in each for each in texts):
                raise ValueError("no words")
            if self.terminal is not None and (
                len(sizes) != 2 or not all(0 <= each < 1 << 16 for each in sizes)
            ):
                raise ValueError("no size")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise WireError("not a valid order: %s" % error) from error


class Program:
    """A running command.

    Args:
        order: the command. folder: its working directory.
        is_heard: returns whether a client reads the output.

    Attributes:
        stdio, stderr: sockets for its input and output, and for its standard error, which is empty with a terminal.
        ended: a descriptor that becomes readable once `exit_code` is set.
        exit_code: as a shell shows it; None until the program has exited and its output has been written to the
            sockets.
        has_exited: set at its exit, even if other processes still have its output open.
        ended_at: time.monotonic() of its exit.
    """

    def __init__(self, order: Order, folder: str, is_heard: Callable[[], bool]) -> None:
        self.exit_code: Optional[int] = None
        self.ended_at = 0.0
        self.stdio, stdio = socket.socketpair()
        self.stderr, stderr = socket.socketpair()
        self.ended, self._tell = os.pipe()
        self._terminal: Optional[int] = None
        self.has_exited = threading.Event()
        environment = {**os.environ, **order.environment}
        try:
            if order.terminal is None:
                self._running = subprocess.Popen(
                    order.argv, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, bufsize=0, start_new_session=True,
                )  # fmt: skip
                pipes = [
                    each.fileno()
                    for each in (self._running.stdin, self._running.stdout, self._running.stderr)
                    if each
                ]
            else:
                self._terminal = self._start_in_terminal(order, folder, environment)
                pipes = [self._terminal, self._terminal]
                stderr.shutdown(socket.SHUT_WR)
        except OSError as error:
            stderr.sendall(("dkdbg: cannot start %s: %s\n" % (order.argv[0], error.strerror)).encode())
            for each in (stdio, stderr):
                each.close()
            self.exit_code, self.ended_at = 126, time.monotonic()
            self.has_exited.set()
            os.write(self._tell, b"\0")
            return
        self._spools = [_Spool(pipes[1], stdio, is_heard, self.has_exited, self._running.stdout)]
        if order.terminal is None:
            self._spools.append(_Spool(pipes[2], stderr, is_heard, self.has_exited, self._running.stderr))
        self._inner = (stdio, stderr)
        for target in (self._wait, lambda: self._feed(stdio, pipes[0])):
            threading.Thread(target=target, daemon=True).start()

    @property
    def is_running(self) -> bool:
        """Return whether the program still runs."""
        return not self.has_exited.is_set()

    def signal(self, number: int) -> None:
        """Send a signal to the program."""
        if self.is_running and 0 < number < signal.NSIG:
            with contextlib.suppress(OSError):
                os.kill(self._running.pid, number)

    def kill(self) -> None:
        """Kill the program and the rest of its process group."""
        with contextlib.suppress(OSError):
            os.killpg(self._running.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close the remaining descriptors, after `ended` has become readable."""
        for file in (self.ended, self._tell):
            os.close(file)

    def resize(self, rows: int, columns: int) -> None:
        """Resize its terminal."""
        if self._terminal is not None:
            with contextlib.suppress(OSError):
                _set_size(self._terminal, rows, columns)

    def _start_in_terminal(self, order: Order, folder: str, environment: Dict[str, str]) -> int:
        master, slave = pty.openpty()
        try:
            _set_size(master, *(order.terminal or ()))

            def take() -> None:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)

            self._running = subprocess.Popen(
                order.argv, cwd=folder, env=environment, stdin=slave, stdout=slave, stderr=slave, bufsize=0,
                start_new_session=True, preexec_fn=take,  # noqa: PLW1509 - no thread is running yet
            )  # fmt: skip
        except BaseException:
            os.close(master)
            raise
        finally:
            os.close(slave)
        return master

    def _feed(self, source: socket.socket, target: int) -> None:
        """Forward the program's input until it ends; if the program has stopped reading, discard the rest."""
        takes = True
        with contextlib.suppress(OSError):
            while True:
                data = source.recv(_CHUNK)
                if not data:
                    break
                takes = takes and _is_written(target, data)
        if self._terminal is None and self._running.stdin is not None:
            with contextlib.suppress(OSError):
                self._running.stdin.close()

    def _wait(self) -> None:
        code = self._running.wait()
        self.ended_at = time.monotonic()
        self.has_exited.set()
        for each in self._spools:
            each.thread.join()
        for sock in self._inner:
            sockets.shut(sock, socket.SHUT_WR)
        self.exit_code = code if code >= 0 else 128 - code
        os.write(self._tell, b"\0")


class _Spool:
    """One output of the program, forwarded to a socket.

    Args:
        source: the output's descriptor. target: the socket, shut down at the output's end.
        is_heard: see `Program`. has_exited: set when the program has exited, even if others have the output open.
        pipe: the file of `source`, closed when the output can no longer be delivered, so that the program gets SIGPIPE
            or EPIPE.
    """

    def __init__(
        self, source: int, target: socket.socket, is_heard: Callable[[], bool], has_exited: threading.Event,
        pipe: Optional[IO[bytes]],
    ) -> None:  # fmt: skip
        self._pipe = pipe
        self._source, self._target = source, target
        self._is_heard, self._has_exited = is_heard, has_exited
        self._pieces: Deque[bytes] = collections.deque()
        self._size = self._dropped = 0
        self._is_over = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while not self._is_over or self._pieces:
                wants = not self._is_over and (self._size < _MAX_BUFFERED_BYTES or not self._is_heard())
                sources = [self._source] if wants else []
                targets = [self._target] if self._pieces else []
                # The timeout is needed to notice changes of `is_heard` and `has_exited`.
                readable, writable, _ = select.select(sources, targets, [], _TAIL)
                if readable:
                    self._take()
                elif wants and self._has_exited.is_set() and not writable:
                    self._is_over = True
                if writable:
                    self._give()
            self._target.shutdown(socket.SHUT_WR)
        if self._pipe is not None:
            with contextlib.suppress(OSError):
                self._pipe.close()

    def _take(self) -> None:
        try:
            data = os.read(self._source, _CHUNK)
        except OSError:  # EIO: all holders of the terminal have closed it
            data = b""
        if not data:
            self._is_over = True
            return
        self._pieces.append(data)
        self._size += len(data)
        while self._size > MAX_KEPT_BYTES:
            dropped = len(self._pieces.popleft())
            self._size -= dropped
            self._dropped += dropped

    def _give(self) -> None:
        if self._dropped:
            notice = (
                b"\n[dkdbg: %d bytes of output are missing here: no client was connected]\n" % self._dropped
            )
            self._pieces.appendleft(notice)
            self._size += len(notice)
            self._dropped = 0
        try:
            done = self._target.send(
                self._pieces[0], socket.MSG_DONTWAIT
            )  # nonblocking for this call alone: `_feed` blocks in a read from the same socket
        except BlockingIOError:
            return
        self._size -= done
        piece = self._pieces.popleft()
        if done < len(piece):
            self._pieces.appendleft(piece[done:])


def _is_written(target: int, data: bytes) -> bool:
    """Write all data; return False if the program no longer reads."""
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(target, left) :]
    except OSError:
        return False
    return True


def _set_size(terminal: int, rows: int = 0, columns: int = 0) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, array.array("H", [rows, columns, 0, 0]))


def query(payload: bytes) -> Order:
    """Return the command for a query. Raises WireError: the query is invalid.

    Rejecting all other commands guards against mistakes only, not attacks: the other end has the session's token, and
    can run anything in the program with a debugger.
    """
    try:
        query: Any = json.loads(payload.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        raise WireError("not a valid query: %s" % error) from error
    if not isinstance(query, list) or not query or query[0] not in QUERIES:
        raise WireError("the agent does not support this query")
    agent = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")
    argv = [sys.executable, "-I", "-S", "-B", agent, *query]
    data = json.dumps({"argv": argv, "terminal": None, "environment": {}})
    return Order(data.encode("utf-8", "surrogateescape"))
