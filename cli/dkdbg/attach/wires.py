"""Sockets of the attach proxy: sends without blocking the state machine, and checks the user at the other end.

All users of a machine share loopback. If the system does not report a connection's owner (macOS does so only for
the user's own processes), every user is accepted, and `dkdbg attach` warns.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import queue
import socket
import threading
from typing import TYPE_CHECKING

from dkdbg.agent import sockets
from dkdbg.agent.dap import frames
from dkdbg.agent.proxy.listener import local_users

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Maximum bytes queued for a peer that does not read; the proxy disconnects a peer with more.
MAX_QUEUED_BYTES = 32 << 20
#: Maximum bytes queued for an editor before reading from its targets pauses; maximum pause in seconds.
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
        """Wait until fewer than THROTTLE_QUEUED_BYTES are queued, or until THROTTLE_TIMEOUT_S have passed."""
        with self._lock:
            self._lock.wait_for(lambda: self._waiting < THROTTLE_QUEUED_BYTES, THROTTLE_TIMEOUT_S)

    def finish(self) -> None:
        """Send the queued messages, then shut the socket down for writing."""
        self._queue.put((b"", 0, True))

    def hand_over(self) -> None:
        """Send the queued messages, then stop, because another writer takes over the socket."""
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
    """Connect to an endpoint; return the socket, and whether its server is trusted (see `is_own_server`).

    Keep-alives detect a lost machine within two minutes.

    Raises:
        OSError: nothing listens there.
    """
    sock = socket.create_connection(endpoint, timeout=CONNECT_TIMEOUT_S)
    try:
        sock.settimeout(None)
        sockets.tune(sock)
        return sock, is_own_server(sock)
    except OSError:
        sock.close()
        raise


def owner_refusal(client: socket.socket) -> str:
    """Return why the client of an accepted connection is refused, in one line; empty if it is trusted.

    Raises:
        OSError: the connection is already closed.
    """
    if not local_users.reports_owners():
        return ""
    owner = local_users.other_end(client)
    if owner is None or not owner[1]:  # already closed: the reported user is wrong
        return "cannot tell which user is at the other end"
    return "" if owner[0] in own_users(os.environ) else f"it is a process of {_named(owner[0])}"


def is_own_server(server: socket.socket) -> bool:
    """Return whether the server of a connection runs as a user in `own_users`, or on another machine.

    If the system does not report owners, return True.

    Raises:
        OSError: the connection is closed already.
    """
    if not local_users.reports_owners():
        return True
    owner = local_users.other_end(server)
    if owner is not None and not owner[1]:  # not accepted yet
        owner = local_users.listening(server.getpeername())
        return owner is not None and owner[0] in own_users(os.environ)
    return owner is None or owner[0] in own_users(os.environ)  # None: on another machine or in a container


def own_users(environ: Mapping[str, str]) -> set[int]:
    """Return the trusted uids: our own, root, and the caller of sudo."""
    known = {0, os.getuid()}
    before = environ.get("SUDO_UID", "")
    if os.getuid() == 0 and before.isascii() and before.isdigit() and len(before) < 11:
        known.add(int(before))
    return known


def _named(uid: int) -> str:
    try:
        return f"another user of this machine ({pwd.getpwuid(uid).pw_name})"
    except KeyError:
        return f"another user of this machine (uid {uid})"
