"""Base class of phases that can end a session, and the two last phases, `Evicted` and `Closed`. No I/O."""

from __future__ import annotations

from dkdbg.agent.dap import messages
from dkdbg.agent.proxy.broker import handover
from dkdbg.agent.proxy.broker.connection import CLOSED, EVICTED, Phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Tuple

    from dkdbg.agent.dap.messages import Message
    from dkdbg.agent.proxy.broker.adapter_side import AdapterSide, OpenRequests
    from dkdbg.agent.proxy.broker.connection import Action, Connection
    from dkdbg.agent.proxy.broker.sessions import Sessions

    #: Arguments of a phase: the connection, the sessions of the port, the handler of the adapter's messages, and
    #: the connection's unanswered requests.
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
        goodbye = (messages.say(text, category), messages.event("terminated"))
        return [self.connection.to_client(each) for each in goodbye]


class Evicted(SessionPhase):
    """Phase of a client that has been notified of the end of its session and has not left."""

    name = EVICTED

    def from_client(self, request: Message, body: bytes) -> List[Action]:
        """Let the client disconnect, and refuse everything else."""
        if request["command"] != "disconnect":
            return super().from_client(request, body)
        return handover.leave(self.connection, self._sessions, request)

    def from_adapter(self, body: bytes) -> List[Action]:
        """Pass on only messages for other clients: this client was already sent `terminated`."""
        return [action for action in self._adapter.take(body) if action.connection is not self.connection]

    def adapter_gone(self) -> List[Action]:
        """Release the process."""
        return handover.released(self.connection, self._sessions)

    def again(self) -> List[Action]:
        """Release the process: another client took it over before this one was connected to the adapter."""
        return handover.released(self.connection, self._sessions)


class Closed(SessionPhase):
    """Phase of a closed connection: drops all further messages."""

    name = CLOSED

    def from_client(self, request: Message, body: bytes) -> List[Action]:  # noqa: ARG002
        """Drop a request."""
        return []

    def adapter_gone(self) -> List[Action]:
        """Release the process."""
        return handover.released(self.connection, self._sessions)
