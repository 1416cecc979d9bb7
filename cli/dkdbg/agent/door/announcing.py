"""What the adapter tells of its own accord: new processes by name, and copies for those who look on. No I/O."""

from __future__ import annotations

from dkdbg.agent.dap import messages
from dkdbg.agent.door import phase, seats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

    from dkdbg.agent.door.door import Door
    from dkdbg.agent.door.onlooker import Onlooker

    Message = Dict[str, Any]

_ADVICE = (
    "this session is the agent's and never stops: each Python process has a session of its own. A client that does "
    "not open those: `dkdbg attach --ports` on your machine gives each process a port"
)
_COPIED = ("stopped", "continued", "output", "thread", "process", "module", "exited")


def announce(door: Door, message: Message, configuration: Message) -> List[phase.Action]:
    """Offer a process to the client that holds the root session and to those who look on.

    Args:
        message: the adapter's `debugpyAttach` or `startDebugging`. configuration: the attach request within.
    """
    pid = configuration.get("subProcessId")
    configuration.pop(messages.ROLE, None)
    actions: List[phase.Action] = []
    if isinstance(pid, int):
        configuration["name"] = door.hall.name_of(pid)
        configuration[messages.EDITOR] = door.editor
        if _has_it(door, pid):
            return [door.to_adapter(messages.answer(message))] if message.get("type") == "request" else []
        actions = [action for one in onlookers(door) for action in one.announce(pid)]
    if message.get("type") == "request":
        door.unanswered.from_adapter(message)
    return [door.to_client(messages.body_of(message)), *actions]


def _has_it(door: Door, pid: int) -> bool:
    """Tell whether the client has a session of the process from when it looked on.

    With that it gets the process, or has got it: the adapter does not know so, and would have it open another one.
    """
    holder = door.hall.holder(pid)
    if holder is not None and holder.inherited and holder.editor == door.editor and not holder.leaving:
        return True
    return any(other.editor == door.editor for other in door.hall.onlookers(pid))


def advice(door: Door) -> List[phase.Action]:
    """Tell a client that attached to the root session alone, and may never see a process stop, what to do."""
    understands = messages.opens_sessions(door.introduction)
    return (
        [] if understands or door.key != seats.ROOT else [door.to_client(messages.say(_ADVICE, "important"))]
    )


def happened(door: Door, name: object, content: Message, body: bytes) -> List[phase.Action]:
    """Pass an event on, and copy it for those who look on.

    Args:
        name, content, body: the event's name, its body, and the whole frame's.
    """
    passed = [door.to_client(body)]
    if name == "exited":
        door.exited = True
    if name == "terminated":
        # Of this session alone: its client has asked for it, or the adapter has ended it and the agent lives on.
        alone, door.leaving = door.leaving or (door.key == seats.ROOT and not door.exited), True
        return passed if alone else passed + [action for one in onlookers(door) for action in one.end()]
    if name in _COPIED and content.get("category") != "telemetry":
        passed += [one.copy(body) for one in onlookers(door)]
    return passed


def onlookers(door: Door) -> List[Onlooker]:
    """Return those who look on at the process that this door's client holds, and have configured their session."""
    found = door.hall.onlookers(door.key)
    return [
        other.onlooker
        for other in found
        if other.onlooker is not None and other.configured and not other.onlooker.over
    ]
