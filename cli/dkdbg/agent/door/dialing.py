"""Connecting to debugpy's adapter, which may be just starting."""

from __future__ import annotations

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
        port: returns the adapter's loopback port, 0 while there is none, below 0 when none will come.
        limit: seconds. notice: seconds after which the client is told that it waits.
        over: the client has gone. tell: sends the client the body of a frame.
    """
    start = time.monotonic()
    told = False
    while time.monotonic() < start + limit and not over():
        number = port()
        if number < 0:
            return None
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
