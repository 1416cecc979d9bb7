"""DAP client with which the agent itself queries the processes while no editor is attached; it stops them briefly.

It connects to the broker as an editor would, over socket pairs inside this process. When it disconnects, the processes
continue.
"""

from __future__ import annotations

import contextlib
import socket
import threading

from dkdbg.agent import sockets
from dkdbg.agent.dap import frames, messages
from dkdbg.agent.dap.messages import as_dict
from dkdbg.agent.proxy.broker.connection import ROOT
from dkdbg.agent.proxy.listener import tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Set

    from dkdbg.agent.dap.messages import Message

    Serve = Callable[[socket.socket, bytes, frames.FrameParser], None]

#: Seconds for the answer to a disconnect.
LEAVE_TIMEOUT_S = 5.0
_CLIENT_INFO = {
    "clientID": "dkdbg",
    "clientName": "dkdbg ranks",
    "adapterID": "debugpy",
    "pathFormat": "path",
}


class OwnClient:
    """A client that attaches to every announced process, sets no breakpoints, and continues the processes on leaving.

    Args:
        serve: the broker's function that serves a client on a socket. token: the token for the attach.
        ranks: the ranks to attach to, in the syntax of inprocess/ranks.py.
    """

    def __init__(self, serve: Serve, token: str, ranks: str) -> None:
        self._ranks = ranks
        self._serve = serve
        self._token = token
        self._changed = threading.Condition()
        self._lines: Dict[int, _Connection] = {}
        self._leaving = False

    def __enter__(self) -> OwnClient:  # noqa: PYI034 - typing has no Self in 3.8
        self._open(
            ROOT, {"justMyCode": True, "redirectOutput": False, "connect": {}, messages.RANKS: self._ranks}
        )
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._leaving = True
            keys = sorted(self._lines, reverse=True)  # the root session last: its end would end the others
        for key in keys:
            self._lines[key].leave()

    def wait(self, wanted: Set[int], limit: float) -> None:
        """Wait until these processes are attached, or cannot be, for at most this many seconds."""

        def settled() -> bool:
            known = {pid for pid, line in self._lines.items() if line.is_attached or line.is_over}
            return self._lines[ROOT].is_over or wanted <= known

        with self._changed:
            self._changed.wait_for(settled, limit)

    def _open(self, key: int, arguments: Message) -> None:
        if self._token:
            arguments = dict(arguments, **{tokens.PROPERTY: self._token})
        with self._changed:
            if self._leaving or key in self._lines:
                return
            self._lines[key] = line = _Connection(self._serve, arguments, self._happened)
        line.start()

    def _happened(self, name: str, body: Message) -> None:
        if name == "debugpyAttach" and isinstance(body.get("subProcessId"), int):
            arguments = {k: v for k, v in body.items() if k != "request"}
            threading.Thread(target=self._open, args=(body["subProcessId"], arguments), daemon=True).start()
        with self._changed:
            self._changed.notify_all()


class _Connection:
    """One DAP connection of the client, for the root session or one process.

    Attributes:
        is_attached: whether the adapter has accepted the attach. is_over: whether it has refused the attach, or the
            session has ended.
    """

    def __init__(self, serve: Serve, arguments: Message, happened: Callable[[str, Message], None]) -> None:
        self._serve = serve
        self._arguments = arguments
        self._happened = happened
        self._own_end, self._peer_end = socket.socketpair()
        self._sending = threading.Lock()
        self._number = 0
        self._left = threading.Event()
        self.is_attached = self.is_over = False

    def start(self) -> None:
        """Start the threads that initialize and attach."""
        first = self._numbered("initialize", _CLIENT_INFO)
        threading.Thread(target=self._run, args=(first,), name="dkdbg own", daemon=True).start()
        threading.Thread(target=self._read, name="dkdbg own answers", daemon=True).start()

    def leave(self) -> None:
        """End the session; stopped processes continue."""
        self._send("disconnect", {"terminateDebuggee": False})
        self._left.wait(LEAVE_TIMEOUT_S)
        sockets.shut(self._own_end)

    def _run(self, first: bytes) -> None:
        with contextlib.suppress(OSError):
            self._serve(self._peer_end, first, frames.FrameParser())
        self._peer_end.close()

    def _read(self) -> None:
        parser = frames.FrameParser(max_body=1 << 30)
        with contextlib.suppress(OSError, frames.FrameError), self._own_end:
            for body in frames.received(self._own_end.recv, parser):
                self._take(frames.decode(body))
        self._left.set()
        self.is_over = True
        self._happened("", {})

    def _take(self, message: Dict[str, Any]) -> None:
        command, event = message.get("command"), message.get("event")
        if message.get("type") == "response":
            if command == "initialize":
                self._send("attach", self._arguments)
            elif command == "attach":
                self.is_attached = message.get("success") is True
                self.is_over = not self.is_attached
            elif command == "disconnect":
                self._left.set()
            self._happened("", {})
        elif event == "initialized":
            self._send("configurationDone", {})
        elif isinstance(event, str):
            if event == "terminated":
                self.is_over = True
            self._happened(event, as_dict(message.get("body")))

    def _send(self, command: str, arguments: Message) -> None:
        with contextlib.suppress(OSError), self._sending:
            self._own_end.sendall(frames.wrap(self._numbered(command, arguments)))

    def _numbered(self, command: str, arguments: Message) -> bytes:
        self._number += 1
        return messages.request(self._number, command, arguments)
