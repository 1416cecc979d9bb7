"""Filter the messages of a target to an editor: targets are untrusted, and editors act as the user. No I/O.

The Debug Adapter Protocol lets a target act on this machine: `runInTerminal` runs a command. `startDebugging` starts
any configuration (`request: launch`, `python`, `preLaunchTask`), in which VS Code replaces `${command:...}`. A source's
path is opened as a URI. `terminated` with `restart` starts a session again. So messages pass by an allow list and are
rebuilt from parsed fields. A child session is built from the editor's own attach arguments, a PID and a name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dkdbg.agent.dap import frames, messages
from dkdbg.agent.dap.messages import as_dict, as_text
from dkdbg.printable import printable

if TYPE_CHECKING:
    from dkdbg.agent.dap.messages import Message

#: Allowed events of a process. Not `capabilities`, `memory`, `loadedSource`, nor unknown ones.
_EVENTS = frozenset((
    "initialized", "stopped", "continued", "exited", "terminated", "thread", "output", "breakpoint", "module", "process",
    "invalidated",
))  # fmt: skip
_CATEGORIES = frozenset(("console", "important", "stdout", "stderr"))
#: Maximum characters of a process's name, and of a line of text.
_MAX_NAME, _MAX_LINE = 80, 400
#: Fields of a source that an editor needs to show it.
_SOURCE = ("name", "path", "sourceReference", "presentationHint", "origin")
#: Paths outside this machine: URIs (a scheme has two letters or more, a drive only one), and UNC paths of Windows.
_URI_OR_UNC = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|[\\/][\\/]")


def name(value: object) -> str:
    """Return the name of a process, safe for an editor's configuration."""
    return printable(value if isinstance(value, str) else "process").replace("${", "$ {")[:_MAX_NAME]


def line(value: object) -> str:
    """Return a target's text, such as the reason of a refusal, as one short line that is safe to print."""
    text = printable(value) if isinstance(value, str) else ""
    return text if len(text) <= _MAX_LINE else text[:_MAX_LINE] + "..."


def child(arguments: Message, *, called: str, number: int, connect: Message) -> Message:
    """Return the attach configuration of a process's session.

    Args:
        arguments: arguments of the editor's own attach. called: see `name`. number: id of the process for the editor.
        connect: address of the attach proxy.
    """
    own = {key: value for key, value in arguments.items() if key not in messages.NOT_INHERITED}
    return {**own, "name": called, "subProcessId": number, "connect": connect}


def output(event: Message, prefix: str) -> bytes:
    """Return a target's output for the root session, prefixed with the target's name, if any."""
    content = as_dict(event.get("body"))
    category, text = as_text(content.get("category")), as_text(content.get("output"))
    return messages.event(
        "output",
        category=category if category in _CATEGORIES else "console",
        output=f"{prefix}: {text}" if prefix else text,
    )


def of_process(body: bytes) -> tuple[bytes, Message]:
    """Filter a message of a child session.

    Returns:
        The body to pass on, empty for none; and the parsed message, empty if malformed.
    """
    try:
        message = frames.decode(body)
        kind = message.get("type")
        passed = _response(message) if kind == "response" else _event(message) if kind == "event" else None
        if passed is None:
            return b"", message
        is_clean = b"source" in body
        if is_clean:
            _clean_sources(passed)
        shown = messages.body_of(passed)
        if not is_clean and b'"source' in shown:  # the key was escaped in `body`
            _clean_sources(passed)
            shown = messages.body_of(passed)
        return shown, passed
    except (frames.FrameError, RecursionError, ValueError):
        return b"", {}


def _response(message: Message) -> Message | None:
    number, command = message.get("request_seq"), message.get("command")
    if not _is_number(number) or not isinstance(command, str):
        return None
    head = {"seq": _number(message), "type": "response", "request_seq": number, "command": command}
    if message.get("success") is True:
        return {**head, "success": True, "body": message.get("body")}
    text = message.get("message")
    passed: Message = {**head, "success": False, "message": text if isinstance(text, str) else ""}
    error = as_dict(as_dict(message.get("body")).get("error"))
    if error:  # drops `url`, which an editor may open
        variables = as_dict(error.get("variables"))
        passed["body"] = {
            "error": {
                "id": error["id"] if _is_number(error.get("id")) else 0,
                "format": str(error.get("format", "")),
                "variables": {key: value for key, value in variables.items() if isinstance(value, str)},
                "showUser": error.get("showUser") is True,
            }
        }
    return passed


def _event(message: Message) -> Message | None:
    called, content = message.get("event"), as_dict(message.get("body"))
    if not isinstance(called, str) or called not in _EVENTS:
        return None
    if called == "terminated":  # drops `restart`, which would start the session again
        content = {}
    if called == "process":
        content = {**content, "isLocalProcess": False}
    if called == "output":
        if content.get("category") == "telemetry":
            return None
        content = {key: value for key, value in content.items() if key != "data"}
    return {"seq": _number(message), "type": "event", "event": called, "body": content}


def _clean_sources(message: Message) -> None:
    """Reduce each source in a message to the fields that an editor needs, in place."""
    todo: list[Any] = [message]
    while todo:
        found = todo.pop()
        if isinstance(found, list):
            todo += found
            continue
        if not isinstance(found, dict):
            continue
        for key, value in found.items():
            if key == "source":
                found[key] = _source(value)
            elif key == "sources" and isinstance(value, list):
                found[key] = [_source(each) for each in value]
            elif isinstance(value, dict | list):
                todo.append(value)


def _source(value: object) -> Message | str:
    if isinstance(value, str):  # in an exception's details `source` is a string
        return "" if _URI_OR_UNC.match(value) else value
    content = as_dict(value)
    kept: Message = {key: content[key] for key in _SOURCE if isinstance(content.get(key), str | int)}
    if isinstance(kept.get("path"), str) and _URI_OR_UNC.match(kept["path"]):
        del kept["path"]
    return kept


def _number(message: Message) -> int:
    number = message.get("seq")
    return number if isinstance(number, int) and _is_number(number) else 0


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
