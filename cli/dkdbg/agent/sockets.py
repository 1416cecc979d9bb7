"""TCP helpers of the agent and the attach proxy, beyond reading and writing."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time

#: Seconds without a word until the other machine is asked, between two questions, and unanswered ones until it is gone.
_KEEP_ALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))


def keep_alive(sock: socket.socket) -> None:
    """Notice within two minutes that the other machine is gone. Raises OSError: the connection is closed."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE:
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def acknowledge(sock: socket.socket) -> None:
    """Have what was read acknowledged at once. It does not last: each time."""
    quick_ack = getattr(socket, "TCP_QUICKACK", None)
    if quick_ack is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, quick_ack, 1)


def is_same_user(sock: socket.socket) -> bool:
    """Tell whether the other end of a Unix socket is a process of ours, or root's; of a client's, who listened there."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:  # macOS; the folders of our sockets are closed to others there too
        return True
    told = sock.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i"))
    return struct.unpack("3i", told)[1] in (0, os.getuid())


def drain(sock: socket.socket, seconds: float) -> None:
    """Read what the other side still sends: to close before would reset the connection and lose our last answer."""
    end = time.monotonic() + seconds
    with contextlib.suppress(OSError):
        while time.monotonic() < end:
            sock.settimeout(max(0.01, end - time.monotonic()))
            if not sock.recv(65536):
                return
