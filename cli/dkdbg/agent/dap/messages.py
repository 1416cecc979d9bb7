"""Build requests, events and answers of the Debug Adapter Protocol, for broker and attach proxy. No I/O."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List

    #: A message or a part of one as JSON: the protocol is open, so fields are checked when used.
    Message = Dict[str, Any]

#: First sequence number of the broker's own requests to the adapter; an editor counts from 1.
OWN_SEQUENCE = 1 << 30

#: Property of the attach request: the role that a second client asks for, observer or controller.
ROLE = "dkdbgRole"
OBSERVE = "look-on"
TAKE_OVER = "take-over"
#: Key in the attach request's `connect`: the project that the client expects at this port.
PROJECT = "project"
#: Property of the attach request. With STOP_PROCESS, disconnecting a child session detaches from its process alone;
#: by default it detaches from all processes.
STOP = "dkdbgStop"
STOP_PROCESS = "process"
#: Property of the attach request. With CONTINUE_ONE, continuing or pausing a rank affects that rank alone; by default
#: it affects all ranks of the job.
CONTINUE = "dkdbgContinue"
#: RANKS: property of the attach request to the root session, the ranks to debug in the syntax of
#: inprocess/ranks.py. CHOOSE: request of that session's client to debug other ranks.
RANKS = "dkdbgRanks"
CHOOSE = "dkdbgChoose"
#: Request of the root session's client to resume a process (`subProcessId`) that waits at its start. The client
#: sends it when it will not open a session for the process.
RELEASE = "dkdbgRelease"
#: LEADS_BARRIER: property of the attach request to the root session; true if the client has root sessions with several
#: agents, and leads one rank barrier for all of them. BARRIER: event and request of that barrier. GROUP: event and
#: request to continue or pause the ranks of other agents too. See rank_barrier.py and group_control.py.
LEADS_BARRIER = "dkdbgGather"
BARRIER = "dkdbgGate"
GROUP = "dkdbgTogether"
#: Property of the attach request to the root session: time limits that the host knows of and the agent cannot see, such
#: as a pod's probe; see state/deadlines.py.
DEADLINES = "dkdbgDeadlines"
#: Requests after which a stopped process runs, or ends.
RESUMING = ("continue", "next", "stepIn", "stepOut", "disconnect", "terminate")
#: Requests that make a stopped process run code of the program.
EVALUATING = ("evaluate", "setExpression", "setVariable", "variables")
#: Request of `dkdbg attach` for the digest of a source file (`path`), and name of the agent's capability to answer it.
SOURCE = "dkdbgSource"
#: Property with the number of the editor that a child session belongs to. The agent adds it to each announced
#: process's configuration.
EDITOR = "dkdbgEditor"
#: Properties of the attach request that child sessions do not inherit, because debugpy does not pass them on or
#: they are dkdbg's own.
NOT_INHERITED = frozenset((
    "processId", "listen", "preLaunchTask", "postDebugTask", "request", "restart", "args", "processName", "pythonArgs",
    "host", "port", ROLE, EDITOR, RANKS, LEADS_BARRIER, DEADLINES,
))  # fmt: skip
#: debugpy 1.8's answer to `initialize`, which the agent sends for a root session without a process.
CAPABILITIES: Message = {
    **dict.fromkeys((
        "supportsCompletionsRequest", "supportsConditionalBreakpoints", "supportsConfigurationDoneRequest",
        "supportsDebuggerProperties", "supportsDelayedStackTraceLoading", "supportsEvaluateForHovers",
        "supportsExceptionInfoRequest", "supportsExceptionOptions", "supportsFunctionBreakpoints",
        "supportsHitConditionalBreakpoints", "supportsLogPoints", "supportsModulesRequest", "supportsSetExpression",
        "supportsSetVariable", "supportsValueFormattingOptions", "supportsTerminateDebuggee",
        "supportsTerminateRequest", "supportsGotoTargetsRequest", "supportsClipboardContext",
        "supportsStepInTargetsRequest",
        "supportsRestartRequest",  # not in debugpy: the agents restart their programs
    ), True),
    "exceptionBreakpointFilters": [
        {"filter": name, "label": label, "default": name == "uncaught", "description": description}
        for name, label, description in (
            ("raised", "Raised Exceptions", "Break whenever any exception is raised."),
            ("uncaught", "Uncaught Exceptions", "Break when the process is exiting due to unhandled exception."),
            ("userUnhandled", "User Uncaught Exceptions", "Break when exception escapes into library code."),
        )
    ],
}  # fmt: skip


def as_dict(value: object) -> Message:
    """Return a JSON object unchanged, an empty one for other types."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> List[Any]:
    """Return a JSON array unchanged, an empty one for other types."""
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    """Return a string unchanged, an empty one for other types."""
    return value if isinstance(value, str) else ""


