"""What becomes of a session when one of its three ends goes: the adapter, the client that holds it, or the process.

The adapter dies: the root session stays, it is set up at the new adapter in the client's place; child sessions end
and are announced anew. The client leaves and the process lives on: who looks on gets it. No I/O.
"""

from __future__ import annotations

from dkdbg.agent.dap import frames, messages
from dkdbg.agent.dap.messages import as_dict
from dkdbg.agent.door import phase, replay, seats
from dkdbg.agent.door.phase import EVICTED, HOLDING, JOINING, LOOKING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

    from dkdbg.agent.door.door import Door

    Message = Dict[str, Any]

#: Seconds that a client which has left may take to come back before somebody who looks on gets its session; the
#: same for one that has said it restarts.
GRACE = 0.3
RESTART_GRACE = 3.0
#: Connections to an adapter that break before the session is set up, and seconds between two.
ATTEMPTS = 5
PAUSE = 0.2


def lost(door: Door) -> List[phase.Action]:
    """The adapter has closed the connection of a client that was attached, and has not said why: it died."""
    what = "debugpy's adapter died"
    unanswered = door.unanswered.give_up(what)
    door.stops.happened("terminated", {})
    if door.key != seats.ROOT:
        door.phase, door.leaving = EVICTED, True
        door.hall.let_go(door.key, door)
        ends = [one.onlooker.end() for one in door.hall.onlookers(door.key) if one.onlooker is not None]
        told = door.to_client(messages.event("terminated"))
        return [*unanswered, told, *(action for end in ends for action in end)]
    door.phase, door.configured, door.attempts, door.replay = JOINING, False, 0, None
    note = (
        what + "; a new one is being started, and this session stays: the processes come back as new sessions"
    )
    return [*unanswered, door.to_client(messages.say(note, "important")), _reconnect(door, 0.0)]


def give_up(door: Door, text: str, category: str = "important") -> List[phase.Action]:
    """Take the process from the client, and tell it why; it is free when the adapter has let go of it."""
    told = [door.to_client(messages.say(text, category)), door.to_client(messages.event("terminated"))]
    joining, door.phase, door.leaving = door.phase == JOINING, EVICTED, True
    if joining:
        return [*told, phase.Action(phase.LEAVE_ADAPTER, door)]
    request = messages.request(door.unanswered.ours(), "disconnect", {"terminateDebuggee": False})
    return [*told, door.to_adapter(request)]


def left(door: Door, request: Message) -> List[phase.Action]:
    """The client disconnects of its own accord: with the root session all others of the same editor end.

    An editor ends the root session alone. A process that another session still held would stay held, and nobody
    could come back to it: its session is of an editor that is gone.

    Args:
        request: its `disconnect`. With `restart` it comes back; with `terminateDebuggee` the program ends, and no
            process that is held is to run on before that.
    """
    arguments = as_dict(request.get("arguments"))
    stays = arguments.get("restart") is True or arguments.get("terminateDebuggee") is True
    if door.key != seats.ROOT or door.leaving or stays:
        return []
    shared = door.hall
    shared.evicted.add(door.editor)
    text = "the root session was left: this process runs on without a debugger"
    ends: List[phase.Action] = []
    for key, holder in shared.holders().items():
        if key != seats.ROOT and holder.editor == door.editor and not holder.leaving:
            ends += give_up(holder, text, "console")
    for key in shared.looked_at():
        for one in shared.onlookers(key):
            if key != seats.ROOT and one.editor == door.editor and one.onlooker is not None:
                ends += one.onlooker.end()
    return ends


def released(door: Door) -> List[phase.Action]:
    """The adapter has let go of the process that this door's client held."""
    shared = door.hall
    if not shared.let_go(door.key, door):
        return []
    door.leaving = True
    actions = []
    for one in _waiting(shared, door.key):
        if door.stops.reasons:  # the adapter lets a process run that its client leaves
            thread = next(iter(door.stops.reasons))
            body = messages.event("continued", threadId=thread, allThreadsContinued=True)
            actions.append(one.to_client(body))
        actions.append(_reconnect(one, RESTART_GRACE if door.restarting else GRACE))
    return actions


