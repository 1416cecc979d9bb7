"""Sockets of the host's door: what is sent keeps its order and never makes a decision wait."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from typing import TYPE_CHECKING

from dkdbg.agent import sockets
from dkdbg.agent.dap import frames
from dkdbg.attach import owners

if TYPE_CHECKING:
    from collections.abc import Callable

#: Bytes that may be waiting for a peer that does not read; it is cut off then.
MAX_WAITING = 32 << 20
#: Bytes from which on a target is not read from until its editor has caught up, and how long at most at one time.
MUCH_WAITING = 4 << 20
CATCH_UP_LIMIT = 10.0
#: Seconds for a connection to a door that answered a moment ago.
CONNECT_LIMIT = 5.0
_CHUNK = 1 << 16


class Outbox:
    """Sends messages on a socket, in the order of `put`, on a thread of its own. The socket is left to its owner."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._queue: queue.SimpleQueue[tuple[bytes, int, bool] | None] = queue.SimpleQueue()
        self._waiting = 0
        self._lock = threading.Condition()
        self._thread = threading.Thread(target=self._send, name="dkdbg outbox", daemon=True)
        self._thread.start()

    def put(self, body: bytes) -> None:
        """Send a message's body as a frame, after what was put before."""
        with self._lock:
            self._waiting += len(body)
            full = self._waiting > MAX_WAITING
        if full:
            cut(self._sock)
        self._queue.put((frames.wrap(body), len(body), False))

    def wait_for_room(self) -> None:
        """Return when not much is waiting to be sent."""
        with self._lock:
            self._lock.wait_for(lambda: self._waiting < MUCH_WAITING, CATCH_UP_LIMIT)

    def finish(self) -> None:
        """Send what is left, then end this direction of the connection."""
        self._queue.put((b"", 0, True))

    def hand_over(self) -> None:
        """Send what is left, and send no more: somebody else has the socket from here on."""
        self._queue.put(None)
        self._thread.join()

    def _send(self) -> None:
        while (entry := self._queue.get()) is not None:
            frame, size, last = entry
            with contextlib.suppress(OSError):
                self._sock.sendall(frame)
                if last:
                    self._sock.shutdown(socket.SHUT_WR)
            with self._lock:
                self._waiting -= size
                self._lock.notify_all()
            if last:
                return


def connect(endpoint: tuple[str, int]) -> tuple[socket.socket, bool]:
    """Return a connection, and whether it may be trusted as far as its owner goes (`owners.is_ours`).

    It notices within two minutes that the other machine is gone.

    Raises:
        OSError: nothing listens there.
    """
    sock = socket.create_connection(endpoint, timeout=CONNECT_LIMIT)
    try:
        sock.settimeout(None)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sockets.keep_alive(sock)
        return sock, owners.is_ours(sock)
    except OSError:
        sock.close()
        raise


def read_frames(sock: socket.socket, parser: frames.FrameParser, take: Callable[[bytes], bool]) -> None:
    """Hand each message's body to `take` until the stream ends or `take` returns False.

    Raises:
        OSError: the connection broke.
        FrameError: the stream is none of frames.
    """
    while True:
        while (body := parser.take()) is not None:
            if not take(body):
                return
        data = sock.recv(_CHUNK)
        if not data:
            return
        parser.feed(data)


def cut(sock: socket.socket) -> None:
    """End both directions at once."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
