"""Proxy of a child session: filters the target's messages, and reports its end even if the container is killed."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from typing import TYPE_CHECKING

from dkdbg.agent import sockets
from dkdbg.agent.dap import frames, messages
from dkdbg.agent.dap.messages import as_dict
from dkdbg.attach import from_targets
from dkdbg.attach.handshake import Handshake
from dkdbg.attach.sources import SYNC_TIMEOUT_S, Sources

if TYPE_CHECKING:
    from dkdbg.agent.dap.messages import Message
    from dkdbg.attach.actions import Branch
    from dkdbg.attach.sources import Asked
    from dkdbg.core.target import Target

#: Seconds that an editor has to close its connection after its process has ended.
CLOSE_TIMEOUT_S = 2.0
#: Seconds until an agent must answer `initialize`: it waits for its adapter for 30.
HANDSHAKE_TIMEOUT_S = 40.0

_LOST = "connection to the process lost: its container or machine may have stopped or restarted, or its debugger was killed"


class ChildProxy:
    """Passes messages between the editor and an agent.

    Args:
        client, parser: the editor's socket, and the parser with the data after its attach.
        upstream: a connection to the agent. must_prove: see Handshake.
        target: where the process runs.

    Attributes:
        begun: the process existed, and the editor was asked for its breakpoints.
    """

    def __init__(
        self,
        client: socket.socket,
        parser: frames.FrameParser,
        upstream: socket.socket,
        branch: Branch,
        target: Target,
        *,
        must_prove: bool = False,
    ) -> None:
        self._client = client
        self._parser = parser
        self._upstream = upstream
        self._hidden: int | None = branch.initialize["seq"]
        self._attach = branch.attach
        numbers = itertools.count(messages.OWN_SEQUENCE - 1, -1)  # an agent rejects higher numbers
        self._handshake = Handshake(
            branch.initialize, branch.attach, lambda: next(numbers), must_prove=must_prove
        )
        self._sources = Sources(
            as_dict(branch.attach.get("arguments")).get("pathMappings"), target, branch.process.upstream,
            branch.process.told, lambda: next(numbers),
        )  # fmt: skip
        self._handshake_over = threading.Event()
        self.begun = False
        self._leaves = False
        self._lock = threading.Lock()
        self._upstream_lock = threading.Lock()
        self._ended = False

    def serve(self) -> None:
        """Pass everything on until both sides have ended; the caller closes the editor's socket."""
        back = threading.Thread(target=self._pass_back, name="dkdbg child proxy", daemon=True)
        with contextlib.suppress(OSError, frames.FrameError):
            self._send(self._handshake.begin())
            back.start()
            if self._handshake.is_over:
                self._handshake_over.set()
            if self._handshake_over.wait(HANDSHAKE_TIMEOUT_S) and not self._handshake.refusal:
                self._parser.allow(frames.MAX_BODY)
                for body in frames.received(self._client.recv, self._parser):
                    self._to_upstream(body)
            else:
                self._refuse(self._handshake.refusal or "its agent did not answer")
        sockets.shut(self._upstream, socket.SHUT_WR)
        if back.ident is not None:
            back.join()
        self._upstream.close()

    def end(self) -> None:
        """End the session from the proxy's side."""
        self._say_ended()
        sockets.shut(self._upstream)

    def _to_upstream(self, body: bytes) -> None:
        self._leaves = self._leaves or b'"disconnect"' in body or b'"terminate"' in body
        self._send([*self._sources.question(body), body])

    def _send(self, bodies: list[bytes]) -> None:
        with self._upstream_lock:
            for body in bodies:
                self._upstream.sendall(frames.wrap(body))

    def _pass_back(self) -> None:
        try:
            with contextlib.suppress(OSError):  # the agent was killed
                for body in frames.received(self._upstream.recv, frames.FrameParser()):
                    self._from_upstream(body)
            self._say_lost()
        except frames.FrameError as error:
            self._to_client(messages.say(f"the process's session was ended: {error}", "important"))
        self._handshake_over.set()
        self._say_ended()
        sockets.shut(self._client, socket.SHUT_WR)

    def _from_upstream(self, body: bytes) -> None:
        shown, message = from_targets.of_process(body)
        if (
            message.get("command") == "initialize"
            and as_dict(message.get("body")).get(messages.SOURCE) is True
        ):
            self._sources.is_answered = True
        if not self._handshake.is_over:  # nothing passes before the handshake is over
            self._send(self._handshake.take(message) or [])
            if self._handshake.is_over:
                self._handshake_over.set()
        elif message.get("type") == "request":
            self._send([messages.refuse(message, "a target may not send this request")])
        elif message.get("request_seq") == self._hidden and message.get("command") == "initialize":
            self._hidden = None
        elif (answer := self._sources.answered(message)) is not None:
            self._tell(*answer)
        elif shown and (noted := self._sources.noted(message)) is not None:
            self._to_client(messages.body_of(noted), noted)
        elif shown:
            self._to_client(shown, message)

    def _tell(self, text: str, again: Asked | None) -> None:
        """Report that a file differs; query a just saved one again later."""
        if text:
            body = messages.say(text, "important")
            self._to_client(body, frames.decode(body))
        if again is not None:
            later = threading.Timer(SYNC_TIMEOUT_S, self._ask, (again,))
            later.daemon = True
            later.start()

    def _ask(self, asked: Asked) -> None:
        with contextlib.suppress(OSError):
            self._send([self._sources.ask(asked)])

    def _to_client(self, body: bytes, message: Message | None = None) -> None:
        text = message.get("event") if message is not None else None
        with self._lock:
            if self._ended and text:
                return
            self._client.sendall(frames.wrap(body))
            self.begun = self.begun or text == "initialized"
            if not self._ended and text == "terminated":
                self._note_ended()

    def _say_lost(self) -> None:
        """Report a lost connection to the editor, unless it is disconnecting."""
        if self.begun and not self._leaves:
            body = messages.say(_LOST, "important")
            with contextlib.suppress(OSError):
                self._to_client(body, frames.decode(body))

    def _refuse(self, reason: str) -> None:
        """Answer the attach with an error, as the last message."""
        with self._lock:
            if not self._ended:
                self._client.sendall(frames.wrap(messages.refuse(self._attach, reason)))
                self._note_ended()
        sockets.shut(self._upstream)

    def _say_ended(self) -> None:
        if not self._lock.acquire(timeout=CLOSE_TIMEOUT_S):  # disconnect an editor that does not read
            sockets.shut(self._client)
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
        limit = threading.Timer(CLOSE_TIMEOUT_S, sockets.shut, (self._client,))
        limit.daemon = True
        limit.start()
