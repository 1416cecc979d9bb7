"""Base of the phases of a connection: what all of them need, and how they end a session. No I/O."""

from __future__ import annotations

from dkdbg.agent.dap import messages
from dkdbg.agent.proxy.broker.connection import EVICTED, Phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

    from dkdbg.agent.proxy.broker.adapter_side import AdapterSide
    from dkdbg.agent.proxy.broker.connection import Action, Connection
    from dkdbg.agent.proxy.broker.open_requests import OpenRequests
    from dkdbg.agent.proxy.broker.sessions import Sessions


class SessionPhase(Phase):
    """Phase with access to the sessions of the port and to its adapter.

    Args:
        adapter: handles its adapter's messages. open_requests: unanswered requests.
    """

    def __init__(
        self, connection: Connection, sessions: Sessions, adapter: AdapterSide, open_requests: OpenRequests
    ) -> None:
        super().__init__(connection)
        self._sessions = sessions
        self._adapter = adapter
        self._open_requests = open_requests

    def evict(self, text: str, category: str) -> List[Action]:
        """Tell the client why its session has ended, and wait until it leaves."""
        self.connection.turn(EVICTED)
        self.connection.leaving = True
        told = (messages.say(text, category), messages.event("terminated"))
        return [self.connection.to_client(each) for each in told]
