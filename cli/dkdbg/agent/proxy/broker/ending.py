"""A session that was ended: its client has been told and has not left, or the connection is closed. No I/O."""

from __future__ import annotations

from dkdbg.agent.dap import messages
from dkdbg.agent.proxy.broker import handover
from dkdbg.agent.proxy.broker.connection import CLOSED, EVICTED, Phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

    from dkdbg.agent.dap.messages import Message
    from dkdbg.agent.proxy.broker.adapter_side import AdapterSide
    from dkdbg.agent.proxy.broker.connection import Action, Connection
    from dkdbg.agent.proxy.broker.sessions import Sessions


class Evicted(Phase):
    """A client that was told that its session has ended.

    Args:
        seats: who has what. adapter: what its adapter still says.
    """

    name = EVICTED

    def __init__(self, connection: Connection, sessions: Sessions, adapter: AdapterSide) -> None:
        super().__init__(connection)
        self._sessions = sessions
        self._adapter = adapter

    def from_client(self, request: Message, body: bytes) -> List[Action]:
        """Let it leave."""
        connection = self.connection
        if request["command"] != "disconnect":
            return super().from_client(request, body)
        ends = handover.left(connection, self._sessions, request)
        answer = connection.to_client(messages.answer(request))
        return [answer, *connection.close("it has left"), *ends]

    def from_adapter(self, body: bytes) -> List[Action]:
        """Pass on what is for others; its client was told already."""
        return [action for action in self._adapter.take(body) if action.connection is not self.connection]

    def adapter_gone(self) -> List[Action]:
        """The process is free."""
        return handover.released(self.connection, self._sessions)

    def again(self) -> List[Action]:
        """It was taken over before there was a connection that could end."""
        return handover.released(self.connection, self._sessions)


class Closed(Phase):
    """A connection that is closed: nothing that still arrives is of interest.

    Args:
        seats: who has what.
    """

    name = CLOSED

    def __init__(self, connection: Connection, sessions: Sessions) -> None:
        super().__init__(connection)
        self._sessions = sessions

    def from_client(self, request: Message, body: bytes) -> List[Action]:  # noqa: ARG002
        """Take a request and do nothing."""
        return []

    def adapter_gone(self) -> List[Action]:
        """The process is free."""
        return handover.released(self.connection, self._sessions)
