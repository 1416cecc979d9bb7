"""`@all EXPRESSION` or `@0,3 EXPRESSION` in an editor's Debug Console: the answers of these ranks as a table. No I/O.

This grants no new access: a client with a session of this port can evaluate in each rank anyway.
"""

from __future__ import annotations

import re

from dkdbg.agent.dap import messages
from dkdbg.agent.dap.messages import as_dict
from dkdbg.agent.inprocess import ranks
from dkdbg.agent.proxy.broker import comparing
from dkdbg.agent.proxy.broker.broadcast_query import EVALUATE, BroadcastQuery, Question
from dkdbg.agent.proxy.broker.connection import LATER, Action

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

    from dkdbg.agent.dap.messages import Message
    from dkdbg.agent.proxy.broker.connection import Connection
    from dkdbg.agent.proxy.broker.sessions import Sessions

#: Seconds that a rank may evaluate; the answers of the others wait for it.
TIMEOUT_S = 10.0
#: No Python expression begins like this.
_FORM = re.compile(r"\s*@\s*([A-Za-z0-9][A-Za-z0-9,:\-]*)(?:\s+(.*))?\Z", re.DOTALL)
_CONTEXTS = ("repl", None)


def is_asked(request: Message) -> bool:
    """Tell whether an `evaluate` request is for several ranks."""
    arguments = as_dict(request.get("arguments"))
    text = arguments.get("expression")
    if (
        not isinstance(text, str)
        or arguments.get("context") not in _CONTEXTS
        or not text.lstrip().startswith("@")
    ):
        return False
    return "\n" not in text.strip() and _FORM.match(text) is not None  # otherwise a function with a decorator


def ask(request: Message, connection: Connection, sessions: Sessions) -> List[Action]:
    """Query the ranks, and answer the request with a table when all have answered, after at most LIMIT seconds."""
    match = _FORM.match(as_dict(request.get("arguments"))["expression"])
    assert match is not None  # noqa: S101 - checked by is_asked
    try:
        wanted = ranks.parse(match.group(1))
    except ranks.RankSetError as error:
        return [connection.refuse(request, "%s; %s" % (error, error.hint))]
    if not match.group(2):
        return [connection.refuse(request, "evaluate what? @%s EXPRESSION" % match.group(1))]

    def finished(found: BroadcastQuery) -> List[Action]:
        text = comparing.table(found.rows)
        return [connection.to_client(messages.answer(request, result=text, variablesReference=0))]

    found = BroadcastQuery(
        Question(EVALUATE, match.group(2).strip(), ranks=wanted),
        sessions,
        sessions.agent.processes(),
        finished,
    )
    actions = found.begin()
    if found.is_done:
        return actions
    late = "no answer within %g s" % TIMEOUT_S
    return [*actions, Action(LATER, connection, seconds=TIMEOUT_S, later=lambda: found.give_up(late))]
