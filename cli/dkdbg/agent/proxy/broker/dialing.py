"""Connects to debugpy's adapter, which may be just starting."""

from __future__ import annotations

import time

from dkdbg.agent.dap import messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Callable, Optional

    from dkdbg.agent.proxy.broker.agent import Agent


def connect(
    agent: Agent,
    limit: float,
    notice: float,
    *,
    over: Callable[[], bool],
    tell: Callable[[bytes], None],
) -> Optional[socket.socket]:
    """Return a connection, None after the limit or when it is not needed any more.

    Args:
        agent: gives the connections to its adapter.
        limit: seconds. notice: seconds after which the client gets a message to wait.
        over: returns whether the client has left. tell: sends the client the body of a frame.
    """
    start = time.monotonic()
    told = False
    while time.monotonic() < start + limit and not over():
        if agent.is_adapter_gone():
            return None
        connection = agent.dial()
        if connection is not None:
            return connection
        if not told and time.monotonic() > start + notice:
            told = True
            tell(messages.say("waiting for debugpy's adapter, up to %g s" % limit))
        time.sleep(0.02)
    return None
