"""Requests, events and answers of the Debug Adapter Protocol: both doors build them here. No I/O."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List

    #: A message or a part of one, as JSON has it: the protocol is open, so what is inside is looked at late.
    Message = Dict[str, Any]

#: Requests of our own to the adapter are numbered from here on; an editor counts from 1.
OWN_SEQUENCE = 1 << 30

#: The property of the attach request with which a second client says what it wants.
ROLE = "dkdbgRole"
OBSERVE = "look-on"
TAKE_OVER = "take-over"
#: Of the attach request, within `connect`: which project is meant.
PROJECT = "project"
#: The property of the attach request that says what leaving one process's session leaves: all of them, if not this.
STOP = "dkdbgStop"
STOP_PROCESS = "process"
#: What continuing or pausing one rank does to the others of its job, one of contract.CONTINUES.
CONTINUE = "dkdbgContinue"
#: Of the attach request to the root session: which ranks are debugged, as inprocess/ranks.py reads it; and the request by
#: which the client of that session asks for others.
RANKS = "dkdbgRanks"
CHOOSE = "dkdbgChoose"
#: The request of the root session's client to let a process (`subProcessId`) go on, which waits at its start: it will open
#: no session for it now.
RELEASE = "dkdbgRelease"
#: Of the attach request to the root session, by a client that holds root sessions with several agents: whether the ranks
#: of all of them are gathered by that client, true or not. The event and the request with which they speak of it, and
#: those of a continue and a pause that are for the ranks of other agents too; see gate.py and together.py.
LEADS_BARRIER = "dkdbgGather"
BARRIER = "dkdbgGate"
GROUP = "dkdbgTogether"
#: The request by which `dkdbg attach` asks for the digest of a source file (`path`), and the agent's word that it answers.
SOURCE = "dkdbgSource"
#: The property by which a child session shows whose it is. We add it to each announcement.
EDITOR = "dkdbgEditor"
#: Of the attach request, what the session of a process does not get: debugpy does not hand these on either, or they are ours.
NOT_INHERITED = frozenset((
    "processId", "listen", "preLaunchTask", "postDebugTask", "request", "restart", "args", "processName", "pythonArgs",
    "host", "port", ROLE, EDITOR, RANKS, LEADS_BARRIER,
))  # fmt: skip


def as_dict(value: object) -> Message:
    """Return a JSON object as it is, anything else as an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> List[Any]:
    """Return a JSON array as it is, anything else as an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    """Return a text as it is, anything else as an empty one."""
    return value if isinstance(value, str) else ""


def body_of(message: Dict[str, Any]) -> bytes:
    """Return the body of a frame for a message."""
    return json.dumps(message, separators=(",", ":")).encode("utf-8", "surrogatepass")


def request(sequence: int, command: str, arguments: Dict[str, Any]) -> bytes:
    """Return a request of ours."""
    return body_of({"seq": sequence, "type": "request", "command": command, "arguments": arguments})


def event(name: str, /, **body: object) -> bytes:
    """Return an event of ours. Clients use no sequence number of an event; 0 is none of the adapter's."""
    return body_of({"seq": 0, "type": "event", "event": name, "body": body})


def say(text: str, category: str = "console") -> bytes:
    """Return a line for the debug console."""
    return event("output", category=category, output="dkdbg: %s\n" % text)


def greeting(version: str, host: str, port: int) -> List[bytes]:
    """Return what debugpy's adapter says to a client that has connected and said nothing yet.

    Args:
        version: debugpy's. host, port: where the client has connected to.
    """
    telemetry = [
        event("output", category="telemetry", output=name, data={"packageVersion": version})
        for name in ("ptvsd", "debugpy")
    ]
    return [*telemetry, event("debugpySockets", sockets=[{"host": host, "port": port, "internal": False}])]


def answer(request: Dict[str, Any], **body: object) -> bytes:
    """Return the successful response to a request."""
    return body_of(dict(_response(request), success=True, body=body))


def refuse(request: Dict[str, Any], text: str, *, show: bool = True) -> bytes:
    """Return a response with an error; `show`: an editor shows it to the user."""
    error = {"id": 4711, "format": "dkdbg: {reason}", "variables": {"reason": text}, "showUser": show}
    text = "dkdbg: " + text
    return body_of(dict(_response(request), success=False, message=text, body={"error": error}))


def unset(arguments: Dict[str, Any], message: str = "set in each Python process") -> List[Dict[str, Any]]:
    """Return what a root session says of the breakpoints of a `set...` request, one for each.

    Unverified on purpose: an editor shows a breakpoint as set when one of its sessions has verified it. Where none has,
    VS Code shows the message of its first session, the root.
    """
    return [{"verified": False, "message": message} for _ in as_list(arguments.get("breakpoints"))]


# -- child sessions -------------------------------------------------------------------------------------------

#: Clients that open a session for each `debugpyAttach`, though they do not say that they know `startDebugging`.
_UNDERSTAND_EVENT = ("vscode", "visualstudio", "dkdbg")


_CONSOLES = ("vscode", "visualstudio")


def starts_sessions(client: Dict[str, Any]) -> bool:
    """Tell whether a client knows `startDebugging`; `client` are the arguments of its `initialize`."""
    return client.get("supportsStartDebuggingRequest") is True


def opens_sessions(client: Dict[str, Any]) -> bool:
    """Tell whether a client opens a session for each process that is announced."""
    return starts_sessions(client) or client.get("clientID") in _UNDERSTAND_EVENT


def has_consoles(client: Dict[str, Any]) -> bool:
    """Tell whether a client has a console for each session and shows one of them: what the root's says is not seen."""
    return client.get("clientID") in _CONSOLES


def announcement(client: Dict[str, Any], number: Callable[[], int], configuration: Dict[str, Any]) -> bytes:
    """Return what asks a client to open a session for a process.

    debugpy's own event, for those that do not know the request, does no harm to those that do not know it either.

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
