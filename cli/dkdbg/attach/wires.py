"""Sockets of the attach proxy: sends in order without blocking the state machine."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading

from dkdbg.agent import sockets
from dkdbg.agent.dap import frames
from dkdbg.attach import owners

#: Maximum queued bytes for a peer that does not read; it is disconnected then.
MAX_QUEUED_BYTES = 32 << 20
#: Queued bytes for an editor above which its targets are not read, and the timeout of such a pause in seconds.
THROTTLE_QUEUED_BYTES = 4 << 20
THROTTLE_TIMEOUT_S = 10.0
#: Seconds to connect to an agent that has just answered.
CONNECT_TIMEOUT_S = 5.0


class Outbox:
    """Sends messages on a socket, in the order of `put`, on its own thread. The caller closes the socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._queue: queue.SimpleQueue[tuple[bytes, int, bool] | None] = queue.SimpleQueue()
        self._waiting = 0
        self._lock = threading.Condition()
        self._thread = threading.Thread(target=self._send, name="dkdbg outbox", daemon=True)
        self._thread.start()

    def put(self, body: bytes) -> None:
        """Queue a message's body as a frame."""
        with self._lock:
            self._waiting += len(body)
            full = self._waiting > MAX_QUEUED_BYTES
        if full:
            sockets.shut(self._sock)
        self._queue.put((frames.wrap(body), len(body), False))

    def wait_for_room(self) -> None:
        """Wait until little is queued."""
        with self._lock:
            self._lock.wait_for(lambda: self._waiting < THROTTLE_QUEUED_BYTES, THROTTLE_TIMEOUT_S)

    def finish(self) -> None:
        """Send the queued messages, then shut this direction down."""
        self._queue.put((b"", 0, True))

    def hand_over(self) -> None:
        """Send the queued messages, then stop: another writer takes the socket over."""
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
    """Return a connection, and whether its owner is trusted (`owners.is_ours`).

    Detects within two minutes that the other machine is gone.

    Raises:
        OSError: nothing listens there.
    """
    sock = socket.create_connection(endpoint, timeout=CONNECT_TIMEOUT_S)
    try:
        sock.settimeout(None)
        sockets.tune(sock)
        return sock, owners.is_ours(sock)
    except OSError:
        sock.close()
        raise
