"""Proxy for a plain debugpy without an agent: connects editors to debugpy, and keeps its port alive when they leave.

debugpy (#974, #1308) stops accepting connections for ever in two cases. A connection closes before debugpy has greeted
it. Or the oldest connection closes while a new one is greeted: debugpy then sends its list of sockets to the oldest. So
the proxy keeps one unused connection open, the anchor, and closes no connection before its greeting. With debugpy
1.8.22 and no anchor, the port died after 4 to 12 editors that attached and left at once; with an anchor it survived
600.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dkdbg.agent import sockets
from dkdbg.agent.dap import frames, messages
from dkdbg.attach import wires

if TYPE_CHECKING:
    from collections.abc import Callable

#: Timeout in seconds for the first byte of debugpy's greeting. An agent does not greet: it waits for the client.
GREETING_TIMEOUT_S = 1.0
#: Timeout in seconds for debugpy's whole greeting, and for its last messages.
SETTLE_TIMEOUT_S = 20.0
CLOSE_TIMEOUT_S = 5.0
_GREETINGS = 2
_BEGINNING = b"Content-Length:"
#: Marks a greeting by an agent instead of debugpy (`agent/dap/messages.py`).
_AGENT_MARKER = b'"seq":0,'
_CHUNK = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Greeted:
    """A connection that debugpy has greeted.

    Attributes:
        received: the data received so far.
    """

    sock: socket.socket
    received: bytes


def greeted(endpoint: tuple[str, int], *, limit: float = GREETING_TIMEOUT_S) -> Greeted | None:
    """Connect once, and return the connection if a plain debugpy has greeted it; None otherwise.

    Raises:
        OSError: nothing listens there.
    """
    sock = socket.create_connection(endpoint, timeout=wires.CONNECT_TIMEOUT_S)
    received = b""
    end = time.monotonic() + limit
    while not is_greeting(received) and len(received) < _CHUNK and (left := end - time.monotonic()) > 0:
        sock.settimeout(left)
        try:
            data = sock.recv(_CHUNK)
        except OSError:
            break
        if not received and data:
            end = time.monotonic() + SETTLE_TIMEOUT_S
        received += data
        if not data or not _BEGINNING.startswith(received[: len(_BEGINNING)]) or _AGENT_MARKER in received:
            break
    if not is_greeting(received):
        sock.close()
        return None
    sock.settimeout(None)
    sockets.tune(sock)
    return Greeted(sock=sock, received=received)


def is_greeting(data: bytes) -> bool:
    """Return whether a plain debugpy's greeting is complete: closing a connection earlier kills its port."""
    return data.count(b'"telemetry"') >= _GREETINGS and _AGENT_MARKER not in data


def leave(greeted: Greeted) -> None:
    """Disconnect like an editor: read all pending data, so that the connection is not reset."""
    _ask_to_leave(greeted.sock)
    with contextlib.suppress(OSError):
        end = time.monotonic() + CLOSE_TIMEOUT_S
        while (left := end - time.monotonic()) > 0:
            greeted.sock.settimeout(left)
            if not greeted.sock.recv(_CHUNK):
                break
    greeted.sock.close()


class PlainPort:
    """Connects editors to one plain debugpy, and keeps its port alive.

    Args:
        endpoint: debugpy's address.
        anchor: the unused connection (see the module's docstring).
        report: prints a line for the user; thread-safe.
    """

    def __init__(self, endpoint: tuple[str, int], anchor: Greeted, report: Callable[[str], None]) -> None:
        self._endpoint = endpoint
        self._anchor: Greeted | None = anchor
        self._report = report
        self._connecting = threading.Lock()
        #: Guards the attributes; never held while waiting for debugpy.
        self._lock = threading.Lock()
        self._served = 0

    def status(self) -> dict[str, Any]:
        """Return the answer to GET /status."""
        with self._lock:
            served, is_anchored = self._served, self._anchor is not None
        target = {
            "target": _text(self._endpoint),
            "name": "debugpy",
            "endpoint": _text(self._endpoint),
            "attached": served > 0,
        }
        return {
            "state": "attached" if served else "waiting", "client": served > 0, "editors": served,
            "targets": [{**target, "detail": "" if is_anchored else "the program has ended"}],
        }  # fmt: skip

    def serve(self, client: socket.socket, first: bytes, parser: frames.FrameParser) -> None:
        """Serve an editor, which has sent `first`, until it or debugpy leaves; the caller closes its socket."""
        try:
            upstream = self._connected()
        except OSError as error:
            self._report(f"{_text(self._endpoint)} does not answer: {error.strerror or error}")
            with contextlib.suppress(OSError, ValueError, RecursionError):
                client.sendall(
                    frames.wrap(
                        messages.refuse(json.loads(first), "the program has ended, or does not answer")
                    )
                )
            return
        try:
            is_gone = _pass(client, first, parser, upstream)
        finally:
            upstream.sock.close()
            with self._lock:
                self._served -= 1
        if is_gone and not self._served:
            self.close()

    def _connected(self) -> Greeted:
        with self._connecting:
            if self._anchor is None:  # another program may listen there now: check its greeting
                self._anchor = greeted(self._endpoint, limit=SETTLE_TIMEOUT_S)
            found = greeted(self._endpoint, limit=SETTLE_TIMEOUT_S) if self._anchor is not None else None
            if found is None:
                raise ConnectionRefusedError(0, "another program listens there now")
        with self._lock:
            self._served += 1
        return found

    def close(self) -> None:
        """Close the anchor, because the program has ended or no editor will attach any more."""
        with self._lock:
            anchor, self._anchor = self._anchor, None
        if anchor is not None:
            leave(anchor)


def _pass(client: socket.socket, first: bytes, parser: frames.FrameParser, upstream: Greeted) -> bool:
    """Forward messages both ways; return whether debugpy, not the editor, has ended the session."""
    client.settimeout(None)
    client.sendall(upstream.received)
    back = threading.Thread(target=_pump, args=(upstream.sock, client), name="dkdbg plain", daemon=True)
    back.start()
    left = False

    with contextlib.suppress(OSError, frames.FrameError):
        upstream.sock.sendall(frames.wrap(first))
        parser.allow(frames.MAX_BODY)
        for body in frames.received(client.recv, parser):
            left = left or _is_leave(body)
            upstream.sock.sendall(frames.wrap(body))
    target_ended = not back.is_alive()
    if not left:  # the connection broke without a disconnect request
        _ask_to_leave(upstream.sock)
    back.join(CLOSE_TIMEOUT_S)
    sockets.shut(upstream.sock)
    return target_ended and not left


def _pump(upstream: socket.socket, client: socket.socket) -> None:
    """Pass debugpy's data to the editor; after the editor has left, keep reading the last answers."""
    gone = False
    with contextlib.suppress(OSError):
        while data := upstream.recv(_CHUNK):
            if not gone:
                try:
                    client.sendall(data)
                except OSError:
                    gone = True
    sockets.shut(client)


def _is_leave(body: bytes) -> bool:
    with contextlib.suppress(ValueError, RecursionError):
        message = json.loads(body)
        return isinstance(message, dict) and message.get("command") == "disconnect"
    return False


def _ask_to_leave(sock: socket.socket) -> None:
    request = messages.request(messages.OWN_SEQUENCE, "disconnect", {"terminateDebuggee": False})
    with contextlib.suppress(OSError):
        sock.sendall(frames.wrap(request))


def _text(endpoint: tuple[str, int]) -> str:
    return f"{endpoint[0]}:{endpoint[1]}"
