"""Phases of an ended session: its client knows and has not left, or the connection is closed. No I/O."""

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
    """Phase of a client that knows that its session has ended.

    Args:
        sessions: those of the port. adapter: handles its adapter's remaining messages.
    """

    name = EVICTED

    def __init__(self, connection: Connection, sessions: Sessions, adapter: AdapterSide) -> None:
        super().__init__(connection)
        self._sessions = sessions
        self._adapter = adapter

    def from_client(self, request: Message, body: bytes) -> List[Action]:
        """Let the client disconnect, and refuse everything else."""
        connection = self.connection
        if request["command"] != "disconnect":
            return super().from_client(request, body)
        ends = handover.left(connection, self._sessions, request)
        answer = connection.to_client(messages.answer(request))
        return [answer, *connection.close("it has left"), *ends]

    def from_adapter(self, body: bytes) -> List[Action]:
        """Pass on messages for other clients only; this one already knows."""
        return [action for action in self._adapter.take(body) if action.connection is not self.connection]

    def adapter_gone(self) -> List[Action]:
        """Release the process."""
        return handover.released(self.connection, self._sessions)

    def again(self) -> List[Action]:
        """Release the process: another client took it over before this one was connected to the adapter."""
        return handover.released(self.connection, self._sessions)


class Closed(Phase):
    """Phase of a closed connection: drops all further messages.

    Args:
        sessions: those of the port.
    """

    name = CLOSED

    def __init__(self, connection: Connection, sessions: Sessions) -> None:
        super().__init__(connection)
        self._sessions = sessions

    def from_client(self, request: Message, body: bytes) -> List[Action]:  # noqa: ARG002
        """Drop a request."""
        return []

    def adapter_gone(self) -> List[Action]:
        """Release the process."""
        return handover.released(self.connection, self._sessions)
