"""The door: what passes between one client and debugpy's adapter, as a state machine without sockets and time.

Before an attach with the right token nothing but `initialize` and `disconnect` reaches the adapter. One client holds
a process; a second one looks on (onlooker.py) or takes over. Processes are announced by what they are.
"""

from __future__ import annotations

import re

from dkdbg.agent.dap import frames, messages
from dkdbg.agent.dap.messages import as_dict
from dkdbg.agent.door import announcing, arrival, onlooker, pending, phase, replay, seats, stops, succession
from dkdbg.agent.door.phase import CLOSED, EVICTED, HOLDING, INTRODUCED, JOINING, LOOKING, NEW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

    Message = Dict[str, Any]

#: Larger answers of the adapter are passed on unread.
_LARGE = 32 << 10
_ANSWER = re.compile(rb'\{"seq": ?\d+, ?"type": ?"response", ?"request_seq": ?(\d+),')
#: Messages that are kept while a session is set up in the client's place.
_QUEUE = 1000


class Door:
    """One client's connection.

    Bodies of frames come in, actions for the sockets come out; nothing is ever raised.

    Args:
        address: where the client is, for messages to other people.

    Attributes:
        key: the pid that is attached to, hall.ROOT for the root session.
        since: time of day of the attach.
        editor: number of the editor that this session belongs to; 0 where it is not known.
        inherited: its client looked on and has got the process from another one.
        leaving: the client goes or has gone, the adapter is still busy with that.
        restarting: it has said that it comes back.
        configured: the adapter has answered the attach.
        settings: what the client has set. introduction: the arguments of its `initialize`.
        stops: where the process is held.
        link: the front's, to find its sockets.
    """

    def __init__(self, shared: seats.Hall, address: str) -> None:
        self.hall = shared
        self.address = address
        self.phase = NEW
        self.key = seats.ROOT
        self.since = ""
        self.editor = 0
        self.inherited = False
        self.leaving = False
        self.restarting = False
        self.configured = False
        self.settings = replay.Settings()
        self.replay: Optional[replay.Replay] = None
        self.attempts = 0
        self.stops = stops.Stops(self._report)
        self.link: Any = None
        self.arguments: Message = {}
        self.introduction: Message = {}
        self.attach = 0
        self.arrival: Optional[arrival.Arrival] = None
        self.onlooker: Optional[onlooker.Onlooker] = None
        self._initialize: Message = {}
        self.unanswered = pending.Unanswered(self)
        self.exited = False
        self.queue: List[Message] = []

    # -- the client's side --------------------------------------------------------------------------------------

    def from_client(self, body: bytes) -> List[phase.Action]:
        """Take one message of the client."""
        if self.phase == CLOSED:
            return []
        try:
            message = frames.decode(body)
        except frames.FrameError as error:
            return self.close(str(error))
        kind = message.get("type")
        if kind in ("response", "event"):
            passes = self.phase in (HOLDING, JOINING) and self.unanswered.answered_adapter(message)
            return [self.to_adapter(body)] if passes else []
        sequence = message.get("seq")
        if kind != "request" or not isinstance(message.get("command"), str) or not isinstance(sequence, int):
            return self.close("not a request of the Debug Adapter Protocol")
        if sequence >= messages.OWN_SEQUENCE:
            return [self.refuse(message, "sequence numbers end at %d" % (messages.OWN_SEQUENCE - 1))]
        if self.phase == NEW:
            return self._introduce(message)
        if self.phase == INTRODUCED:
            return self._before_attach(message, body)
        if self.phase == HOLDING:
            return self._held(message, body)
        if message["command"] == "disconnect" and self.phase in (JOINING, EVICTED):
            ends = succession.left(self, message)
            return [self.to_client(messages.answer(message)), *self.close("it has left"), *ends]
        if self.phase == JOINING and len(self.queue) < _QUEUE:
            self.queue.append(message)
            return []
        if self.phase == LOOKING and self.onlooker is not None:
            return self.onlooker.from_client(message)
        return [self.refuse(message, "this session has ended", show=False)]

    def _introduce(self, message: Message) -> List[phase.Action]:
        if message["command"] != "initialize":
            return self.close("the first request is not initialize")
        self.phase = INTRODUCED
        self._initialize, self.introduction = message, as_dict(message.get("arguments"))
        return [self.to_adapter(messages.body_of(message))]

    def _before_attach(self, message: Message, body: bytes) -> List[phase.Action]:
        command = message["command"]
        if command == "attach":
            return arrival.admit(self, message, body)
        if command in ("initialize", "disconnect"):
            return [self.to_adapter(messages.body_of(message))]
        if command == "launch":
            return [self.refuse(message, "the program runs already: use an attach configuration")]
        return [self.refuse(message, "attach first: %s came before it" % command[:40])]

    # -- who holds the process ----------------------------------------------------------------------------------

    def ready(self) -> bool:
        """Tell whether what a WAIT was for has come."""
        return self.arrival is None or self.arrival.ready()

    def resume(self) -> List[phase.Action]:
        """Go on after a WAIT."""
        return self.arrival.resume() if self.arrival is not None and self.phase == INTRODUCED else []

    def hold(self, attach: bytes) -> List[phase.Action]:
        """Pass the attach on: the client gets the process."""
        self.phase = HOLDING
        self.since = self.hall.wall()
        self.hall.hold(self.key, self)
        self.unanswered.from_client({"seq": self.attach, "command": "attach"})
        return [self.to_adapter(attach), *succession.follow(self)]

    def look_on(self, holder: Door, attach: Message) -> List[phase.Action]:
        """Let the client look on at what the holder does."""
        self.phase = LOOKING
        self.onlooker = onlooker.Onlooker(self, holder, attach)
        self.hall.look_on(self.key, self)
        return [phase.Action(phase.DROP_ADAPTER, self), *self.onlooker.begin()]

    def give_up(self, text: str) -> List[phase.Action]:
        """Take the process from the client, and tell it why."""
        return succession.give_up(self, text)

    # -- holding ------------------------------------------------------------------------------------------------

    def _held(self, message: Message, body: bytes) -> List[phase.Action]:
        command = message["command"]
        if command in ("launch", "attach"):
            return [self.refuse(message, "this connection has attached already")]
        ends: List[phase.Action] = []
        if command == "disconnect":
            ends, self.leaving = succession.left(self, message), True
            self.restarting = as_dict(message.get("arguments")).get("restart") is True
        elif command == "stackTrace":
            self.stops.asked(message)
        self.settings.note(message)
        self.unanswered.from_client(message)
        return [self.to_adapter(body), *ends]

    @property
    def lends(self) -> bool:
        """Whether the adapter can be asked in the name of somebody who looks on."""
        return self.phase == HOLDING and self.configured and not self.leaving

    def lend(self, borrower: Door, request: Message) -> List[phase.Action]:
        """Ask the adapter in the name of somebody who looks on."""
        sequence = self.unanswered.ours(borrower, request)
        return [phase.Action(phase.TO_ADAPTER, self, messages.body_of(dict(request, seq=sequence)))]

    # -- the adapter's side -------------------------------------------------------------------------------------

    def from_adapter(self, body: bytes) -> List[phase.Action]:
        """Take one message of the adapter."""
        if self.phase in (LOOKING, CLOSED):
            return []
        if self.phase == JOINING and self.replay is not None:
            taken = succession.take(self, self.replay, body)
            if taken is not None:
                return taken
        actions = self._from_adapter(body)
        if self.phase == EVICTED:  # its client was told already
            return [action for action in actions if action.door is not self]
        return actions

    def _from_adapter(self, body: bytes) -> List[phase.Action]:
        passed = [self.to_client(body)]
        if len(body) > _LARGE:
            found = _ANSWER.match(body[:200])
            if found and not self.unanswered.is_ours(int(found.group(1))):
                self.unanswered.answered_client(int(found.group(1)))
                return passed
        try:
            message = frames.decode(body)
        except frames.FrameError:
            return passed
        kind = message.get("type")
        if kind == "response":
            return self._answered(message, passed)
        if kind == "event":
            return self._happened(message, body)
        if kind == "request" and message.get("command") == "startDebugging":
            return announcing.announce(
                self, message, as_dict(as_dict(message.get("arguments")).get("configuration"))
            )
        if kind == "request":
            self.unanswered.from_adapter(message)
        return passed

    def _answered(self, message: Message, passed: List[phase.Action]) -> List[phase.Action]:
        sequence = message.get("request_seq")
        if not isinstance(sequence, int):
            return passed
        if self.unanswered.is_ours(sequence):
            return self.unanswered.answered_us(sequence, message)
        self.unanswered.answered_client(sequence)
        if self.phase == HOLDING and message.get("command") == "attach" and sequence == self.attach:
            self.configured = message.get("success") is True
            if self.configured:
                passed = passed + announcing.advice(self)
            else:
                self.phase = INTRODUCED
                self.hall.let_go(self.key, self)
        self.stops.answered(sequence, message)
        return passed

    def _happened(self, message: Message, body: bytes) -> List[phase.Action]:
        name, content = message.get("event"), as_dict(message.get("body"))
        if name == "debugpyAttach":
            return announcing.announce(self, message, content)
        self.stops.happened(name, content)
        return announcing.happened(self, name, content, body)

    def _report(self, where: str) -> None:
        if self.key != seats.ROOT and self.hall.holder(self.key) is self:
            self.hall.on_stop(self.key, where)

    # -- the end ------------------------------------------------------------------------------------------------

    def client_gone(self) -> List[phase.Action]:
        """The client has closed its side; what is left to come from the adapter still passes."""
        self.leaving = True
        return self.close("the client has left") if self.phase == JOINING else []

    def adapter_gone(self) -> List[phase.Action]:
        """The adapter has closed its side: the process is free, or the adapter is no more."""
        if self.phase == JOINING:
            return succession.broken(self)
        if self.phase == HOLDING and self.configured and not self.leaving:
            return succession.lost(self)
        return succession.released(self)

    def again(self) -> List[phase.Action]:
        """Do what a RECONNECT was for."""
        return succession.again(self)

    def no_adapter(self, reason: str) -> List[phase.Action]:
        """There was no adapter to pass `initialize` to."""
        if self.phase == JOINING:
            return succession.failed(self, reason)
        return [self.refuse(self._initialize, reason), *self.close(reason)]

    def ended(self) -> List[phase.Action]:
        """Both connections are closed."""
        self.phase = CLOSED
        self.hall.look_away(self.key, self)
        return succession.released(self)

    def to_client(self, body: bytes) -> phase.Action:
        """Return the action that sends this to the client."""
        return phase.Action(phase.TO_CLIENT, self, body)

    def to_adapter(self, body: bytes) -> phase.Action:
        """Return the action that sends this to the adapter."""
        return phase.Action(phase.TO_ADAPTER, self, body)

    def refuse(self, message: Message, text: str, *, show: bool = True) -> phase.Action:
        """Return the action that answers a request of the client with an error."""
        return self.to_client(messages.refuse(message, text, show=show))

    def close(self, reason: str) -> List[phase.Action]:
        """Return the actions that end the connection."""
        self.phase = CLOSED
        return [phase.Action(phase.CLOSE, self, reason=reason)]
