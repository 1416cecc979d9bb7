"""Phase in which the broker sets up a session at the adapter on behalf of its client. No I/O.

Needed when the adapter was replaced, or when the client was an observer and becomes the controller.
"""

from __future__ import annotations

from dkdbg.agent.dap import frames, messages
from dkdbg.agent.dap.messages import ROLE
from dkdbg.agent.proxy.broker import handover
from dkdbg.agent.proxy.broker.connection import (
    CONTROLLING,
    EVICTED,
    LEAVE_ADAPTER,
    REATTACHING,
    ROOT,
    Action,
)
from dkdbg.agent.proxy.broker.phase import SessionPhase
from dkdbg.agent.proxy.broker.replay import Replay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

    from dkdbg.agent.dap.messages import Message
    from dkdbg.agent.proxy.broker.phase import Parts

#: Attempts to set up the session at an adapter that drops the connection, and seconds between two attempts.
MAX_ATTEMPTS = 5
RETRY_PAUSE_S = 0.2
#: Maximum requests to queue until the session is set up.
_MAX_QUEUED = 1000


class Reattaching(SessionPhase):
    """Phase of a controller whose attach the broker repeats."""

    name = REATTACHING

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._attempts = 0
        self._replay: Optional[Replay] = None
        self._queue: List[Message] = []

    def again(self) -> List[Action]:
        """Begin to set up the session, unless that has begun already."""
        if self._replay is not None:
            return []
        connection = self.connection
        attach = {name: value for name, value in connection.arguments.items() if name != ROLE}
        self._replay = Replay(
            self._sessions.next_sequence, connection.client_info, attach, connection.settings
        )
        return [connection.to_adapter(self._replay.begin())]

    def from_client(self, request: Message, body: bytes) -> List[Action]:  # noqa: ARG002
        """Queue a request until the session is set up."""
        connection = self.connection
        if request["command"] == "disconnect":
            return handover.leave(connection, self._sessions, request)
        if len(self._queue) < _MAX_QUEUED:
            self._queue.append(request)
            return []
        return [connection.refuse(request, "this session has ended", show=False)]

    def answer(self, message: Message, body: bytes) -> List[Action]:
        """Pass the client's response on to the adapter, if this adapter has sent the request."""
        return [self.connection.to_adapter(body)] if self._open_requests.answered_adapter(message) else []

    def client_gone(self) -> List[Action]:
        """Close the connection of a client that has left."""
        return self.connection.close("the client has left")

    def from_adapter(self, body: bytes) -> List[Action]:
        """Set the session up with the adapter's answers; pass on all other messages."""
        taken = self._take(self._replay, body) if self._replay is not None else None
        return self._adapter.take(body) if taken is None else taken

    def adapter_gone(self) -> List[Action]:
        """Try again after the adapter has dropped the connection, a limited number of times."""
        self._attempts, self._replay = self._attempts + 1, None
        if self._attempts >= MAX_ATTEMPTS:
            return self.no_adapter("debugpy's adapter closed the connection")
        return [self.connection.reconnect(RETRY_PAUSE_S)]

    def no_adapter(self, reason: str) -> List[Action]:
        """End the session because it cannot be set up."""
        connection = self.connection
        connection.turn(EVICTED)
        queued = [connection.refuse(one, reason, show=False) for one in self._queue]
        text = "this session cannot continue: %s; attach again" % reason
        goodbye = [messages.say(text, "important"), messages.event("terminated")]
        return [*queued, *map(connection.to_client, goodbye), *handover.released(connection, self._sessions)]

    def give_up(self, text: str, category: str = "important") -> List[Action]:
        """End the client's session and tell the client why."""
        return [*self.evict(text, category), Action(LEAVE_ADAPTER, self.connection)]

    def _take(self, replay: Replay, body: bytes) -> Optional[List[Action]]:
        """Handle a message of the adapter; return None if it is not for the replay."""
        try:
            taken = replay.take(frames.decode(body))
        except frames.FrameError:
            return None
        if taken is None:
            return None
        actions = [*map(self.connection.to_adapter, taken[0]), *map(self.connection.to_client, taken[1])]
        if replay.failure:
            return [*actions, *self.no_adapter(replay.failure)]
        return [*actions, *self._joined()] if replay.done else actions

    def _joined(self) -> List[Action]:
        """Let the client continue with the session that is set up now."""
        connection = self.connection
        holding = connection.turn(CONTROLLING)
        connection.configured = True
        actions = handover.follow(connection, self._sessions)
        if not connection.since:  # this client was an observer until now
            connection.since = self._sessions.wall()
            if connection.key == ROOT:
                text = "the other editor has left: you control this session now, with the breakpoints that you have set"
                actions.append(connection.to_client(messages.say(text, "important")))
        for request in self._queue:
            actions += holding.from_client(request, messages.body_of(request))
        return [*actions, *(handover.free(self._sessions) if connection.key == ROOT else ())]
