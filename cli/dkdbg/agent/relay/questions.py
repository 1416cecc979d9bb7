"""What the agent may be asked through a relay that leads to its ports: what `dkdbg ps`, `where` and `ranks` want to know.

Who is at the other end holds the session's token and a debugger, with which he can run anything. That no other command
is taken here keeps a mistake small, and is no wall.
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

#: The agent's verbs that answer; an agent that calls says so of itself.
VERBS = ("ranks", "sessions", "where")
#: Questions at one time.
MOST = 8


def order(payload: bytes) -> Order:
    """Return what is to be run. Raises WireError: the question is none."""
    try:
        words: Any = json.loads(payload.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        raise WireError("a question that is none: %s" % error) from error
    if not isinstance(words, list) or not words or words[0] not in VERBS:
        raise WireError("a question that the agent does not answer")
    agent = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")
    argv = [sys.executable, "-I", "-S", "-B", agent, *words]
    said = json.dumps({"argv": argv, "terminal": None, "environment": {}})
    return Order(said.encode("utf-8", "surrogateescape"))
