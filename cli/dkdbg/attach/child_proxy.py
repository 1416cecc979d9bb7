"""Proxy of a child session: filters the target's messages, and ends the session even if the container is killed.

When the editor sets breakpoints in a file, the proxy asks the agent for the digest of the target's file, and reports a
difference.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import socket
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg.agent import sockets
from dkdbg.agent.dap import frames, messages, paths, sources
from dkdbg.agent.dap.messages import as_dict
from dkdbg.attach import from_targets
from dkdbg.attach.handshake import Handshake
from dkdbg.core.target import Capability

if TYPE_CHECKING:
    from collections.abc import Callable

    from dkdbg.agent.dap.messages import Message
    from dkdbg.attach.actions import Branch
    from dkdbg.core.target import Target

#: Seconds after a process's end for the editor to close its connection; then the proxy closes it.
CLOSE_TIMEOUT_S = 2.0
#: Timeout in seconds for the handshake with an agent, which itself waits up to 30 s for its adapter.
HANDSHAKE_TIMEOUT_S = 40.0

_LOST = "connection to the process lost: its container or machine may have stopped or restarted, or its debugger was killed"
#: Seconds to wait for a running `dkdbg sync` after a save, before a difference is reported.
SYNC_TIMEOUT_S = 5.0


class ChildProxy:
    """Passes messages between the editor and an agent.

    Args:
        client, parser: the editor's socket, and the parser that holds the data received after the attach.
        upstream: a connection to the agent. must_prove: see `Handshake`.
        target: where the process runs.

    Attributes:
        begun: whether the process exists and has sent `initialized`, which asks the editor for its breakpoints.
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
        numbers = itertools.count(messages.OWN_SEQUENCE - 1, -1)  # agents reject numbers from OWN_SEQUENCE on
        self._handshake = Handshake(
            branch.initialize, branch.attach, lambda: next(numbers), must_prove=must_prove
        )
        self._sources = Sources(
            as_dict(branch.attach.get("arguments")).get("pathMappings"), target, branch.process.upstream,
            branch.process.reported, lambda: next(numbers),
        )  # fmt: skip
        self._handshake_over = threading.Event()
        self.begun = False
        self._leaves = False
        self._lock = threading.Lock()
        self._upstream_lock = threading.Lock()
        self._ended = False

    def serve(self) -> None:
        """Forward messages until both sides have closed; the caller closes the editor's socket."""
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
        """Tell the editor that the session has ended, and close the connection to the agent."""
        self._say_ended()
        sockets.shut(self._upstream)

    def _to_upstream(self, body: bytes) -> None:
        self._leaves = self._leaves or b'"disconnect"' in body or b'"terminate"' in body
        self._send([*self._sources.query(body), body])

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
            self._say(f"the process's session was ended: {error}")
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
        if not self._handshake.is_over:  # until the handshake is over, its messages are the only ones
            self._send(self._handshake.take(message) or [])
            if self._handshake.is_over:
                self._handshake_over.set()
        elif message.get("type") == "request":
            self._send([messages.refuse(message, "a target may not send this request")])
        elif message.get("request_seq") == self._hidden and message.get("command") == "initialize":
            self._hidden = None
        elif (answer := self._sources.answered(message)) is not None:
            self._tell(*answer)
        elif shown and (annotated := self._sources.with_differences(message)) is not None:
            self._to_client(messages.body_of(annotated), annotated)
        elif shown:
            self._to_client(shown, message)

    def _tell(self, text: str, again: Asked | None) -> None:
        """Report that a file differs (`text`), and repeat the query `again` after SYNC_TIMEOUT_S."""
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
                self._close_later()

    def _say_lost(self) -> None:
        """Tell the editor that the connection to the process is lost, unless the editor is disconnecting."""
        if self.begun and not self._leaves:
            self._say(_LOST)

    def _say(self, text: str) -> None:
        body = messages.say(text, "important")
        with contextlib.suppress(OSError):  # the editor has left
            self._to_client(body, frames.decode(body))

    def _refuse(self, reason: str) -> None:
        """Answer the attach with an error, and end the session."""
        with self._lock:
            if not self._ended:
                self._client.sendall(frames.wrap(messages.refuse(self._attach, reason)))
                self._close_later()
        sockets.shut(self._upstream)

    def _say_ended(self) -> None:
        if not self._lock.acquire(timeout=CLOSE_TIMEOUT_S):  # the editor does not read: disconnect it
            sockets.shut(self._client)
            return
        try:
            if not self._ended:
                self._close_later()
                with contextlib.suppress(OSError):
                    self._client.sendall(frames.wrap(messages.event("terminated")))
        finally:
            self._lock.release()

    def _close_later(self) -> None:
        self._ended = True
        limit = threading.Timer(CLOSE_TIMEOUT_S, sockets.shut, (self._client,))
        limit.daemon = True
        limit.start()


