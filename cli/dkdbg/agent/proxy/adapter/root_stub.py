"""Root session stub: a debuggee without a debugger, so that an editor can attach at any time.

It answers the dozen messages that debugpy's adapter sends to pydevd. Real Python processes join as its children, so the
editor's session outlives each of them. The agent itself is not traced.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading

from dkdbg.agent import sockets
from dkdbg.agent.dap import frames, messages, paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any, Callable, Dict, List, Optional, Tuple

_NAME = "dkdbg agent"
#: Hover text of a breakpoint in a file that the program does not have.
MISSING = "%s does not exist where the program runs: no mount or path mapping leads there"


class RootStub:
    """Connection to the adapter as one of its debuggees.

    Args:
        sock: the connection.
        is_new: called before configurationDone is answered; tells whether the editor is new, as opposed to the
            previous one at a new adapter.
        on_attach: called with the result of `is_new`, after the answer.
        on_breakpoints: called with a source path on this machine and the lines of its unconditional breakpoints.
        on_detach: called with True if the editor asks to end the program, with False if it only leaves.
        on_lost: called when the adapter closes the connection unexpectedly.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        is_new: Callable[[], bool],
        on_attach: Callable[[bool], None],
        on_breakpoints: Callable[[str, List[int]], None],
        on_detach: Callable[[bool], None],
        on_lost: Callable[[], None],
    ) -> None:
        self.attached = threading.Event()
        self._is_new = is_new
        self._on_attach = on_attach
        self._on_breakpoints = on_breakpoints
        self._on_detach = on_detach
        self._on_lost = on_lost
        self._closing = False
        self._mappings: List[Tuple[str, str]] = []
        self._sequence = itertools.count(1)
        self._lock = threading.Lock()
        self._sock = sock
        threading.Thread(target=self._serve, name="dkdbg root stub", daemon=True).start()

    def say(self, text: str, category: str = "console") -> None:
        """Print a line in the editor's debug console; without an editor, do nothing.

        Args:
            category: `important` makes an editor show the line outside the console too: the visible console may be
                another session's.
        """
        if self.attached.is_set():
            self._event("output", category=category, output=text + "\n")

    def end(self, exit_code: Optional[int]) -> None:
        """End the editor's session; report the program's exit code, None if the program is still running."""
        self._closing = True
        if exit_code is not None and self.attached.is_set():
            self._event("exited", exitCode=exit_code)
        self._event("terminated")

    def close(self) -> None:
        """Close the connection to the adapter."""
        self._closing = True
        sockets.shut(self._sock)
        self._sock.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError, frames.FrameError):
            for body in frames.received(self._sock.recv, frames.FrameParser()):
                self._handle(frames.decode(body))
        was_attached = self.attached.is_set()
        self.attached.clear()
        if not self._closing:
            if was_attached:
                self._on_detach(False)
            self._on_lost()

    def _handle(self, message: Dict[str, Any]) -> None:
        if message.get("type") != "request":
            return
        command = str(message.get("command"))
        arguments = message.get("arguments") or {}
        answer = {
            "type": "response",
            "request_seq": message.get("seq", 0),
            "command": command,
            "success": True,
            "body": _answer(command, arguments),
        }
        if command == "attach":
            self._mappings = paths.pairs(arguments.get("pathMappings"))
        elif command == "setBreakpoints":
            answer["body"] = {"breakpoints": self._unset(arguments)}
        # The broker counts the editor as attached after this answer, so call `is_new` first.
        is_new = command == "configurationDone" and self._is_new()
        was_attached = self.attached.is_set()
        if command == "disconnect":  # the broker gives control to the next editor after this answer
            self.attached.clear()
        self._send(answer)
        if command == "configurationDone":
            self._event(
                "process", name=_NAME, systemProcessId=os.getpid(), isLocalProcess=True, startMethod="attach"
            )
            self._event("thread", reason="started", threadId=1)
            self.attached.set()
            self._on_attach(is_new)
        elif command == "disconnect" and was_attached and not self._closing:
            self._on_detach(bool(arguments.get("terminateDebuggee")))

    def _unset(self, arguments: Dict[str, Any]) -> List[Dict[str, Any]]:
        """Return the answer to `setBreakpoints`, with a message if the file does not exist here."""
        path = messages.as_dict(arguments.get("source")).get("path")
        if isinstance(path, str) and path:
            found = paths.mapped(path, self._mappings)
            remote = path if found is None else found[1]
            if (remote.startswith("/") or remote == path) and not os.path.exists(remote):
                return messages.unset(arguments, MISSING % remote)
            self._on_breakpoints(remote, _unconditional(arguments))
        return messages.unset(arguments)

    def _event(self, event: str, **body: object) -> None:
        self._send({"type": "event", "event": event, "body": body})

    def _send(self, message: Dict[str, Any]) -> None:
        with self._lock:
            message["seq"] = next(self._sequence)
            with contextlib.suppress(OSError):
                self._sock.sendall(frames.encode(message))


def _unconditional(arguments: Dict[str, Any]) -> List[int]:
    points = [messages.as_dict(each) for each in messages.as_list(arguments.get("breakpoints"))]
    kinds = ("condition", "hitCondition", "logMessage")
    lines = [each.get("line") for each in points if not any(each.get(kind) for kind in kinds)]
    return [line for line in lines if isinstance(line, int)]


def _answer(command: str, arguments: Dict[str, Any]) -> Dict[str, Any]:
    """Return the body with which pydevd would answer this command; empty by default."""
    if command == "pydevdAuthorize":
        return {"clientAccessToken": None}
    if command == "pydevdSystemInfo":
        return _system_info()
    if command == "initialize":
        return {"supportsConfigurationDoneRequest": True}
    if command == "threads":
        return {"threads": [{"id": 1, "name": _NAME}]}
    if command in ("setFunctionBreakpoints", "setExceptionBreakpoints"):
        return {"breakpoints": messages.unset(arguments)}
    if command == "stackTrace":
        return {"stackFrames": [], "totalFrames": 0}
    if command == "modules":
        return {"modules": [], "totalModules": 0}
    if command == "evaluate":
        return {
            "result": "this is the dkdbg agent; choose the session of a Python process",
            "variablesReference": 0,
        }
    return {}


def _system_info() -> Dict[str, Any]:
    version: Optional[str] = sys.version
    return {
        "python": {
            "version": version,
            "implementation": {"name": sys.implementation.name, "version": version, "description": ""},
        },
        "platform": {"name": sys.platform},
        "process": {
            "pid": os.getpid(),
            "ppid": os.getppid(),
            "executable": sys.executable,
            "bitness": 64 if sys.maxsize > 2**32 else 32,
        },
        "pydevd": {"usingCython": False, "usingFrameEval": False},
    }
