"""Phase of an observer: a second client sees what the controller sees, and changes nothing. No I/O.

It gets a copy of the events, and its read requests go through the controller's connection. Its own connection to the
adapter is unused until the controller leaves. Then the earliest observer becomes the controller, with the breakpoints
that it has set meanwhile (handover.py).
"""

from __future__ import annotations

from dkdbg.agent.dap import messages
from dkdbg.agent.dap.messages import EDITOR, OBSERVE, ROLE
from dkdbg.agent.proxy.broker import handover
from dkdbg.agent.proxy.broker.connection import DROP_ADAPTER, OBSERVING, REATTACHING, ROOT, Action
from dkdbg.agent.proxy.broker.phase import SessionPhase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

    from dkdbg.agent.dap.messages import Message
    from dkdbg.agent.proxy.broker.connection import Connection
    from dkdbg.agent.proxy.broker.phase import Parts

#: Requests that only read.
_READS = (
    "threads",
    "stackTrace",
    "scopes",
    "variables",
    "source",
    "modules",
    "exceptionInfo",
    "loadedSources",
)
#: Requests that each editor sends while it attaches. They succeed without effect: an editor would show each error.
_SETS = (
    "setBreakpoints",
    "setFunctionBreakpoints",
    "setExceptionBreakpoints",
    "setDataBreakpoints",
    "setInstructionBreakpoints",
    "setDebuggerProperty",
    "debugpySystemInfo",
)
#: Requests that an editor sends on every mouse move or key press: refused silently.
_QUIET = (
    "evaluate",
    "completions",
    "breakpointLocations",
    "dataBreakpointInfo",
    "gotoTargets",
    "stepInTargets",
)


class Observing(SessionPhase):
    """Phase of a client that observes another's session.

    Attributes:
        over: the process has ended, or will be announced again.
    """

    name = OBSERVING

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        controller = self._sessions.controller(self.connection.key)
        assert controller is not None  # noqa: S101 - an observer is admitted only while there is a controller
        self._controller = controller
        self._who = _who(controller)
        self.over = False

    @property
    def observes(self) -> bool:  # type: ignore[override]
        """Return whether the client has configured its session, and the process has not ended."""
        return self.connection.configured and not self.over

    def begin(self) -> List[Action]:
        """Let the client configure its session; its configurationDone completes the attach."""
        connection = self.connection
        self._sessions.add_observer(connection)
        return [Action(DROP_ADAPTER, connection), connection.to_client(messages.event("initialized"))]

    def from_client(self, request: Message, body: bytes) -> List[Action]:  # noqa: ARG002
        """Answer a request; send those that only read through the controller's connection."""
        connection, command = self.connection, request["command"]
        if command == "disconnect":
            ends = [] if self.over else handover.left(connection, self._sessions, request)
            return [self._say(messages.answer(request)), *connection.close("it has left"), *ends]
        if command == "configurationDone":
            return self._configured(request)
        if command in _SETS:
            points = messages.as_list(messages.as_dict(request.get("arguments")).get("breakpoints"))
            given = [self._sessions.next_sequence() for _ in points]
            connection.settings.remember(request, given)
            unset = {"verified": False, "message": self._who + "; this one observes"}
            return [self._say(messages.answer(request, breakpoints=[dict(unset, id=each) for each in given]))]
        if command in _READS and not self.over:
            if self._sessions.controller(connection.key) is self._controller and self._controller.phase.lends:
                return self._controller.phase.lend(connection, request)
            return [connection.refuse(request, "the other editor is leaving", show=False)]
        text = '%s; add "dkdbgRole": "take-over" to this configuration to take it over' % self._who
        return [connection.refuse(request, text, show=command not in _QUIET)]

    def again(self) -> List[Action]:
        """Become the controller, if the process is free and it is this client's turn."""
        connection, sessions = self.connection, self._sessions
        if sessions.controller(connection.key) is not None:
            return []
        if handover.heir(connection, self._controller, sessions) is not connection:
            return []
        sessions.remove(connection)
        sessions.take_control(connection)
        connection.configured, connection.inherited = False, True
        return connection.turn(REATTACHING).again()

    def announce(self, pid: int) -> List[Action]:
        """Offer the client one more process to observe."""
        connection = self.connection
        arguments = {k: v for k, v in connection.arguments.items() if k not in messages.NOT_INHERITED}
        arguments.setdefault("connect", messages.as_dict(self._controller.arguments.get("connect")))
        arguments.update({"name": self._sessions.agent.name_of(pid), "subProcessId": pid})
        arguments.update({ROLE: OBSERVE, EDITOR: connection.editor})
        return [
            self._say(messages.announcement(connection.client_info, self._sessions.next_sequence, arguments))
        ]

    def follow(self, controller: Connection) -> List[Action]:
        """Observe the session of the new controller of the same process."""
        if controller is self._controller:
            return []
        self._controller, self._who = controller, _who(controller)
        if self.connection.key != ROOT:
            return []
        return [self._say(messages.say("you are an observer: %s" % self._who, "important"))]

    def end(self) -> List[Action]:
        """End the observation: the process has ended, or will be announced again."""
        if self.over:
            return []
        self.over = True
        return [self._say(messages.event("terminated"))]

    def adapter_gone(self) -> List[Action]:
        """Handle the end of this client's connection to the adapter, which `begin` has dropped."""
        return handover.released(self.connection, self._sessions)

    def _configured(self, request: Message) -> List[Action]:
        connection = self.connection
        if connection.configured:
            return [self._say(messages.answer(request))]
        connection.configured = True
        process = {"isLocalProcess": False, "startMethod": "attach"}
        name = "dkdbg agent"
        if connection.key != ROOT:
            name = self._sessions.agent.name_of(connection.key)
            process["systemProcessId"] = connection.key
        actions = [self._say(messages.answer(request)), self._say(messages.answer(connection.attach))]
        if connection.key == ROOT:
            message = (
                'you are an observer: %s. Add "dkdbgRole": "take-over" to this configuration to take it over'
                % self._who
            )
            actions.append(self._say(messages.say(message, "important")))
        actions.append(self._say(messages.event("process", name=name, **process)))
        if connection.key == ROOT:
            for key in self._sessions.observable():
                actions += self.announce(key)
        for thread, reason in self._controller.stops.reasons.items():
            stop = {"threadId": thread, "reason": reason, "allThreadsStopped": True}
            actions.append(self._say(messages.event("stopped", preserveFocusHint=True, **stop)))
        return actions

    def _say(self, body: bytes) -> Action:
        return self.connection.to_client(body)


def _who(controller: Connection) -> str:
    return "another editor (since %s, from %s) controls this session" % (controller.since, controller.address)
