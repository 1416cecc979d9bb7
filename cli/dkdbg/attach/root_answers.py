"""Answers of a root session that need no process behind it. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.agent.dap import messages
from dkdbg.agent.dap.messages import as_dict

if TYPE_CHECKING:
    from dkdbg.agent.dap.messages import Message

#: Sent on every mouse move or key press: refused silently.
_QUIET = frozenset((
    "evaluate", "completions", "setExpression", "setVariable", "gotoTargets", "stepInTargets", "exceptionInfo",
))  # fmt: skip
_EMPTY: dict[str, Message] = {
    "threads": {"threads": []},
    "stackTrace": {"stackFrames": [], "totalFrames": 0},
    "scopes": {"scopes": []},
    "variables": {"variables": []},
    "modules": {"modules": [], "totalModules": 0},
    "loadedSources": {"sources": []},
}


def answer(request: Message) -> bytes:
    """Return the response of a root session to a request that concerns processes."""
    command = str(request.get("command"))
    if command in _QUIET:
        return messages.refuse(
            request, "this is the root session; choose the session of a process", show=False
        )
    if command.startswith("set"):
        return messages.answer(request, breakpoints=messages.unset(as_dict(request.get("arguments"))))
    return messages.answer(request, **_EMPTY.get(command, {}))
