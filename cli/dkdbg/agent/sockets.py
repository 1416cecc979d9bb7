"""Socket options and thread helpers for the listener and the host's attach proxy."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Optional

#: Idle seconds before the first keep-alive probe, seconds between probes, and unanswered probes before the
#: peer counts as gone.
_KEEP_ALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))


def keep_alive(sock: socket.socket) -> None:
    """Turn on TCP keep-alive, to detect within two minutes that the peer is gone. Raises OSError: already closed."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE:
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def tune(sock: socket.socket) -> None:
    """Send small messages at once (TCP_NODELAY), and detect a gone peer; see `keep_alive`."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    keep_alive(sock)


def shut(sock: Optional[socket.socket], how: int = socket.SHUT_RDWR) -> None:
    """Shut a connection down, which wakes up the thread that reads from it; do nothing if it has ended."""
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(how)


def begin(serve: Callable[..., object], *args: object, name: str) -> bool:
    """Call a function on a thread of its own; return False if no thread can be started.

    The limit (`ulimit -u`, pids.max) covers other processes too, so a later call may succeed.
    """
    try:
        threading.Thread(target=serve, args=args, name=name, daemon=True).start()
    except RuntimeError:
        return False
    return True


def acknowledge(sock: socket.socket) -> None:
    """Acknowledge received data at once (TCP_QUICKACK). The kernel resets the option, so call this after each read."""
    quick_ack = getattr(socket, "TCP_QUICKACK", None)
    if quick_ack is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, quick_ack, 1)


def ask(through: socket.socket, query: bytes) -> socket.socket:
    """Send a query together with one end of a new socket pair; return the other end, on which the answer arrives.

    If the peer exits, its end closes, and the caller reads the end of the stream. Raises OSError.
    """
    own_end, peer_end = socket.socketpair()
    try:
        with peer_end:
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", peer_end.fileno()))
            through.sendmsg([query], [rights])
    except OSError:
        own_end.close()
        raise
    return own_end


def is_same_user(sock: socket.socket) -> bool:
    """Tell whether the peer of a connected Unix socket is a process of this user or of root.

    To a client, the kernel names the process that called listen(2) as the peer.
    """
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:  # macOS: rely on the mode 0700 of the sockets' folders
        return True
    credentials = sock.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[1] in (0, os.getuid())


def drain(sock: socket.socket, seconds: float) -> None:
    """Read until the peer closes: closing a socket with unread data resets the connection and loses our last answer."""
    end = time.monotonic() + seconds
    with contextlib.suppress(OSError):
        while time.monotonic() < end:
            sock.settimeout(max(0.01, end - time.monotonic()))
            if not sock.recv(65536):
                return
