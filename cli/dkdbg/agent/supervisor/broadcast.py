"""Parses broadcast queries to a session's ranks from the control socket: one line of JSON after a word."""

from __future__ import annotations

import json

from dkdbg.agent.inprocess import ranks
from dkdbg.agent.proxy.broker import broadcast_query

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List

    #: Asks the ranks, and returns a row for each process within this many seconds.
    Gather = Callable[[broadcast_query.Question, float], List[broadcast_query.Row]]

#: Default and maximum seconds for the answers; maximum bytes of a question.
DEFAULT_TIMEOUT_S, MAX_TIMEOUT_S = 10.0, 600.0
MAX_QUERY_BYTES = 256 << 10
WORD = b"ranks "


def answer(line: bytes, gather: Gather) -> Dict[str, Any]:
    """Return the answer to a line from the control socket: `rows`, or `error` and perhaps `hint`."""
    try:
        asked = json.loads(line[len(WORD) :].decode("utf-8", "surrogatepass"))
        verb, expression, frame = asked["verb"], asked["expression"], int(asked["frame"])
        limit = min(MAX_TIMEOUT_S, max(0.1, float(asked["limit"])))
        wanted = ranks.parse(str(asked["ranks"]))
    except ranks.RankSetError as error:
        return {"error": str(error), "hint": error.hint}
    except (ValueError, KeyError, TypeError) as error:
        return {"error": "not a question: %s" % error}
    if verb not in broadcast_query.VERBS or not isinstance(expression, str) or frame < 0:
        return {"error": "not a question"}
    return {"rows": gather(broadcast_query.Question(verb, expression, frame, wanted), limit)}
