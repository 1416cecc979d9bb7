"""Phases of an ended session: its client knows and has not left, or the connection is closed. No I/O."""

from __future__ import annotations

from dkdbg.agent.proxy.broker import handover
from dkdbg.agent.proxy.broker.connection import CLOSED, EVICTED
from dkdbg.agent.proxy.broker.phase import SessionPhase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

    from dkdbg.agent.dap.messages import Message
    from dkdbg.agent.proxy.broker.connection import Action


class Evicted(SessionPhase):
    """Phase of a client that knows that its session has ended."""

    name = EVICTED

    def from_client(self, request: Message, body: bytes) -> List[Action]:
        """Let the client disconnect, and refuse everything else."""
        if request["command"] != "disconnect":
            return super().from_client(request, body)
        return handover.leave(self.connection, self._sessions, request)

    def from_adapter(self, body: bytes) -> List[Action]:
        """Pass on messages for other clients only; this one already knows."""
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
