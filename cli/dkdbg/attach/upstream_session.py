"""One editor's root session with one agent, as its client. No I/O."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from dkdbg.agent.dap import frames, messages
from dkdbg.agent.dap.messages import EDITOR, OBSERVE, ROLE, TAKE_OVER, as_dict
from dkdbg.attach import from_targets
from dkdbg.attach.actions import Announcement
from dkdbg.attach.handshake import Handshake

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.agent.contract import Deadline
    from dkdbg.agent.dap.messages import Message
    from dkdbg.attach.actions import Process

    #: `down`: waiting for a connection. `attaching`: until the upstream accepts breakpoints. `ready`: the upstream
    #: waits for configurationDone. `attached`: the attach was answered. `left`: the session has ended for good.
    Phase = Literal["down", "attaching", "ready", "attached", "left"]

#: Sequence numbers of the first requests of each connection.
_INITIALIZE, _ATTACH = 1, 2
#: Above the maximum PID of any kernel (Linux: 2**22).
MAX_PID = 1 << 31


@dataclass(frozen=True, kw_only=True)
class Heard:
    """Meaning of a message from the upstream.

    Attributes:
        kind: `reply`: send `body` back. `ready`, `attached`: the session has entered this phase (see Phase).
            `refused`: either side refuses the attach; `text` is the reason. `child`: `process` is new. `output`:
            `message` is the event. `ended`: the program has ended, and the upstream will close the connection.
            `closed`: the upstream has ended the session. `barrier`, `group`: `message` is a report on the
            upstream's ranks.
    """

    kind: Literal[
        "reply", "ready", "attached", "refused", "child", "output", "ended", "closed", "barrier", "group"
    ]
    message: Message = field(default_factory=dict)
    body: bytes = b""
    text: str = ""
    process: Announcement | None = None


class UpstreamSession:
    """Editor's root session with one agent; attaches again on each new connection.

    Args:
        initialize, arguments: arguments of the editor's `initialize` and `attach`.

    Attributes:
        why: why the upstream is unavailable; empty before the first poll.
        processes: processes announced since the last `opened`.
    """

    def __init__(self, initialize: Message, arguments: Message) -> None:
        self.phase: Phase = "down"
        self.why = ""
        self.processes: list[Process] = []
        self._initialize = {**initialize, "supportsStartDebuggingRequest": True}
        self._arguments = arguments
        self._exited = False
        self._numbers = itertools.count(1)
        self._handshake: Handshake | None = None

    def opened(
        self, *, must_prove: bool = False, deadlines: Sequence[Deadline] = ()
    ) -> tuple[list[bytes], str]:
        """Start a handshake; return the first messages, and the one-line reason for having no messages (otherwise empty).

        Args:
            must_prove: whether to refuse an agent that does not prove the token.
            deadlines: time limits of the target, to send to its agent.
        """
        self.phase, self.why, self._exited = "attaching", "", False
        self._numbers = itertools.count(_ATTACH + 1)
        arguments = {**self._arguments, **({messages.DEADLINES: [*deadlines]} if deadlines else {})}
        self._handshake = Handshake(
            _message(_INITIALIZE, "initialize", self._initialize), _message(_ATTACH, "attach", arguments),
            lambda: next(self._numbers), must_prove=must_prove,
        )  # fmt: skip
        bodies = self._handshake.begin()
        if self._handshake.refusal:
            self.phase = "left"
        return bodies, self._handshake.refusal

    def configure(self) -> list[bytes]:
        """Encode a configurationDone; breakpoints are set later, in each process."""
        return [self._request("configurationDone", {})]

    def leave(self, *, terminate: bool) -> list[bytes]:
        """Encode a disconnect, which ends the program if `terminate`."""
        if self.phase not in {"attaching", "ready", "attached"}:
            return []
        return [self._request("disconnect", {"terminateDebuggee": terminate})]

    def release(self, pid: int) -> list[bytes]:
        """Encode a request to resume a process that waits at its start for a session."""
        return (
            [self._request(messages.RELEASE, {"subProcessId": pid})]
            if self.phase in {"ready", "attached"}
            else []
        )

    def ask(self, command: str, arguments: Message) -> list[bytes]:
        """Encode a request about the target's ranks; the answer is ignored."""
        return [self._request(command, arguments)] if self.phase in {"ready", "attached"} else []

    def restart(self) -> list[bytes]:
        """Encode a request to restart the program."""
        return [self._request("restart", {})] if self.phase == "attached" else []

    def lost(self) -> None:
        """Handle the end of the connection."""
        if self.phase != "left":
            self.phase = "down"
        self.processes.clear()

    def take(self, body: bytes) -> list[Heard]:
        """Handle a message of the upstream; skip malformed ones."""
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
        introduction = self._handshake
        if introduction is None or self.phase == "left":
            return []
        bodies = introduction.take(message)
        if introduction.refusal:
            self.phase = "left"
            return [Heard(kind="refused", text=introduction.refusal)]
        if bodies is not None:
            return [Heard(kind="reply", body=body) for body in bodies]
        if message.get("command") == "restart" and message.get("success") is not True:
            text = from_targets.line(message.get("message"))
            return [Heard(kind="output", message={"body": {"category": "important", "output": f"{text}\n"}})]
        if message.get("request_seq") != _ATTACH or message.get("command") != "attach":
            return []
        if message.get("success") is not True:
            self.phase = "left"
            return [Heard(kind="refused", text=introduction.why_refused(message))]
        if self.phase not in {"attaching", "ready"}:
            return []
        self.phase = "attached"
        if (
            self._arguments.get(ROLE) == TAKE_OVER
        ):  # drop the role: after a restart there is no other editor to take over from
            self._arguments = {k: v for k, v in self._arguments.items() if k != ROLE}
        return [Heard(kind="attached")]

    def _asked(self, message: Message) -> list[Heard]:
        """Handle a request of the target: refuse all but an attach to one of its processes."""
        arguments = as_dict(message.get("arguments"))
        wanted = arguments.get("request", "attach")
        if message.get("command") != "startDebugging" or wanted != "attach":
            return [Heard(kind="reply", body=messages.refuse(message, "a target may not send this request"))]
        child = self._child(as_dict(arguments.get("configuration")))
        return [Heard(kind="reply", body=messages.answer(message)), *child]

    def _happened(self, message: Message) -> list[Heard]:
        name, content = message.get("event"), as_dict(message.get("body"))
        if name == "initialized" and self.phase == "attaching":
            self.phase = "ready"
            return [Heard(kind="ready")]
        if name == "debugpyAttach":
            return self._child(content)
        if name == "output" and content.get("category") != "telemetry":
            return [Heard(kind="output", message=message)]
        if name in (messages.BARRIER, messages.GROUP) and self.phase in {"ready", "attached"}:
            return [Heard(kind="barrier" if name == messages.BARRIER else "group", message=content)]
        if name == "exited":
            self._exited = True
        if name == "terminated" and self.phase in {"ready", "attached"}:
            self.phase = "down" if self._exited else "left"
            return [Heard(kind="ended" if self._exited else "closed")]
        return []

    def _child(self, configuration: Message) -> list[Heard]:
        pid, editor = configuration.get("subProcessId"), configuration.get(EDITOR)
        if isinstance(pid, bool) or not isinstance(pid, int) or self.phase not in {"ready", "attached"}:
            return []
        if not 0 < pid < MAX_PID:
            return []
        process = Announcement(
            pid=pid, name=from_targets.name(configuration.get("name")),
            editor=editor if isinstance(editor, int) and not isinstance(editor, bool) else None,
            observes=configuration.get(ROLE) == OBSERVE,
        )  # fmt: skip
        return [Heard(kind="child", process=process)]

    def _request(self, command: str, arguments: Message) -> bytes:
        return messages.request(next(self._numbers), command, arguments)


def _message(number: int, command: str, arguments: Message) -> Message:
    return {"seq": number, "type": "request", "command": command, "arguments": arguments}
