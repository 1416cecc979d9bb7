"""Messages of the Debug Adapter Protocol with one value of another type than it should have."""

import json
from collections.abc import Iterator
from typing import Any

from tests.attacks.fuzz import FULL
from tests.unit.attach.test_router import event, request, response

#: A value of each type of JSON, and of those that Python's parser gives besides; more of some types with DKDBG_TEST_FULL=1.
VALUES = (
    None, True, -1, 1 << 1030, float("nan"), float("inf"), "x", "\ud800", [], {}, {"a": []}, *((1.5, "", [[]]) if FULL else ()),
)  # fmt: skip
#: Nested lists that the parser takes, and what walks through them from a deeper stack may not.
_DEEP = "[" * 900 + "]" * 900
_BREAKPOINTS: dict[str, Any] = {"source": {"path": "a.py"}, "breakpoints": [{"line": 1, "condition": "x"}]}

#: What an adapter, an agent or a process of a target says.
SAID = (
    event("initialized"),
    event("output", category="stderr", output="x\n", source={"path": "a.py"}),
    event("stopped", threadId=1, reason="breakpoint", allThreadsStopped=True),
    event("continued", threadId=1, allThreadsContinued=True),
    event("thread", threadId=1, reason="exited"),
    event("process", name="x", systemProcessId=3),
    event("exited", exitCode=1),
    event("terminated", restart=True),
    event("debugpyAttach", name="rank 1", subProcessId=8, dkdbgEditor=1, connect={"host": "h", "port": 1}),
    event("dkdbgGate", number=1, unarmed=1, armed=1, held=1, over=False, world=2, ranks=[0], missing=["a"]),
    event("dkdbgTogether", command="continue", world=2, ranks=[0]),
    request("startDebugging", 9, request="attach", configuration={"subProcessId": 8, "name": "rank 1"}),
    request("runInTerminal", 9, args=["id"]),
    response("initialize", 1, body={"dkdbgNonce": "0" * 64}),
    response("attach", 2),
    response("attach", 2, success=False, message="no", body={"error": {"id": 1, "format": "{a}", "variables": {"a": "b"}}}),
    response("restart", 3, success=False, message="no"),
    response("stackTrace", 4, body={"stackFrames": [{"id": 1, "name": "f", "line": 1, "source": {"path": "a.py"}}]}),
)  # fmt: skip
#: What an editor asks for.
ASKED = (
    request("initialize", clientID="vscode", supportsStartDebuggingRequest=True, dkdbgNonce="0" * 64),
    request("attach", 2, subProcessId=7, connect={"host": "h", "port": 1, "project": "x"}, dkdbgRanks="0", dkdbgToken="x",
            dkdbgContinue="one", dkdbgRole="look-on", dkdbgEditor=1, dkdbgGather=True),
    request("setBreakpoints", 3, **_BREAKPOINTS),
    request("setExceptionBreakpoints", 3, filters=["a"]),
    request("configurationDone", 4),
    request("stackTrace", 4, threadId=1),
    request("continue", 5, threadId=1),
    request("pause", 5, threadId=1),
    request("evaluate", 5, expression="@all x", context="repl", frameId=1),
    request("disconnect", 6, terminateDebuggee=True, restart=True),
    request("restart", 7),
    request("dkdbgChoose", 7, ranks="0-3"),
    request("dkdbgGate", 7, do="open", why="x", number=1),
    request("dkdbgRelease", 7, subProcessId=7),
    request("dkdbgProve", 7, dkdbgProof="0" * 64),
)  # fmt: skip


def variants(message: bytes) -> Iterator[bytes]:
    """Yield a message once for each value in it, at any depth, and each of VALUES, and deep lists, in its place."""
    whole = json.loads(message)
    for changed in _changed(whole, VALUES):
        yield json.dumps(changed).encode()
    for changed in _changed(whole, ("DEEP",)):
        yield json.dumps(changed).replace('"DEEP"', _DEEP).encode()


def _changed(value: Any, instead: tuple[object, ...]) -> Iterator[object]:
    yield from instead
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        for changed in _changed(value[key], instead):
            copy = value.copy()
            copy[key] = changed
            yield copy
