"""The connection of one process's session: frames pass unread; its end is told properly even when a container is killed."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

from dkdbg.agent.dap import frames, messages
from dkdbg.door import wires

if TYPE_CHECKING:
    from dkdbg.door.actions import Branch

#: Seconds that an editor has to close its connection after its process is gone.
GOODBYE = 2.0
#: A variable's value may be long.
MAX_BODY = 1 << 30
_CHUNK = 1 << 16


class Passage:
    """Between the editor and a container's door.

    Args:
        client, parser: the editor's socket, and what came after its attach.
        upstream: a connection to the door.

    Attributes:
        begun: the process was there: the editor was asked for its breakpoints.
    """

    def __init__(
        self, client: socket.socket, parser: frames.FrameParser, upstream: socket.socket, branch: Branch
    ) -> None:
        self._client = client
        self._parser = parser
        self._upstream = upstream
        self._hidden: int | None = branch.hidden
        self._opening = branch.opening
        self.begun = False
        self._lock = threading.Lock()
        self._ended = False

    def serve(self) -> None:
        """Pass everything on until both sides have ended; the editor's socket is left to the caller."""
        back = threading.Thread(target=self._pass_back, name="dkdbg passage", daemon=True)
        back.start()
        with contextlib.suppress(OSError):
            for body in self._opening:
                self._upstream.sendall(frames.wrap(body))
            data = self._parser.rest()
            while True:
                self._upstream.sendall(data)
                data = self._client.recv(_CHUNK)
                if not data:
                    break
        with contextlib.suppress(OSError):
            self._upstream.shutdown(socket.SHUT_WR)
        back.join()
        self._upstream.close()

    def end(self) -> None:
        """End the session from our side."""
        self._say_ended()
        wires.cut(self._upstream)

    def _pass_back(self) -> None:
        parser = frames.FrameParser(max_body=MAX_BODY)
        with contextlib.suppress(OSError, frames.FrameError):
            wires.read_frames(self._upstream, parser, self._to_client)
        self._say_ended()
        with contextlib.suppress(OSError):
            self._client.shutdown(socket.SHUT_WR)

    def _to_client(self, body: bytes) -> bool:
        if self._hidden is not None and _is_answer(body, self._hidden):
            self._hidden = None
            return True
        with self._lock:
            if self._ended and b'"event"' in body[:60]:
                return True
            self._client.sendall(frames.wrap(body))
            self.begun = self.begun or _is_event(body, "initialized")
            if not self._ended and _is_event(body, "terminated"):
                self._note_ended()
        return True

    def _say_ended(self) -> None:
        if not self._lock.acquire(timeout=GOODBYE):  # the editor does not read
            wires.cut(self._client)
            return
        try:
            if not self._ended:
                self._note_ended()
                with contextlib.suppress(OSError):
                    self._client.sendall(frames.wrap(messages.event("terminated")))
        finally:
            self._lock.release()

    def _note_ended(self) -> None:
        self._ended = True
        limit = threading.Timer(GOODBYE, wires.cut, (self._client,))
        limit.daemon = True
        limit.start()


def _is_event(body: bytes, name: str) -> bool:
    if len(body) > 1000 or name.encode() not in body:
        return False
    message = _decode(body)
    return message.get("type") == "event" and message.get("event") == name


def _is_answer(body: bytes, number: int) -> bool:
    if len(body) > frames.MAX_BODY or b"initialize" not in body:
        return False
    message = _decode(body)
    return message.get("type") == "response" and message.get("request_seq") == number


def _decode(body: bytes) -> dict[str, object]:
    try:
        return frames.decode(body)
    except frames.FrameError:
        return {}
