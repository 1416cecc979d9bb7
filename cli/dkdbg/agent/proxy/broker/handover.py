"""Who gets a process next: the policy for when the client that holds it, or its editor's root session, goes. No I/O.

The client leaves and the process lives on: who looks on longest gets it. An editor leaves its root session, or that
of one process: all its other sessions end.
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

#: Seconds that a client which has left may take to come back before somebody who looks on gets its session; the
#: same for one that has said it restarts: on a busy machine its new attach took over three seconds.
GRACE = 0.3
RESTART_GRACE = 10.0


def left(connection: Connection, sessions: Sessions, request: Message) -> List[Action]:
    """The client disconnects of its own accord: all other sessions of the same editor end with this one.

    An editor's stop button ends one session: the root session, or that of the process in focus. A process that
    another session still held would stay held, with one more press of the button for each. Who wants to leave
    processes one by one says so in the configuration; the root session takes all others along in any case.

    Args:
        request: its `disconnect`. With `restart` it comes back; with `terminateDebuggee` the program ends, and no
            process that is held is to run on before that.
    """
    if not leaves_all(connection, request):
        return []
    return end_sessions(connection.editor, sessions, but=connection)


def leaves_all(connection: Connection, request: Message) -> bool:
    """Tell whether a `disconnect` of one session is meant for all of its editor."""
    arguments = as_dict(request.get("arguments"))
    stays = arguments.get("restart") is True or arguments.get("terminateDebuggee") is True
    if connection.leaving or stays:
        return False
    return connection.key == ROOT or (
        bool(connection.editor) and connection.arguments.get(STOP) != STOP_PROCESS
    )


def end_sessions(editor: int, sessions: Sessions, but: Optional[Connection] = None) -> List[Action]:
    """End all sessions of an editor here, but one that it ends itself; the processes run on."""
    sessions.evicted.add(editor)
    text = "the debugger was stopped: what it was attached to keeps running"
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
    """The adapter has let go of the process that this client held."""
    if not sessions.release_control(connection):
        return []
    connection.leaving = True
    actions = []
    for one in candidates(sessions, connection.key):
        if connection.stops.reasons:  # the adapter lets a process run that its client leaves
            thread = next(iter(connection.stops.reasons))
            body = messages.event("continued", threadId=thread, allThreadsContinued=True)
            actions.append(one.to_client(body))
        actions.append(one.reconnect(RESTART_GRACE if connection.restarting else GRACE))
    return actions


def follow(connection: Connection, sessions: Sessions) -> List[Action]:
    """Have all others that look on at a process look at its new holder."""
    found = [one for one in sessions.observers(connection.key) if one is not connection]
    return [action for one in found for action in one.phase.follow(connection)]


def free(sessions: Sessions) -> List[Action]:
    """A root session was passed on: pass on the processes that nobody holds and somebody looks on at."""
    keys = [key for key in sessions.observed() if key != ROOT and sessions.controller(key) is None]
    return [one.reconnect(0.0) for key in keys for one in candidates(sessions, key)]


def heir(connection: Connection, former: Connection, sessions: Sessions) -> Optional[Connection]:
    """Return who gets a process: who looks on longest, of the editor with the root session.

    None while that is not settled: the root session is the first to be passed on.

    Args:
        connection: one that looks on at it. former: at whose session it looks.
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
    # The root's editor has left this process alone; another one is about to be told of the process by the adapter.
    return first if former.editor == root.editor else None


def candidates(sessions: Sessions, key: int) -> List[Connection]:
    """Return those who look on at a process and could get it, the longest first."""
    return [one for one in sessions.observers(key) if one.phase.observes]