def body_of(message: Dict[str, Any]) -> bytes:
    """Encode a message as the body of a frame."""
    return json.dumps(message, separators=(",", ":")).encode("utf-8", "surrogatepass")


def request(sequence: int, command: str, arguments: Dict[str, Any]) -> bytes:
    """Encode a request."""
    return body_of({"seq": sequence, "type": "request", "command": command, "arguments": arguments})


def event(name: str, /, **body: object) -> bytes:
    """Encode an event. Clients ignore an event's sequence number; the adapter never uses 0."""
    return body_of({"seq": 0, "type": "event", "event": name, "body": body})


def say(text: str, category: str = "console") -> bytes:
    """Encode a line for the debug console."""
    return event("output", category=category, output="dkdbg: %s\n" % text)


def greeting(version: str, host: str, port: int) -> List[bytes]:
    """Return the greeting of this version of debugpy's adapter for a client that has just connected to this address."""
    telemetry = [
        event("output", category="telemetry", output=name, data={"packageVersion": version})
        for name in ("ptvsd", "debugpy")
    ]
    return [*telemetry, event("debugpySockets", sockets=[{"host": host, "port": port, "internal": False}])]


def answer(request: Dict[str, Any], **body: object) -> bytes:
    """Encode the successful response to a request."""
    return body_of(dict(_response(request), success=True, body=body))


def refuse(request: Dict[str, Any], text: str, *, show: bool = True) -> bytes:
    """Encode an error response; `show` makes the editor show it to the user."""
    error = {"id": 4711, "format": "dkdbg: {reason}", "variables": {"reason": text}, "showUser": show}
    text = "dkdbg: " + text
    return body_of(dict(_response(request), success=False, message=text, body={"error": error}))


def unset(arguments: Dict[str, Any], message: str = "set in each Python process") -> List[Dict[str, Any]]:
    """Return a root session's answer for each breakpoint of a `set...` request: unverified.

    An editor shows a breakpoint as set once any of its sessions has verified it. Until then VS Code shows the message
    from its first session, the root.
    """
    return [{"verified": False, "message": message} for _ in as_list(arguments.get("breakpoints"))]


# -- child sessions -------------------------------------------------------------------------------------------

#: Clients that open a session for each `debugpyAttach` event, even without announcing support of `startDebugging`.
_UNDERSTAND_EVENT = ("vscode", "visualstudio", "dkdbg")


_CONSOLES = ("vscode", "visualstudio")


def starts_sessions(client: Dict[str, Any]) -> bool:
    """Tell whether a client supports `startDebugging`; `client` are the arguments of its `initialize`."""
    return client.get("supportsStartDebuggingRequest") is True


def opens_sessions(client: Dict[str, Any]) -> bool:
    """Tell whether a client opens a session for each announced process."""
    return starts_sessions(client) or client.get("clientID") in _UNDERSTAND_EVENT


def has_consoles(client: Dict[str, Any]) -> bool:
    """Tell whether a client has one console per session and shows only one of them: the root's may be hidden."""
    return client.get("clientID") in _CONSOLES


def announcement(client: Dict[str, Any], number: Callable[[], int], configuration: Dict[str, Any]) -> bytes:
    """Encode the request to open a session for a process.

    Clients without `startDebugging` get debugpy's event `debugpyAttach`, which other clients ignore.

    Args:
        client: the arguments of its `initialize`. number: returns the sequence number of a request.
        configuration: the arguments of the session's `attach`.
    """
    if not starts_sessions(client):
        return event("debugpyAttach", **dict(configuration, request="attach"))
    return request(number(), "startDebugging", {"request": "attach", "configuration": configuration})


def _response(request: Dict[str, Any]) -> Dict[str, Any]:
    sequence = request.get("seq")
    return {
        "seq": 0,
        "type": "response",
        "request_seq": sequence if isinstance(sequence, int) else 0,
        "command": str(request.get("command", "")),
    }
