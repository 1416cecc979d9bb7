"""Answers of a root session that need no process behind it. No I/O."""

from __future__ import annotations

from typing import Any, TypeAlias

from dkdbg.agent.dap import messages
from dkdbg.agent.dap.messages import as_dict

Message: TypeAlias = dict[str, Any]

#: debugpy 1.8's answer to any `initialize`.
CAPABILITIES: Message = {
    **dict.fromkeys(
        (
            "supportsCompletionsRequest", "supportsConditionalBreakpoints", "supportsConfigurationDoneRequest",
            "supportsDebuggerProperties", "supportsDelayedStackTraceLoading", "supportsEvaluateForHovers",
            "supportsExceptionInfoRequest", "supportsExceptionOptions", "supportsFunctionBreakpoints",
            "supportsHitConditionalBreakpoints", "supportsLogPoints", "supportsModulesRequest", "supportsSetExpression",
            "supportsSetVariable", "supportsValueFormattingOptions", "supportsTerminateDebuggee",
            "supportsTerminateRequest", "supportsGotoTargetsRequest", "supportsClipboardContext",
            "supportsStepInTargetsRequest",
            "supportsRestartRequest",  # not in debugpy: the agents restart their programs
        ),
        True,
    ),
    "exceptionBreakpointFilters": [
        {
            "filter": "raised",
            "label": "Raised Exceptions",
            "default": False,
            "description": "Break whenever any exception is raised.",
        },
        {
            "filter": "uncaught",
            "label": "Uncaught Exceptions",
            "default": True,
            "description": "Break when the process is exiting due to unhandled exception.",
        },
        {
            "filter": "userUnhandled",
            "label": "User Uncaught Exceptions",
            "default": False,
            "description": "Break when exception escapes into library code.",
        },
    ],
}  # fmt: skip
#: Sent on every mouse move or key press: refused silently.
_QUIET = frozenset(
    (
        "evaluate",
        "completions",
        "setExpression",
        "setVariable",
        "gotoTargets",
        "stepInTargets",
        "exceptionInfo",
    )
)
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
