"""Continues, pauses and detaches all ranks of one job together. No I/O.

A rank that continues alone waits in its next collective for the stopped ones. The ranks of other agents are reached
through the client, which has a root session with each agent (`dkdbgTogether`).
"""

from __future__ import annotations

from dkdbg.agent.contract import CONTINUE_ONE
from dkdbg.agent.dap import messages
from dkdbg.agent.dap.messages import CONTINUE
from dkdbg.agent.proxy.broker import handover
from dkdbg.agent.proxy.broker.connection import ROOT
from dkdbg.agent.state import job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, List

    from dkdbg.agent import contract
    from dkdbg.agent.dap.messages import Message
    from dkdbg.agent.proxy.broker.connection import Action, Connection
    from dkdbg.agent.proxy.broker.sessions import Sessions

#: Command sent to the other agents while a rank is stopped here; the other commands are an editor's DAP requests.
HELD = "held"


def with_it(connection: Connection, sessions: Sessions, command: str) -> List[Action]:
    """Continue or pause the editor's other ranks after it has continued or paused one.

    The client's configuration can limit a command to the one rank; otherwise the agent's default applies.
    """
    if command not in ("continue", "pause") or connection.key == ROOT:
        return []
    if connection.arguments.get(CONTINUE, sessions.agent.continues) == CONTINUE_ONE:
        return []
    ranks = sessions.ranks()
    if connection.key not in [each["pid"] for each in ranks]:
        return []
    others = [
        one for one in _held(sessions, ranks) if one is not connection and one.editor == connection.editor
    ]
    own_actions = _resumed(others) if command == "continue" else _paused(others)
    return [*own_actions, *_to_other_agents(connection, sessions, command, ranks)]


def left(connection: Connection, sessions: Sessions, request: Message) -> List[Action]:
    """Make the editor leave the other agents too, if its `disconnect` is for all processes; see handover.py."""
    if connection.key == ROOT or not handover.leaves_all(connection, request):
        return []
    return _to_other_agents(connection, sessions, "disconnect", sessions.ranks())


def from_other_agent(root: Connection, sessions: Sessions, wanted: Message) -> List[Action]:
    """Apply to this agent's ranks what the same editor did with a rank of another agent.

    Continue, pause or leave them, or stop their clocks while that rank is stopped.

    Args:
        root: the client of the root session. wanted: the other agent's event; see `_to_other_agents`.
    """
    command, world, numbers = wanted.get("command"), wanted.get("world"), wanted.get("ranks")
    if (
        command not in ("continue", "pause", "disconnect", HELD)
        or not isinstance(world, int)
        or not isinstance(numbers, list)
    ):
        return []
    ranks = sessions.ranks()
    own_share, other_share = (
        job.share(ranks),
        job.Share(world, (each for each in numbers if isinstance(each, int))),
    )
    is_same = other_share.belongs_to(own_share)
    if command == HELD and (is_same or not (own_share.ranks and other_share.ranks)):
        sessions.agent.on_other_agent_held()
    if command == HELD or not is_same:
        return []
    if command == "disconnect":
        return handover.end_sessions(root.editor, sessions)
    found = [one for one in _held(sessions, ranks) if one.editor == root.editor]
    found = [one for one in found if one.arguments.get(CONTINUE, sessions.agent.continues) != CONTINUE_ONE]
    return _resumed(found) if command == "continue" else [*sessions.barrier.open(), *_paused(found)]


def held(sessions: Sessions) -> List[Action]:
    """Make the editor's other agents stop their clocks for some seconds: a process is stopped here.

    Agents with ranks of another job ignore this: see `from_other_agent`.
    """
    root = sessions.controller(ROOT)
    return [] if root is None else _to_other_agents(root, sessions, HELD, sessions.ranks())


def _to_other_agents(
    connection: Connection, sessions: Sessions, command: str, ranks: List[contract.Process]
) -> List[Action]:
    root = sessions.controller(ROOT)
    if root is None or root.leaving or root.editor != connection.editor:
        return []
    share = job.share(ranks)
    if not root.arguments.get(messages.LEADS_BARRIER):
        return []
    if command != HELD and share.world <= len(share.ranks):
        return []
    body = messages.event(messages.GROUP, command=command, world=share.world, ranks=sorted(share.ranks))
    return [root.to_client(body)]


def _held(sessions: Sessions, ranks: Iterable[contract.Process]) -> List[Connection]:
    controllers = sessions.controllers()
    found = [controllers[each["pid"]] for each in ranks if each["pid"] in controllers]
    return [one for one in found if one.configured and not one.leaving]


def _resumed(connections: List[Connection]) -> List[Action]:
    return [action for one in connections for thread in one.stops.held[:1] for action in one.go_on(thread)]


def _paused(connections: List[Connection]) -> List[Action]:
    # Includes processes that were just continued and have not reported it yet.
    return [action for one in connections if not one.stops.held for action in one.pause()]
