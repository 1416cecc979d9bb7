"""The door: what passes between one client and debugpy's adapter, as a state machine without sockets and time.

Before an attach with the right token nothing but `initialize` and `disconnect` reaches the adapter. One client holds
a process; a second one looks on (onlooker.py) or takes over. Processes are announced by what they are.
"""

from __future__ import annotations

import re

from dkdbg.agent import arrival, dap_frames, hall, onlooker, stops, tokens
from dkdbg.agent.stops import as_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

    Message = Dict[str, Any]

NEW, INTRODUCED, HOLDING, LOOKING, EVICTED, CLOSED = (
    "new",
    "introduced",
    "holding",
    "looking",
    "evicted",
    "closed",
)

#: Larger answers of the adapter are passed on unread.
_LARGE = 32 << 10
_ANSWER = re.compile(rb'\{"seq": ?\d+, ?"type": ?"response", ?"request_seq": ?(\d+),')
_COPIED = ("stopped", "continued", "output", "thread", "process", "module", "exited", "terminated")


class Door:
    """One client's connection.

    Bodies of frames come in, actions for the sockets come out; nothing is ever raised.

    Args:
        address: where the client is, for messages to other people.

    Attributes:
        key: the pid that is attached to, hall.ROOT for the root session.
        since: time of day of the attach.
        leaving: the client goes or has gone, the adapter is still busy with that.
        configured: the adapter has answered the attach.
        stops: where the process is held.
        link: the front's, to find its sockets.
    """

    def __init__(self, shared: hall.Hall, address: str) -> None:
        self.hall = shared
        self.address = address
        self.phase = NEW
        self.key = hall.ROOT
        self.since = ""
        self.leaving = False
        self.configured = False
        self.stops = stops.Stops(self._report)
        self.link: Any = None
        self.arguments: Message = {}
        self.starts_sessions = False
        self._initialize: Message = {}
        self._attach = 0
        self._arrival: Optional[arrival.Arrival] = None
        self._lent: Dict[int, Optional[Tuple[Door, Message]]] = {}
        self._onlooker: Optional[onlooker.Onlooker] = None

    # -- the client's side --------------------------------------------------------------------------------------

    def from_client(self, body: bytes) -> List[hall.Action]:
        """Take one message of the client."""
        if self.phase == CLOSED:
            return []
        try:
            message = dap_frames.decode(body)
        except dap_frames.FrameError as error:
            return self._close(str(error))
        kind = message.get("type")
        if kind in ("response", "event"):
            return [self._to_adapter(body)] if self.phase == HOLDING else []
        sequence = message.get("seq")
        if kind != "request" or not isinstance(message.get("command"), str) or not isinstance(sequence, int):
            return self._close("not a request of the Debug Adapter Protocol")
        if sequence >= hall.OWN_SEQUENCE:
            return [self._refuse(message, "sequence numbers end at %d" % (hall.OWN_SEQUENCE - 1))]
        if self.phase == NEW:
            return self._introduce(message)
        if self.phase == INTRODUCED:
            return self._before_attach(message, body)
        if self.phase == HOLDING:
            return self._held(message, body)
        if self._onlooker is not None:
            return self._onlooker.from_client(message)
        if message["command"] == "disconnect":
            return [self.to_client(hall.answer(message)), *self._close("it was taken over")]
        return [self._refuse(message, "another editor has taken this session over", show=False)]

    def _introduce(self, message: Message) -> List[hall.Action]:
        if message["command"] != "initialize":
            return self._close("the first request is not initialize")
        self.phase = INTRODUCED
        self._initialize = message
        self.starts_sessions = as_dict(message.get("arguments")).get("supportsStartDebuggingRequest") is True
        return [self._to_adapter(hall.body_of(message))]

    def _before_attach(self, message: Message, body: bytes) -> List[hall.Action]:
        command = message["command"]
        if command == "attach":
            return self._authenticate(message, body)
        if command in ("initialize", "disconnect"):
            return [self._to_adapter(hall.body_of(message))]
        if command == "launch":
            return [self._refuse(message, "the program runs already: use an attach configuration")]
        return [self._refuse(message, "attach first: %s came before it" % command[:40])]

    def _authenticate(self, message: Message, body: bytes) -> List[hall.Action]:
        arguments = as_dict(message.get("arguments"))
        reason = self.hall.check.refusal(arguments.get(tokens.PROPERTY), self.address, self.hall.clock())
        if reason:
            return [self._refuse(message, reason), *self._close("refused: " + reason.partition(":")[0])]
        role = arguments.get(arrival.ROLE, "")
        if role not in ("", arrival.LOOK_ON, arrival.TAKE_OVER):
            text = '"%s" is "%s" or "%s"' % (arrival.ROLE, arrival.LOOK_ON, arrival.TAKE_OVER)
            return [self._refuse(message, text)]
        pid = arguments.get("subProcessId")
        self.key = pid if isinstance(pid, int) and pid > 0 else hall.ROOT
        self._attach, self.arguments = message["seq"], arguments
        self._arrival = arrival.Arrival(self, message, body)
        return self._arrival.settle()

    # -- who holds the process ----------------------------------------------------------------------------------

    def ready(self) -> bool:
        """Tell whether what a WAIT was for has come."""
        return self._arrival is None or self._arrival.ready()

    def resume(self) -> List[hall.Action]:
        """Go on after a WAIT."""
        return self._arrival.resume() if self._arrival is not None and self.phase == INTRODUCED else []

    def hold(self, attach: bytes) -> List[hall.Action]:
        """Pass the attach on: the client gets the process."""
        self.phase = HOLDING
        self.since = self.hall.wall()
        self.hall.hold(self.key, self)
        return [self._to_adapter(attach)]

    def look_on(self, holder: Door, attach: Message) -> List[hall.Action]:
        """Let the client look on at what the holder does."""
        self.phase = LOOKING
        self._onlooker = onlooker.Onlooker(self, holder, attach)
        self.hall.look_on(self.key, self)
        return [hall.Action(hall.DROP_ADAPTER, self), *self._onlooker.begin()]

    def give_up(self, text: str) -> List[hall.Action]:
        """Take the process from the client, and tell it why."""
        self.phase, self.leaving = EVICTED, True
        sequence = self.hall.next_sequence()
        self._lent[sequence] = None
        request = {"seq": sequence, "type": "request", "command": "disconnect"}
        body = hall.body_of(dict(request, arguments={"terminateDebuggee": False}))
        end = hall.event("terminated")
        return [self.to_client(hall.say(text, "important")), self.to_client(end), self._to_adapter(body)]

    # -- holding ------------------------------------------------------------------------------------------------

    def _held(self, message: Message, body: bytes) -> List[hall.Action]:
        command = message["command"]
        if command in ("launch", "attach"):
            return [self._refuse(message, "this connection has attached already")]
        if command == "disconnect":
            self.leaving = True
        elif command == "stackTrace":
            self.stops.asked(message)
        return [self._to_adapter(body)]

    def lend(self, borrower: Door, request: Message) -> List[hall.Action]:
        """Ask the adapter in the name of somebody who looks on."""
        sequence = self.hall.next_sequence()
        self._lent[sequence] = (borrower, request)
        return [hall.Action(hall.TO_ADAPTER, self, hall.body_of(dict(request, seq=sequence)))]

    # -- the adapter's side -------------------------------------------------------------------------------------

    def from_adapter(self, body: bytes) -> List[hall.Action]:
        """Take one message of the adapter."""
        if self.phase in (LOOKING, CLOSED):
            return []
        actions = self._from_adapter(body)
        if self.phase == EVICTED:  # its client was told already
            return [action for action in actions if action.door is not self]
        return actions

    def _from_adapter(self, body: bytes) -> List[hall.Action]:
        passed = [self.to_client(body)]
        if len(body) > _LARGE:
            found = _ANSWER.match(body[:200])
            if found and int(found.group(1)) not in self._lent:
                return passed
        try:
            message = dap_frames.decode(body)
        except dap_frames.FrameError:
            return passed
        kind = message.get("type")
        if kind == "response":
            return self._answered(message, passed)
        if kind == "event":
            return self._happened(message, body, passed)
        if kind == "request" and message.get("command") == "startDebugging":
            return self._announce(message, as_dict(as_dict(message.get("arguments")).get("configuration")))
        return passed

    def _answered(self, message: Message, passed: List[hall.Action]) -> List[hall.Action]:
        sequence = message.get("request_seq")
        if not isinstance(sequence, int):
            return passed
        if sequence in self._lent:
            lent = self._lent.pop(sequence)
            if lent is None or lent[0].phase != LOOKING:
                return []
            return [lent[0].to_client(hall.body_of(dict(message, request_seq=lent[1]["seq"])))]
        if self.phase == HOLDING and message.get("command") == "attach" and sequence == self._attach:
            self.configured = message.get("success") is True
            if not self.configured:
                self.phase = INTRODUCED
                self.hall.let_go(self.key, self)
        self.stops.answered(sequence, message)
        return passed

    def _happened(self, message: Message, body: bytes, passed: List[hall.Action]) -> List[hall.Action]:
        name, content = message.get("event"), as_dict(message.get("body"))
        if name == "debugpyAttach":
            return self._announce(message, content)
        self.stops.happened(name, content)
        if name == "terminated":
            self.leaving = True
        if name in _COPIED and content.get("category") != "telemetry":
            passed += [door.to_client(body) for door in self.hall.onlookers(self.key) if door.configured]
        return passed

    def _report(self, where: str) -> None:
        if self.key != hall.ROOT and self.hall.holder(self.key) is self:
            self.hall.on_stop(self.key, where)

    def _announce(self, message: Message, configuration: Message) -> List[hall.Action]:
        pid = configuration.get("subProcessId")
        if isinstance(pid, int):
            configuration["name"] = self.hall.name_of(pid)
        configuration.pop(arrival.ROLE, None)
        actions = [self.to_client(hall.body_of(message))]
        for door in self.hall.onlookers(self.key):
            if door._onlooker is not None and door.configured and isinstance(pid, int):
                actions += door._onlooker.announce(pid)
        return actions

    # -- the end ------------------------------------------------------------------------------------------------

    def client_gone(self) -> List[hall.Action]:
        """The client has closed its side; what is left to come from the adapter still passes."""
        self.leaving = True
        return []

    def adapter_gone(self) -> List[hall.Action]:
        """The adapter has closed its side: the process is free, and those that look on have seen all."""
        if not self.hall.let_go(self.key, self):
            return []
        self.leaving = True
        found = [door._onlooker for door in self.hall.onlookers(self.key)]
        return [action for one in found if one is not None for action in one.end()]

    def no_adapter(self, reason: str) -> List[hall.Action]:
        """There was no adapter to pass `initialize` to."""
        return [self._refuse(self._initialize, reason), *self._close(reason)]

    def ended(self) -> List[hall.Action]:
        """Both connections are closed."""
        self.phase = CLOSED
        self.hall.look_away(self.key, self)
        return self.adapter_gone()

    def to_client(self, body: bytes) -> hall.Action:
        """Return the action that sends this to the client."""
        return hall.Action(hall.TO_CLIENT, self, body)

    def _to_adapter(self, body: bytes) -> hall.Action:
        return hall.Action(hall.TO_ADAPTER, self, body)

    def _refuse(self, message: Message, text: str, *, show: bool = True) -> hall.Action:
        return self.to_client(hall.refuse(message, text, show=show))

    def _close(self, reason: str) -> List[hall.Action]:
        self.phase = CLOSED
        return [hall.Action(hall.CLOSE, self, reason=reason)]
