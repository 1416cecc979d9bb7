"""Base of the phases of a connection: what all of them need, and how they end a session. No I/O."""

from __future__ import annotations

from dkdbg.agent.dap import messages
from dkdbg.agent.proxy.broker.connection import EVICTED, Phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Tuple

    from dkdbg.agent.proxy.broker.adapter_side import AdapterSide
    from dkdbg.agent.proxy.broker.connection import Action, Connection
    from dkdbg.agent.proxy.broker.open_requests import OpenRequests
    from dkdbg.agent.proxy.broker.sessions import Sessions

    #: A connection, the sessions of the port, the handler of its adapter's messages, its unanswered requests.
    Parts = Tuple[Connection, Sessions, AdapterSide, OpenRequests]


class SessionPhase(Phase):
    """Phase with access to the sessions of the port and to its adapter."""

    def __init__(self, parts: Parts) -> None:
        connection, self._sessions, self._adapter, self._open_requests = parts
        super().__init__(connection)

    def evict(self, text: str, category: str) -> List[Action]:
        """Tell the client why its session has ended, and wait until it leaves."""
        self.connection.turn(EVICTED)
        self.connection.leaving = True
        told = (messages.say(text, category), messages.event("terminated"))
        return [self.connection.to_client(each) for each in told]