def again(door: Door) -> List[phase.Action]:
    """Begin to set the session up, unless things are different by now; what a RECONNECT comes to."""
    if door.phase == LOOKING:
        if door.hall.holder(door.key) is not None or _heir(door) is not door:
            return []
        door.phase, door.configured, door.attempts, door.inherited = JOINING, False, 0, True
        door.hall.look_away(door.key, door)
        door.hall.hold(door.key, door)
    elif door.phase == EVICTED:  # taken over before there was a connection that could end
        return released(door)
    elif door.phase != JOINING or door.replay is not None:
        return []
    attach = {name: value for name, value in door.arguments.items() if name != messages.ROLE}
    door.replay = replay.Replay(door.hall.next_sequence, door.introduction, attach, door.settings)
    return [phase.Action(phase.TO_ADAPTER, door, door.replay.begin())]


def take(door: Door, current: replay.Replay, body: bytes) -> Optional[List[phase.Action]]:
    """Take a message of the adapter while the session is set up; None when the client shall have it."""
    try:
        taken = current.take(frames.decode(body))
    except frames.FrameError:
        return None
    if taken is None:
        return None
    actions = [phase.Action(phase.TO_ADAPTER, door, body) for body in taken[0]]
    actions += [door.to_client(body) for body in taken[1]]
    if current.failure:
        return [*actions, *failed(door, current.failure)]
    if current.done:
        return [*actions, *_joined(door)]
    return actions


def broken(door: Door) -> List[phase.Action]:
    """The connection to the adapter broke before the session was set up."""
    door.attempts, door.replay = door.attempts + 1, None
    if door.attempts >= ATTEMPTS:
        return failed(door, "debugpy's adapter closed the connection")
    return [_reconnect(door, PAUSE)]


def failed(door: Door, reason: str) -> List[phase.Action]:
    """The session cannot be set up: end it."""
    door.phase = EVICTED
    queue, door.queue = door.queue, []
    queued = [door.refuse(one, reason, show=False) for one in queue]
    text = "this session cannot go on: %s; attach again" % reason
    ends = [door.to_client(messages.say(text, "important")), door.to_client(messages.event("terminated"))]
    return [*queued, *ends, *released(door)]


def _joined(door: Door) -> List[phase.Action]:
    """The session is set up: the client goes on as if nothing had been."""
    door.phase, door.configured = HOLDING, True
    shared = door.hall
    actions = follow(door)
    if door.onlooker is not None:
        door.onlooker, door.since = None, shared.wall()
        if door.key == seats.ROOT:
            text = (
                "the other editor has left: this session is yours now, with the breakpoints that you have set"
            )
            actions.append(door.to_client(messages.say(text, "important")))
    queue, door.queue = door.queue, []
    for request in queue:
        actions += door.from_client(messages.body_of(request))
    if door.key == seats.ROOT:
        for key in shared.looked_at():
            if key != seats.ROOT and shared.holder(key) is None:
                actions += [_reconnect(one, 0.0) for one in _waiting(shared, key)]
    return actions


def follow(door: Door) -> List[phase.Action]:
    """Have all others that look on at a process look at its new holder."""
    found = [one for one in door.hall.onlookers(door.key) if one is not door]
    return [action for one in found if one.onlooker is not None for action in one.onlooker.follow(door)]


def _heir(door: Door) -> Optional[Door]:
    """Return who gets the process that this one looks at: who looks on longest, of the editor with the root session.

    None while that is not settled: the root session is the first to be passed on.
    """
    shared = door.hall
    waiting = _waiting(shared, door.key)
    first = waiting[0] if waiting else None
    if door.key == seats.ROOT:
        return first
    root = shared.holder(seats.ROOT)
    if root is None or root.leaving:
        return None if _waiting(shared, seats.ROOT) else first
    of_root = [one for one in waiting if one.editor == root.editor]
    if of_root:
        return of_root[0] if root.phase == HOLDING else None
    former = door.onlooker.holder if door.onlooker is not None else None
    # The root's editor has left this process alone; another one is about to be told of the process by the adapter.
    return first if former is not None and former.editor == root.editor else None


def _waiting(shared: seats.Hall, key: int) -> List[Door]:
    found = shared.onlookers(key)
    return [
        one
        for one in found
        if one.phase == LOOKING and one.configured and one.onlooker is not None and not one.onlooker.over
    ]


def _reconnect(door: Door, seconds: float) -> phase.Action:
    return phase.Action(phase.RECONNECT, door, seconds=seconds)