@dataclass(frozen=True, kw_only=True)
class Asked:
    """An open query to the agent.

    Attributes:
        request: sequence number of the editor's setBreakpoints request; None once that request was answered.
        path, remote: the file's local and remote path. mapping: local and remote folder of its mapping.
        line: line of its first breakpoint.
    """

    request: int | None
    path: str
    remote: str
    mapping: tuple[str, str]
    line: int


class Sources:
    """Source files of one child session, compared with those at the target.

    Args:
        mappings: `pathMappings` of the attach; only files below one of their local roots are compared.
        target, label: where the process runs, and the target's name for users.
        reported: differences that any session of this editor has reported.
        number: returns the next sequence number of the proxy.

    Attributes:
        is_answered: whether the agent answers queries; older agents do not.
    """

    def __init__(
        self,
        mappings: object,
        target: Target,
        label: str,
        reported: dict[object, object],
        number: Callable[[], int],
    ) -> None:
        self._mappings = [
            (os.path.normpath(local), remote)
            for local, remote in paths.pairs(mappings)
            if local.startswith("/")
        ]
        self._target, self._label, self._reported, self._number = target, label, reported, number
        self._asked: dict[int, Asked] = {}
        self._differing: dict[int, str] = {}
        self.is_answered = False

    def query(self, body: bytes) -> list[bytes]:
        """Return the queries to send to the agent before this request of the editor."""
        if not self.is_answered or b"setBreakpoints" not in body:
            return []
        try:
            request = frames.decode(body)
        except frames.FrameError:  # malformed: the agent will reject the request
            return []
        arguments = as_dict(request.get("arguments"))
        path, wanted = as_dict(arguments.get("source")).get("path"), arguments.get("breakpoints")
        if (
            request.get("command") != "setBreakpoints"
            or not isinstance(path, str)
            or not isinstance(wanted, list)
        ):
            return []
        line = as_dict(wanted[0]).get("line") if wanted else None
        full, number = os.path.normpath(path), request.get("seq")
        found = paths.mapped(full, self._mappings)
        if found is None or full == found[0][0] or not isinstance(line, int) or not isinstance(number, int):
            return []
        return [self.ask(Asked(request=number, path=full, mapping=found[0], remote=found[1], line=line))]

    def ask(self, asked: Asked) -> bytes:
        """Encode a query, and store it until its answer arrives."""
        number = self._number()
        self._asked[number] = asked
        return messages.request(number, messages.SOURCE, {"path": asked.remote})

    def answered(self, message: Message) -> tuple[str, Asked | None] | None:
        """Handle an agent's answer to a query.

        Returns:
            A line for the editor's console, empty for none, and the query to repeat after SYNC_TIMEOUT_S, if any. None
            for a message that answers no query.
        """
        number = message.get("request_seq")
        asked = self._asked.pop(number, None) if isinstance(number, int) else None
        if asked is None:
            return None
        remote, local = as_dict(message.get("body")), sources.describe(asked.path)
        digest, lines = remote.get("digest"), remote.get("lines")
        if not local or not isinstance(digest, str) or digest == local["digest"]:
            return "", None
        if not isinstance(lines, int) or not 0 <= lines <= sources.MAX_BYTES:
            return "", None
        if asked.request is not None and abs(time.time() - local["changed"]) < SYNC_TIMEOUT_S:
            return "", replace(asked, request=None)
        text = self._described(asked, local["lines"] - lines)
        if asked.request is not None:
            self._differing[asked.request] = text
        token, which = object(), (self._label, asked.path, local["digest"], digest)
        is_new = self._reported.setdefault(which, token) is token
        return f"{Path(asked.path).name}:{asked.line}: {text}" if is_new else "", None

    def with_differences(self, message: Message) -> Message | None:
        """Return a setBreakpoints answer that notes how the local and remote file differ; None for other messages."""
        number = message.get("request_seq")
        text = self._differing.pop(number, "") if isinstance(number, int) else ""
        found = as_dict(message.get("body")).get("breakpoints")
        if not text or not isinstance(found, list):
            return None
        lines = [{"message": text, **each} if isinstance(each, dict) else each for each in found]
        return {**message, "body": {**message["body"], "breakpoints": lines}}

    def _described(self, asked: Asked, more: int) -> str:
        count = (
            f" ({abs(more)} line{'s' * (abs(more) != 1)} {'more' if more > 0 else 'fewer'} here)"
            if more
            else ""
        )
        text = f"the file here and the one at {self._label} differ{count}: the breakpoint may be in different code"
        if Capability.ATTACH_ONLY in self._target.capabilities:
            return text
        local, remote = asked.mapping
        folder = () if Path(local) == Path.cwd() else ("-C", local)
        argv = ("dkdbg", *folder, "sync", str(self._target.address), "--to", remote)
        return f"{text}. Run `{shlex.join(argv)}`"
