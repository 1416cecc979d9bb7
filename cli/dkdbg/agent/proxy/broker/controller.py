"""Phase of a controller: its requests go to the adapter, and it passes on those of observers. No I/O."""

from __future__ import annotations

from dkdbg.agent.dap import messages, sources
from dkdbg.agent.dap.messages import as_dict
from dkdbg.agent.inprocess import ranks
from dkdbg.agent.proxy.broker import broadcast_query, group_control, handover
from dkdbg.agent.proxy.broker.connection import (
    CONTROLLING,
    EVICTED,
    READ,
    REATTACHING,
    ROOT,
    TO_ADAPTER,
    Action,
)
from dkdbg.agent.proxy.broker.phase import SessionPhase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, List

    from dkdbg.agent.dap.messages import Message
    from dkdbg.agent.proxy.broker.connection import Connection


class Controlling(SessionPhase):
    """Phase of a client whose attach was passed on to the adapter."""

    name = CONTROLLING

    def begin(self) -> List[Action]:
        """Pass the attach on to the adapter: the client becomes the controller."""
        connection = self.connection
        connection.since = self._sessions.wall()
        self._sessions.take_control(connection)
        if connection.key == ROOT:
            self._sessions.agent.take_deadlines(connection.arguments.get(messages.DEADLINES))
        self._open_requests.from_client(connection.attach)
        return [connection.to_adapter(connection.attach_body), *handover.follow(connection, self._sessions)]

    def from_client(self, request: Message, body: bytes) -> List[Action]:
        """Pass a request on to the adapter unchanged, unless the broker answers it."""
        connection, command = self.connection, request["command"]
        if command in ("launch", "attach"):
            return [connection.refuse(request, "this connection is already attached")]
        if command == "restart":
            return [self._restart(request)]
        if command == "evaluate" and broadcast_query.asks_ranks(request):
            return broadcast_query.ask_ranks(request, connection, self._sessions)
        if command == messages.CHOOSE:
            return self._choose(request)
        if command in (messages.BARRIER, messages.GROUP):
            return self._of_all_agents(request)
        if command == messages.RELEASE:
            return self._release(request)
        if command == messages.SOURCE:
            return [Action(READ, connection, later=lambda: self._source(request))]
        ends: List[Action] = []
        if command in messages.RESUMING:
            connection.stops.let_go()
        if command == "disconnect":
            ends = group_control.left(
                connection, self._sessions, request
            )  # before handover.left, which may end the root session that this event goes through
            ends += handover.left(connection, self._sessions, request)
            connection.leaving = True
            connection.restarting = as_dict(request.get("arguments")).get("restart") is True
        elif command == "pause":
            ends = self._sessions.barrier.open()  # the user wants to see the stops now
        ends += group_control.with_it(connection, self._sessions, command)
        connection.stops.asked(request)
        connection.settings.remember(request)
        self._open_requests.from_client(request)
        return [connection.to_adapter(body), *ends]

    def answer(self, message: Message, body: bytes) -> List[Action]:
        """Pass the client's response on to the adapter, if this adapter has sent the request."""
        return [self.connection.to_adapter(body)] if self._open_requests.answered_adapter(message) else []

    def from_adapter(self, body: bytes) -> List[Action]:
        """Pass on a message of the adapter."""
        return self._adapter.take(body)

    def ready(self) -> bool:
        """Tell whether the end of the session can be reported."""
        return self._adapter.knows_the_end()

    def resume(self) -> List[Action]:
        """Report the end of the session."""
        return self._adapter.let_end()

    def adapter_gone(self) -> List[Action]:
        """Handle a connection closed by the adapter: it has released the process, or has died."""
        if self.connection.configured and not self.connection.leaving:
            return self._lost()
        return handover.released(self.connection, self._sessions)

    def stopped(self, body: bytes) -> List[Action]:
        """Report a withheld stop to the client and its observers."""
        return self._adapter.stopped(body)

    def give_up(self, text: str, category: str = "important") -> List[Action]:
        """End the client's session and tell the client why; the adapter releases the process later."""
        goodbye = self.evict(text, category)
        self.connection.stops.let_go()
        request = messages.request(self._open_requests.add_own(), "disconnect", {"terminateDebuggee": False})
        return [*goodbye, self.connection.to_adapter(request)]

    @property
    def lends(self) -> bool:  # type: ignore[override]
        """Return whether observers' requests may reach the adapter through this connection."""
        return self.connection.configured and not self.connection.leaving

    def lend(self, borrower: Connection, request: Message) -> List[Action]:
        """Pass an observer's request to the adapter."""
        lent = dict(request, seq=self._open_requests.lent(borrower, request))
        self.connection.stops.asked(lent)
        return [Action(TO_ADAPTER, self.connection, messages.body_of(lent))]

    def ask(self, command: str, arguments: Message, then: Callable[[Message], List[Action]]) -> List[Action]:
        """Send the adapter a request of the broker's own; `then` handles the response."""
        sequence = self._open_requests.add_own(then)
        self.connection.stops.asked({"seq": sequence, "command": command})
        return [self.connection.to_adapter(messages.request(sequence, command, arguments))]

    def _of_all_agents(self, request: Message) -> List[Action]:
        """Handle a barrier or group request of a client that also has root sessions with other agents."""
        connection, wanted = self.connection, as_dict(request.get("arguments"))
        if connection.key != ROOT:
            return [connection.refuse(request, "only the root session accepts this")]
        answered = connection.to_client(messages.answer(request))
        if request["command"] == messages.BARRIER:
            return [answered, *self._sessions.barrier.led(wanted)]
        return [answered, *group_control.from_other_agent(connection, self._sessions, wanted)]

    def _restart(self, request: Message) -> Action:
        """Restart the program: its sessions end, and the root session gets the new processes."""
        if not self._sessions.agent.may_restart:
            text = "editors may not restart this program (DKDBG_RESTART=never); `dkdbg restart` can"
            return self.connection.refuse(request, text)
        self._sessions.agent.restart()
        return self.connection.to_client(messages.answer(request))

    def _choose(self, request: Message) -> List[Action]:
        """Change which ranks are debugged; ranks that have joined stay until their sessions end."""
        connection = self.connection
        if connection.key != ROOT:
            return [connection.refuse(request, "only the root session accepts this")]
        try:
            connection.ranks = ranks.parse(str(as_dict(request.get("arguments")).get("ranks", "")))
        except ranks.RankSetError as error:
            return [connection.refuse(request, "%s; %s" % (error, error.hint))]
        self._sessions.agent.choose(connection.ranks)
        return [connection.to_client(messages.answer(request)), *self._adapter.offer_chosen()]

    def _release(self, request: Message) -> List[Action]:
        """Resume a process that waits for a session that the client will not open."""
        connection, pid = self.connection, as_dict(request.get("arguments")).get("subProcessId")
        if connection.key != ROOT or not isinstance(pid, int) or isinstance(pid, bool):
            return [connection.refuse(request, "only the root session accepts this, with a subProcessId")]
        self._sessions.agent.release(pid)
        return [connection.to_client(messages.answer(request))]

    def _source(self, request: Message) -> List[Action]:
        """Answer with the digest and line count of a source file on this machine.

        This leaks nothing: the client can run any code here.
        """
        found = sources.describe(str(as_dict(request.get("arguments")).get("path", "")))
        return [self.connection.to_client(messages.answer(request, **found))]

    def _lost(self) -> List[Action]:
        """Handle the death of the adapter: its connection closed although the client had not disconnected.

        The broker sets the root session up again at the new adapter on the client's behalf. Child sessions end
        and are announced again.
        """
        connection, what = self.connection, "debugpy's adapter died"
        unanswered = self._open_requests.give_up(what)
        connection.stops.happened("terminated", {})
        if connection.key != ROOT:
            connection.turn(EVICTED)
            connection.leaving = True
            self._sessions.release_control(connection)
            ends = [action for one in self._sessions.observers(connection.key) for action in one.phase.end()]
            return [*unanswered, connection.to_client(messages.event("terminated")), *ends]
        connection.configured = False
        connection.turn(REATTACHING)
        message = (
            what
            + "; a new one is starting. This session stays, and the processes attach again as new sessions"
        )
        notice = connection.to_client(messages.say(message, "important"))
        return [*unanswered, notice, connection.reconnect(0.0)]
