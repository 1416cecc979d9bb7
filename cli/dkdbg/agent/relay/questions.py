"""Questions that the agent answers through a relay to its ports, for `dkdbg ps`, `where` and `ranks`.

The other end has the session's token and a debugger, with which it can run anything. Rejecting every other command
limits mistakes; it is not a security boundary.
"""

from __future__ import annotations

import json
import os
import sys

from dkdbg.agent.relay.program import Order
from dkdbg.agent.relay.wire import WireError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Verbs that the agent answers; an agent that connects back lists them in its description.
VERBS = ("ranks", "sessions", "where")
#: Maximum number of questions at a time.
MOST = 8


def order(payload: bytes) -> Order:
    """Return the command for a question. Raises WireError: the question is invalid."""
    try:
        words: Any = json.loads(payload.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        raise WireError("a question that is none: %s" % error) from error
    if not isinstance(words, list) or not words or words[0] not in VERBS:
        raise WireError("a question that the agent does not answer")
    agent = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")
    argv = [sys.executable, "-I", "-S", "-B", agent, *words]
    data = json.dumps({"argv": argv, "terminal": None, "environment": {}})
    return Order(data.encode("utf-8", "surrogateescape"))
