"""Looking on: a second client sees what the first one sees, and changes nothing. No I/O.

It gets a copy of the events, and its questions are asked through the connection of the client that holds the
process. Its own connection to the adapter is not used until that client leaves: then who looks on longest gets the
process, with the breakpoints that it has set meanwhile (succession.py).
"""

from __future__ import annotations

from dkdbg.agent.dap import messages
from dkdbg.agent.door import phase, seats, succession

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

    from dkdbg.agent.door.door import Door

    Message = Dict[str, Any]

#: What may be asked: it reads.
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
#: What each editor sends while it attaches. It is answered without an effect: an error would be shown each time.
_SETS = (
    "setBreakpoints",
    "setFunctionBreakpoints",
    "setExceptionBreakpoints",
    "setDataBreakpoints",
    "setInstructionBreakpoints",
    "setDebuggerProperty",
    "debugpySystemInfo",
)
#: Asked on every move of the mouse or at every key: refused without a word.
_QUIET = (
    "evaluate",
    "completions",
    "breakpointLocations",
    "dataBreakpointInfo",
    "gotoTargets",
    "stepInTargets",
)
#: Properties that debugpy leaves out of the attach request of a child session, and our own.
_NOT_INHERITED = (
    "processId", "listen", "preLaunchTask", "postDebugTask", "request", "restart", "args", "processName",
    "pythonArgs", "host", "port",
)  # fmt: skip


class Onlooker:
    """What a door does while its client looks on.

    Args:
        door: the client's. holder: whose session it looks at.
        attach: the client's attach request, answered after its configurationDone.
    """

    def __init__(self, door: Door, holder: Door, attach: Message) -> None:
        self._door = door
        self.holder = holder
        self.over = False
        self._attach = attach
        self._who = _who(holder)

    def begin(self) -> List[phase.Action]:
        """Let the client configure its session."""
        return [self._door.to_client(messages.event("initialized"))]

    def from_client(self, request: Message) -> List[phase.Action]:
        """Answer a request."""
        command = request["command"]
        if command == "disconnect":
            ends = [] if self.over else succession.left(self._door, request)
            left = [
                self._say(messages.answer(request)),
                phase.Action(phase.CLOSE, self._door, reason="it has left"),
            ]
            return [*left, *ends]
        if command == "configurationDone":
            return self._configured(request)
        if command in _SETS:
            wanted = request.get("arguments")
            points = wanted.get("breakpoints") if isinstance(wanted, dict) else None
            given = [self._door.hall.next_sequence() for _ in points] if isinstance(points, list) else []
            self._door.settings.note(request, given)
            unset = {"verified": False, "message": self._who + "; this one looks on"}
            return [self._say(messages.answer(request, breakpoints=[dict(unset, id=each) for each in given]))]
        if command in _READS and not self.over:
            if self._door.hall.holder(self._door.key) is self.holder and self.holder.lends:
                return self.holder.lend(self._door, request)
            return [self._say(messages.refuse(request, "the other editor is leaving", show=False))]
        text = '%s; add "dkdbgRole": "take-over" to take it' % self._who
        return [self._say(messages.refuse(request, text, show=command not in _QUIET))]

    def announce(self, pid: int) -> List[phase.Action]:
        """Offer the client to look at one more process."""
        arguments = {k: v for k, v in self._door.arguments.items() if k not in _NOT_INHERITED}
        theirs = self.holder.arguments.get("connect")
        arguments.setdefault("connect", theirs if isinstance(theirs, dict) else {})
        arguments.update({"name": self._door.hall.name_of(pid), "subProcessId": pid})
        arguments.update({messages.ROLE: messages.LOOK_ON, messages.EDITOR: self._door.editor})
        client, number = self._door.introduction, self._door.hall.next_sequence
        return [self._say(messages.announcement(client, number, arguments))]

    def copy(self, body: bytes) -> phase.Action:
        """Show the client an event of the process."""
        return self._say(body)

    def follow(self, holder: Door) -> List[phase.Action]:
        """Another client holds the process now."""
        if holder is self.holder:
            return []
        self.holder, self._who = holder, _who(holder)
        if self._door.key != seats.ROOT:
            return []
        return [self._say(messages.say("you look on: %s" % self._who, "important"))]

    def end(self) -> List[phase.Action]:
        """The process has ended, or will be announced anew."""
        if self.over:
            return []
        self.over = True
        return [self._say(messages.event("terminated"))]

    def _configured(self, request: Message) -> List[phase.Action]:
        door, holder = self._door, self.holder
        if door.configured:
            return [self._say(messages.answer(request))]
        door.configured = True
        note = 'you look on: %s. Add "dkdbgRole": "take-over" to this configuration to take it' % self._who
        process = {"isLocalProcess": False, "startMethod": "attach"}
        name = "dkdbg agent"
        if door.key != seats.ROOT:
            name = door.hall.name_of(door.key)
            process["systemProcessId"] = door.key
        actions = [
            self._say(messages.answer(request)),
            self._say(messages.answer(self._attach)),
            self._say(messages.event("process", name=name, **process)),
        ]
        if door.key == seats.ROOT:
            actions.insert(2, self._say(messages.say(note, "important")))
            for key, other in door.hall.holders().items():
                if key != seats.ROOT and not other.leaving:
                    actions += self.announce(key)
        for thread, reason in holder.stops.reasons.items():
            stop = {"threadId": thread, "reason": reason, "allThreadsStopped": True}
            actions.append(self._say(messages.event("stopped", preserveFocusHint=True, **stop)))
        return actions

    def _say(self, body: bytes) -> phase.Action:
        return self._door.to_client(body)


def _who(holder: Door) -> str:
    return "another editor (since %s, from %s) holds this session" % (holder.since, holder.address)
