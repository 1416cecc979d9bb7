"""Connecting to debugpy's adapter, which may be just starting, and acknowledging what is read at once."""

from __future__ import annotations

import contextlib
import socket
import time

from dkdbg.agent.dap import messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Optional


def connect(
    port: Callable[[], int],
    limit: float,
    notice: float,
    *,
    over: Callable[[], bool],
    tell: Callable[[bytes], None],
) -> Optional[socket.socket]:
    """Return a connection, None when there is none within the limit or nobody wants it any more.

    Args:
        port: returns the adapter's loopback port, 0 while there is none.
        limit: seconds. notice: seconds after which the client is told that it waits.
        over: the client has gone. tell: sends the client the body of a frame.
    """
    start = time.monotonic()
    told = False
    while time.monotonic() < start + limit and not over():
        number = port()
        if number:
            try:
                connection = socket.create_connection(("127.0.0.1", number), timeout=5)
            except OSError:
                pass
            else:
                connection.settimeout(None)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return connection
        if not told and time.monotonic() > start + notice:
            told = True
            tell(messages.say("waiting for debugpy's adapter, up to %g s" % limit))
        time.sleep(0.02)
    return None


def acknowledge(sock: socket.socket) -> None:
    """Have what was read acknowledged at once. It does not last: each time."""
    quick_ack = getattr(socket, "TCP_QUICKACK", None)
    if quick_ack is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, quick_ack, 1)


def drain(client: socket.socket, seconds: float) -> None:
    """Read what a client still sends: to close before would reset the connection and lose our last answer."""
    end = time.monotonic() + seconds
    with contextlib.suppress(OSError):
        while time.monotonic() < end:
            client.settimeout(max(0.01, end - time.monotonic()))
            if not client.recv(65536):
                return
