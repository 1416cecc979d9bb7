"""An attach that was let in: hold the process, look on, take it over, or wait for whoever has it. No I/O."""

from __future__ import annotations

from dkdbg.agent.dap import messages
from dkdbg.agent.door import phase, seats
from dkdbg.agent.front import tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

    from dkdbg.agent.door.door import Door

    Message = Dict[str, Any]

#: Seconds that an attach waits: for a former client whose end has not been seen yet; for the adapter to let go of
#: the process; for somebody to look on at.
GRACE = 0.3
FREE_LIMIT = 3.0
HELD_LIMIT = 5.0


def admit(door: Door, message: Message, body: bytes) -> List[phase.Action]:
    """Check an attach request and, when it may come in, begin its arrival.

    Args:
        message, body: the request, decoded and as it came.
    """
    arguments = messages.as_dict(message.get("arguments"))
    reason = door.hall.check.refusal(arguments.get(tokens.PROPERTY), door.address, door.hall.clock())
    if reason:
        return [door.refuse(message, reason), *door.close("refused: " + reason.partition(":")[0])]
    role = arguments.get(messages.ROLE, "")
    if role not in ("", messages.LOOK_ON, messages.TAKE_OVER):
        return [
            door.refuse(
                message, '"%s" is "%s" or "%s"' % (messages.ROLE, messages.LOOK_ON, messages.TAKE_OVER)
            )
        ]
    pid, editor = arguments.get("subProcessId"), arguments.get(messages.EDITOR)
    door.key = pid if isinstance(pid, int) and pid > 0 else seats.ROOT
    if door.key == seats.ROOT:
        door.editor = door.hall.next_editor()
    else:
        door.editor = editor if isinstance(editor, int) else 0
    door.attach, door.arguments = message["seq"], arguments
    door.arrival = Arrival(door, message, body)
    return door.arrival.settle()


class Arrival:
    """One attach request until it is settled.

    Args:
        door: whose. request, body: the attach request, decoded and as it came.
    """

    def __init__(self, door: Door, request: Message, body: bytes) -> None:
        self._door = door
        self._request = request
        self._body = body
        self._role = door.arguments.get(messages.ROLE, "")
        self._waits_for = ""
        self._evicted: List[Door] = []

    def ready(self) -> bool:
        """Tell whether what a WAIT was for has come."""
        shared = self._door.hall
        holder = shared.holder(self._door.key)
        if self._waits_for == "held":
            return holder is not None and holder.configured and not holder.leaving
        if self._waits_for == "grace":
            return holder is None or holder.leaving
        present = list(shared.holders().values())
        return not any(door in present for door in self._evicted) and (holder is None or not holder.leaving)

    def resume(self) -> List[phase.Action]:
        """Go on after a WAIT."""
        waited, self._waits_for = self._waits_for, ""
        return self.settle(waited) if waited else []

    def settle(self, waited: str = "") -> List[phase.Action]:
        """Decide, as far as that can be done now.

        Args:
            waited: what for, until now.
        """
        door, role = self._door, self._role
        holder = door.hall.holder(door.key)
        if door.key != seats.ROOT and door.editor in door.hall.evicted:
            return self._nobody()  # its editor opens what it was told of before it lost the session
        if role == messages.LOOK_ON and (holder is None or holder.leaving or not holder.configured):
            return self._nobody() if waited else self._wait("held", HELD_LIMIT)
        if holder is None or (holder.leaving and waited == "free"):
            return door.hold(self._body)
        if holder.leaving:
            return self._wait("free", FREE_LIMIT)
        if role == messages.TAKE_OVER:
            return [*self._evict(), *self._wait("free", FREE_LIMIT)]
        if role == messages.LOOK_ON or waited == "grace":
            return door.look_on(holder, self._request)
        return self._wait("grace", GRACE)

    def _wait(self, what: str, seconds: float) -> List[phase.Action]:
        self._waits_for = what
        return [phase.Action(phase.WAIT, self._door, seconds=seconds)]

    def _nobody(self) -> List[phase.Action]:
        door = self._door
        if door.key != seats.ROOT:  # as debugpy does for a process that is gone
            return [
                door.to_client(messages.answer(self._request)),
                door.to_client(messages.event("terminated")),
            ]
        text = 'nobody holds this session: attach without "%s"' % messages.ROLE
        return [door.to_client(messages.refuse(self._request, text))]

    def _evict(self) -> List[phase.Action]:
        """Take the process from its holder; with the root session go all others, and what looks on beside it."""
        shared, key = self._door.hall, self._door.key
        found = shared.holders()
        self._evicted = [d for other, d in found.items() if key in (seats.ROOT, other) and not d.leaving]
        text = "another editor (%s) has taken this session over" % self._door.address
        ends: List[phase.Action] = []
        if key == seats.ROOT:
            shared.evicted.update(door.editor for door in self._evicted if door.key == seats.ROOT)
            beside = [door for other in shared.looked_at() for door in shared.onlookers(other)]
            for door in beside:
                if door.onlooker is not None and door.editor in shared.evicted:
                    ends += door.onlooker.end()
        return [*ends, *(action for door in self._evicted for action in door.give_up(text))]
