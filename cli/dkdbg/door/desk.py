"""What a root session answers by itself, without any process behind it. No I/O."""

from __future__ import annotations

from typing import Any, TypeAlias

from dkdbg.agent import hall

Message: TypeAlias = dict[str, Any]

#: What debugpy 1.8 answers to `initialize`, whoever asks.
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
#: Asked on every move of the mouse or at every key: refused without a word.
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
#: Editors that open a child session on debugpy's own event `debugpyAttach`.
_UNDERSTAND_EVENT = frozenset(("vscode", "visualstudio", "dkdbg"))
_EMPTY: dict[str, Message] = {
    "threads": {"threads": []},
    "stackTrace": {"stackFrames": [], "totalFrames": 0},
    "scopes": {"scopes": []},
    "variables": {"variables": []},
    "modules": {"modules": [], "totalModules": 0},
    "loadedSources": {"sources": []},
}


def as_dict(value: object) -> Message:
    """Return `value` when it is an object of JSON, else an empty one."""
    return value if isinstance(value, dict) else {}


def answer(request: Message) -> bytes:
    """Return the response of a root session to a request that concerns processes."""
    command = str(request.get("command"))
    if command in _QUIET:
        return hall.refuse(request, "this is the root session; choose the session of a process", show=False)
    if command.startswith("set"):
        wanted = as_dict(request.get("arguments")).get("breakpoints")
        count = len(wanted) if isinstance(wanted, list) else 0
        # Unverified on purpose: an editor shows a breakpoint as set when one of its sessions has verified it.
        unset = {"verified": False, "message": "set in each Python process"}
        return hall.answer(request, breakpoints=[unset] * count)
    return hall.answer(request, **_EMPTY.get(command, {}))


def opens_sessions(client: Message) -> bool:
    """Return whether an editor opens a session for each process; `client` are the arguments of its `initialize`."""
    name = client.get("clientID")
    return _starts_sessions(client) or (isinstance(name, str) and name in _UNDERSTAND_EVENT)


def announcement(client: Message, sequence: int, configuration: Message) -> bytes:
    """Return what asks an editor to open a session for a process; the event does no harm to those that do not know it.

    Args:
        sequence: number of a request.
        configuration: the arguments of the session's `attach`.
    """
    if not _starts_sessions(client):
        return hall.event("debugpyAttach", **{**configuration, "request": "attach"})
    request = {"seq": sequence, "type": "request", "command": "startDebugging"}
    return hall.body_of({**request, "arguments": {"request": "attach", "configuration": configuration}})


def output(event: Message, prefix: str) -> bytes:
    """Return an output event with the target's name before its text; an empty prefix changes nothing."""
    content = as_dict(event.get("body"))
    text = f"{prefix}: {content.get('output', '')}" if prefix else content.get("output")
    return hall.body_of({**event, "body": {**content, "output": text}})


def _starts_sessions(client: Message) -> bool:
    return client.get("supportsStartDebuggingRequest") is True
