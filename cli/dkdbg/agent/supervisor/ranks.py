"""`dkdbg.agent ranks`: sends one query to all ranks of a session, through the agent's control socket.

Access to the session's private folder is enough, as for pdb: it needs neither the port nor a token.
"""

from __future__ import annotations

import json
import sys

from dkdbg.agent.proxy.broker import broadcast_query, comparing
from dkdbg.agent.state import records
from dkdbg.agent.supervisor import control
from dkdbg.agent.supervisor.control import DEFAULT_TIMEOUT_S, WORD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List


def main(argv: List[str]) -> int:
    """Ask the session's agent and print the answers; return the exit code."""
    import argparse

    parser = argparse.ArgumentParser(prog="dkdbg.agent ranks")
    parser.add_argument("--name", default=None, help="the session's name; the newest one by default")
    parser.add_argument("--ranks", default="all", help="such as 0,3 or 0-7:2; all by default")
    parser.add_argument("--frame", type=int, default=0, help="how many callers above the top of the stack")
    parser.add_argument("--limit", type=float, default=DEFAULT_TIMEOUT_S, help="seconds for the answers")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("verb", choices=broadcast_query.VERBS)
    parser.add_argument("expression", nargs="?", default="")
    given = parser.parse_args(argv)
    record = records.newest(given.name)
    if record is None:
        return _fail({"error": "no session is running here"}, as_json=given.json)
    asked = {name: getattr(given, name) for name in ("verb", "expression", "frame", "ranks", "limit")}
    line = control.ask(records.folder_of(record), WORD.decode() + json.dumps(asked), limit=given.limit + 60)
    try:
        found = json.loads(line)
    except ValueError:
        found = {"error": "the agent of session %s gave no answer" % record["id"]}
    if "rows" not in found:
        return _fail(found, as_json=given.json)
    if given.json:
        print(json.dumps(found))
    else:
        print(comparing.table(found["rows"], frames=given.verb == broadcast_query.STACK))
    return 0


def _fail(found: Dict[str, Any], *, as_json: bool) -> int:
    if as_json:
        print(json.dumps(found))
    else:
        sys.stderr.write("dkdbg: %s\n" % found.get("error", "no answer"))
    return 1
