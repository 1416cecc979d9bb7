"""Policy for when a controller or a root session leaves. No I/O.

If a controller leaves and the process lives on, the earliest observer becomes the controller. If an editor leaves
its root session, or that of one process, all its other sessions end.
"""

from __future__ import annotations

from dkdbg.agent.dap import messages
from dkdbg.agent.dap.messages import STOP, STOP_PROCESS, as_dict
from dkdbg.agent.proxy.broker.connection import CONTROLLING, ROOT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

    from dkdbg.agent.dap.messages import Message
    from dkdbg.agent.proxy.broker.connection import Action, Connection
    from dkdbg.agent.proxy.broker.sessions import Sessions

#: Seconds in which a client may come back before an observer gets its session: in general, and after a
#: `disconnect` with `restart`. On a busy machine the new attach of a restart took over three seconds.
GRACE_S = 0.3
RESTART_GRACE_S = 10.0


def left(connection: Connection, sessions: Sessions, request: Message) -> List[Action]:
    """End all other sessions of an editor that disconnects one.

    An editor's stop button disconnects one session: the root session, or that of the process in focus. A process
    stopped in another session would stay stopped until the user stops that session too. A configuration can ask
    to leave processes one by one (STOP_PROCESS); disconnecting the root session always ends all others.

    Args:
        request: its `disconnect`. The other sessions stay if it has `restart`, because the editor comes back, or
            `terminateDebuggee`, because no stopped process may continue before the program ends.
    """
    if not leaves_all(connection, request):
        return []
    return end_sessions(connection.editor, sessions, but=connection)


def leave(connection: Connection, sessions: Sessions, request: Message) -> List[Action]:
    """Answer a `disconnect` without passing it to the adapter, and close the connection; see `left`."""
    ends = left(connection, sessions, request)
    answer = connection.to_client(messages.answer(request))
    return [answer, *connection.close("it has left"), *ends]


def leaves_all(connection: Connection, request: Message) -> bool:
    """Tell whether a `disconnect` of one session is meant for all sessions of its editor."""
    arguments = as_dict(request.get("arguments"))
    stays = arguments.get("restart") is True or arguments.get("terminateDebuggee") is True
    if connection.leaving or stays:
        return False
    return connection.key == ROOT or (
        bool(connection.editor) and connection.arguments.get(STOP) != STOP_PROCESS
    )


def end_sessions(editor: int, sessions: Sessions, but: Optional[Connection] = None) -> List[Action]:
    """End all sessions of an editor here except `but`, which the editor ends itself; the processes run on."""
    sessions.evicted.add(editor)
    text = "the debugger was stopped; the processes that it was attached to keep running"
    ends: List[Action] = []
    for controller in sessions.controllers().values():
        if controller is not but and controller.editor == editor and not controller.leaving:
            ends += controller.phase.give_up(text, "console")
    for key in sessions.observed():
        for one in sessions.observers(key):
            if one is not but and one.editor == editor:
                ends += one.phase.end()
    return ends


def released(connection: Connection, sessions: Sessions) -> List[Action]:
    """Offer a process to its observers after the adapter has released it."""
    if not sessions.release_control(connection):
        return []
    connection.leaving = True
    actions = []
    for one in candidates(sessions, connection.key):
        if connection.stops.reasons:  # the adapter continues a process when its client leaves
            thread = next(iter(connection.stops.reasons))
            body = messages.event("continued", threadId=thread, allThreadsContinued=True)
            actions.append(one.to_client(body))
        actions.append(one.reconnect(RESTART_GRACE_S if connection.restarting else GRACE_S))
    return actions


def follow(connection: Connection, sessions: Sessions) -> List[Action]:
    """Make the observers of a process follow its new controller."""
    found = [one for one in sessions.observers(connection.key) if one is not connection]
    return [action for one in found for action in one.phase.follow(connection)]


def free(sessions: Sessions) -> List[Action]:
    """Hand over the processes that have observers and no controller, after a root session was handed over."""
    keys = [key for key in sessions.observed() if key != ROOT and sessions.controller(key) is None]
    return [one.reconnect(0.0) for key in keys for one in candidates(sessions, key)]


def heir(connection: Connection, former: Connection, sessions: Sessions) -> Optional[Connection]:
    """Return the next controller of a process: its earliest observer, preferably in the root session's editor.

    None until the root session itself has been handed over.

    Args:
        connection: an observer of the process. former: the controller that it has observed.
    """
    waiting = candidates(sessions, connection.key)
    first = waiting[0] if waiting else None
    if connection.key == ROOT:
        return first
    root = sessions.controller(ROOT)
    if root is None or root.leaving:
        return None if candidates(sessions, ROOT) else first
    of_root = [one for one in waiting if one.editor == root.editor]
    if of_root:
        return of_root[0] if root.phase.name == CONTROLLING else None
    # If the root's editor has left only this process, its observers are other editors: the earliest one gets it.
    # Otherwise the adapter is about to announce the process to the root's editor.
    return first if former.editor == root.editor else None


def candidates(sessions: Sessions, key: int) -> List[Connection]:
    """Return the observers that could become the controller of a process, the earliest first."""
    return [one for one in sessions.observers(key) if one.phase.observes]
