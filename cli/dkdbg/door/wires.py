"""Sockets of the host's door: what is sent keeps its order and never makes a decision wait."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from typing import TYPE_CHECKING

from dkdbg.agent import sockets
from dkdbg.agent.dap import frames

if TYPE_CHECKING:
    from collections.abc import Callable

#: Bytes that may be waiting for a peer that does not read; it is cut off then.
MAX_WAITING = 32 << 20
#: Seconds for a connection to a door that answered a moment ago.
CONNECT_LIMIT = 5.0
_CHUNK = 1 << 16


class Outbox:
    """Sends messages on a socket, in the order of `put`, on a thread of its own. The socket is left to its owner."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._queue: queue.SimpleQueue[tuple[bytes, bool] | None] = queue.SimpleQueue()
        self._waiting = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._send, name="dkdbg outbox", daemon=True)
        self._thread.start()

    def put(self, body: bytes) -> None:
        """Send a message's body as a frame, after what was put before."""
        with self._lock:
            self._waiting += len(body)
            full = self._waiting > MAX_WAITING
        if full:
            cut(self._sock)
        self._queue.put((frames.wrap(body), False))

    def finish(self) -> None:
        """Send what is left, then end this direction of the connection."""
        self._queue.put((b"", True))

    def hand_over(self) -> None:
        """Send what is left, and send no more: somebody else has the socket from here on."""
        self._queue.put(None)
        self._thread.join()

    def _send(self) -> None:
        while (entry := self._queue.get()) is not None:
            frame, last = entry
            with contextlib.suppress(OSError):
                self._sock.sendall(frame)
                if last:
                    self._sock.shutdown(socket.SHUT_WR)
            with self._lock:
                self._waiting -= len(frame)
            if last:
                return


def connect(endpoint: tuple[str, int]) -> socket.socket:
    """Return a connection that notices within two minutes that the other machine is gone.

    Raises:
        OSError: nothing listens there.
    """
    sock = socket.create_connection(endpoint, timeout=CONNECT_LIMIT)
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sockets.keep_alive(sock)
    return sock


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
