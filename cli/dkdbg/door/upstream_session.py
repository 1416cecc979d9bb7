"""One editor's root session with one place's door, as a client of it. No I/O."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dkdbg.agent.dap import frames, messages
from dkdbg.agent.dap.messages import ROLE, TAKE_OVER, as_dict

if TYPE_CHECKING:
    from dkdbg.door.actions import Process
    from dkdbg.door.root_answers import Message

    #: `down`: no connection, and one is wanted. `attaching`: until the upstream lets breakpoints be set. `ready`: it
    #: waits for configurationDone. `held`: attached. `left`: the session there has ended and another one is not wanted.
    Phase = Literal["down", "attaching", "ready", "held", "left"]


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What a message of the upstream means.

    Attributes:
        kind: `reply`: send `body` back; `ready` and `attached`: see Phase; `refused`: the attach was, `message` is the
            response; `child`: `message` is the attach configuration of a process; `output`: `message` is the event;
            `ended`: the program has ended, the upstream is about to go; `closed`: the session has been ended there.
    """

    kind: Literal["reply", "ready", "attached", "refused", "child", "output", "ended", "closed"]
    message: Message
    body: bytes = b""


class UpstreamSession:
    """Attaches again whenever it is told that there is a connection.

    Args:
        initialize, arguments: of the editor's `initialize` and `attach`.

    Attributes:
        why: what is known of an upstream that is not there; empty before the first look.
        processes: those that were announced since the last `opened`.
    """

    def __init__(self, initialize: Message, arguments: Message) -> None:
        self.phase: Phase = "down"
        self.why = ""
        self.processes: list[Process] = []
        self._initialize = {**initialize, "supportsStartDebuggingRequest": True}
        self._arguments = arguments
        self._exited = False
        self._attach = 0
        self._numbers = itertools.count(1)

    def opened(self) -> list[bytes]:
        """There is a new connection: what to send on it."""
        self.phase, self.why, self._exited = "attaching", "", False
        self._numbers = itertools.count(1)
        first = self._request("initialize", self._initialize)
        self._attach = 2
        return [first, self._request("attach", self._arguments)]

    def configure(self) -> list[bytes]:
        """Let the upstream's processes run, breakpoints are set in each of them."""
        return [self._request("configurationDone", {})]

    def leave(self, *, terminate: bool) -> list[bytes]:
        """Ask to leave, and to end the program when `terminate`."""
        if self.phase not in {"attaching", "ready", "held"}:
            return []
        return [self._request("disconnect", {"terminateDebuggee": terminate})]

    def lost(self) -> None:
        """The connection has ended."""
        if self.phase != "left":
            self.phase = "down"
        self.processes.clear()

    def take(self, body: bytes) -> list[Heard]:
        """Take a message of the upstream; what cannot be understood is skipped."""
        try:
            message = frames.decode(body)
        except frames.FrameError:
            return []
        kind = message.get("type")
        if kind == "response":
            return self._answered(message)
        if kind == "request":
            return self._asked(message)
        return self._happened(message) if kind == "event" else []

    def _answered(self, message: Message) -> list[Heard]:
        if message.get("request_seq") != self._attach or message.get("command") != "attach":
            return []
        if message.get("success") is not True:
            self.phase = "left"
            return [Heard(kind="refused", message=message)]
        if self.phase not in {"attaching", "ready"}:
            return []
        self.phase = "held"
        if (
            self._arguments.get(ROLE) == TAKE_OVER
        ):  # said once: after a restart there is nobody to take it from
            self._arguments = {k: v for k, v in self._arguments.items() if k != ROLE}
        return [Heard(kind="attached", message=message)]

    def _asked(self, message: Message) -> list[Heard]:
        reply = Heard(kind="reply", message=message, body=messages.answer(message))
        if message.get("command") != "startDebugging":
            return [reply]
        return [reply, *self._child(as_dict(as_dict(message.get("arguments")).get("configuration")))]

    def _happened(self, message: Message) -> list[Heard]:
        name, content = message.get("event"), as_dict(message.get("body"))
        if name == "initialized" and self.phase == "attaching":
            self.phase = "ready"
            return [Heard(kind="ready", message=message)]
        if name == "debugpyAttach":
            return self._child(content)
        if name == "output" and content.get("category") != "telemetry":
            return [Heard(kind="output", message=message)]
        if name == "exited":
            self._exited = True
        if name == "terminated" and self.phase in {"ready", "held"}:
            self.phase = "down" if self._exited else "left"
            return [Heard(kind="ended" if self._exited else "closed", message=message)]
        return []

    def _child(self, configuration: Message) -> list[Heard]:
        pid = configuration.get("subProcessId")
        if isinstance(pid, bool) or not isinstance(pid, int) or self.phase not in {"ready", "held"}:
            return []
        return [Heard(kind="child", message=configuration)]

    def _request(self, command: str, arguments: Message) -> bytes:
        return messages.request(next(self._numbers), command, arguments)
