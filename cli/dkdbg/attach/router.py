"""One editor's connection to the attach proxy, as a state machine: takes messages, returns actions. No I/O.

The router itself answers the editor's root session, which outlives every container. Behind this session, root sessions
with each agent start and end (upstream_session.py). The connection of a child session becomes a `Branch` at its attach.
"""

from __future__ import annotations

import time
from itertools import chain, count
from typing import TYPE_CHECKING, Literal

from dkdbg.agent.contract import LOOPBACK
from dkdbg.agent.dap import frames, messages
from dkdbg.agent.dap.messages import as_dict
from dkdbg.agent.proxy.listener import tokens
from dkdbg.attach import from_targets
from dkdbg.attach.actions import (
    Announce,
    Branch,
    Close,
    Dial,
    HangUp,
    Offer,
    RunBarrier,
    ToClient,
    ToUpstream,
    Wait,
    say,
    send,
)
from dkdbg.attach.rank_barrier import INTERVAL_S, JobBarrier
from dkdbg.attach.upstream_session import UpstreamSession

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dkdbg.agent.contract import Deadline
    from dkdbg.agent.dap.messages import Message
    from dkdbg.attach.actions import Action, Announcement, Process, ProcessRegistry
    from dkdbg.attach.upstream_session import Heard

    #: `arriving`: an available upstream may still refuse the attach. `configuring`: the editor sets breakpoints.
    #: `ended`: the editor knows of the end and is about to disconnect. `branched`: a child session's connection.
    #: `expecting`: becomes `branched` as soon as the process exists.
    Phase = Literal[
        "new", "initialized", "arriving", "configuring", "live", "ended", "expecting", "branched", "closed"
    ]

#: Timeout in seconds for available upstreams to accept an attach: an agent may first wait for an editor to leave.
ARRIVAL_TIMEOUT_S = 25.0
#: Maximum remembered processes of one target; a run may start a worker for every epoch.
MAX_PROCESSES = 4096
#: Requests that editors send on every mouse move or key press: refused without a message.
_QUIET = frozenset((
    "evaluate", "completions", "setExpression", "setVariable", "gotoTargets", "stepInTargets", "exceptionInfo",
))  # fmt: skip
_EMPTY_ANSWERS: dict[str, Message] = {
    "threads": {"threads": []},
    "stackTrace": {"stackFrames": [], "totalFrames": 0},
    "scopes": {"scopes": []},
    "variables": {"variables": []},
    "modules": {"modules": [], "totalModules": 0},
    "loadedSources": {"sources": []},
}


class Router:
    """State machine of one editor's connection. Never raises.

    Args:
        address: the editor's address, for the terminal.
        pinned: whether the editor uses the port of a single process; see `branch`.
        clock: returns monotonic seconds.

    Attributes:
        sessions: root sessions by the target's name; empty before the attach.
    """

    def __init__(
        self,
        registry: ProcessRegistry,
        address: str = "",
        *,
        pinned: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.phase: Phase = "new"
        self.sessions: dict[str, UpstreamSession] = {}
        self.address = address
        self._registry = registry
        self._pinned = pinned
        self._initialize: Message = {}
        self._attach: Message = {}
        self._barrier = JobBarrier(clock)
        self._is_barrier_timed = False
        self._reported: dict[object, object] = {}
        self._numbers = count(messages.OWN_SEQUENCE)

    # -- the editor's side --------------------------------------------------------------------------------------

    def from_client(self, body: bytes) -> list[Action]:
        """Handle one message of the editor."""
        if self.phase in {"closed", "branched"}:
            return []
        try:
            message = frames.decode(body)
        except frames.FrameError:
            return self._close()
        if message.get("type") in ("response", "event"):
            return []
        sequence, command = message.get("seq"), message.get("command")
        if message.get("type") != "request" or not isinstance(command, str) or not isinstance(sequence, int):
            return self._close()
        if self.phase == "new":
            return self._first_request(message)
        if command == "disconnect":
            return self._disconnect(message)
        if self.phase == "initialized":
            return self._before_attach(message, command)
        if command in ("attach", "launch", "initialize"):
            return [ToClient(messages.refuse(message, "this connection is already attached"))]
        if command == "configurationDone" and self.phase in {"arriving", "configuring"}:
            return self._configured(message)
        if command == "terminate":
            return [
                *self._leave(terminate=True),
                ToClient(messages.answer(message)),
                *self._end("ended by the editor"),
            ]
        if command == "restart":
            sends = [send(name, session.restart()) for name, session in self.sessions.items()]
            return [ToClient(messages.answer(message)), *chain(*sends)]
        return [ToClient(_root_answer(message))]

    def client_gone(self) -> list[Action]:
        """Handle the end of the editor's connection."""
        actions: list[Action] = [*map(HangUp, self.sessions)]
        if self.phase in {"live", "configuring", "arriving"}:
            actions.append(Announce("left", f"the editor at {self.address} is gone"))
        return [*actions, *self._close()]

    def stop(self, reason: str) -> list[Action]:
        """End the session from the proxy's side."""
        if self.phase == "expecting":
            return [ToClient(messages.refuse(self._attach, reason)), *self._close()]
        if self.phase in {"arriving", "configuring", "live"}:
            return [*self._leave(terminate=False), say(reason), *self._end(reason)]
        return self._close()

    def waited(self) -> list[Action]:
        """Stop waiting for upstreams; called when the time of a `Wait` action is over."""
        return self._arrived() if self.phase == "arriving" else []

    def _first_request(self, message: Message) -> list[Action]:
        if message["command"] != "initialize":
            return self._close()
        self.phase, self._initialize = "initialized", message
        return [ToClient(messages.answer(message, **messages.CAPABILITIES))]

    def _before_attach(self, message: Message, command: str) -> list[Action]:
        if command == "launch":
            return [
                ToClient(messages.refuse(message, "the program runs elsewhere: use an attach configuration"))
            ]
        if command != "attach":
            return [ToClient(messages.refuse(message, f"send attach first, not {command[:40]}"))]
        arguments = dict(as_dict(message.get("arguments")))
        connect = as_dict(arguments.get("connect"))
        if messages.PROJECT in connect:  # the targets were chosen with `dkdbg attach`
            arguments["connect"] = {k: v for k, v in connect.items() if k != messages.PROJECT}
        if self._registry.ranks:
            arguments.setdefault(messages.RANKS, self._registry.ranks)
        if self._registry.continues:
            arguments.setdefault(messages.CONTINUE, self._registry.continues)
        self._attach = {**message, "arguments": arguments}
        number = arguments.get("subProcessId")
        if isinstance(number, int) and not isinstance(number, bool) and number > 0:
            return self.branch(number)
        if self._pinned:
            self.phase = "expecting"
            return []
        initialize = as_dict(self._initialize.get("arguments"))
        self.phase = "arriving"
        arguments = self._to_roots(arguments)
        self.sessions = {name: UpstreamSession(initialize, arguments) for name in self._registry.upstreams}
        return [*(Dial(name) for name in self.sessions), Wait(ARRIVAL_TIMEOUT_S if self.sessions else 0.0)]

    def joined(self, upstream: str) -> list[Action]:
        """Attach to an additional upstream."""
        if self.phase not in {"arriving", "configuring", "live"} or upstream in self.sessions:
            return []
        initialize = as_dict(self._initialize.get("arguments"))
        arguments = self._to_roots(as_dict(self._attach.get("arguments")))
        self.sessions[upstream] = UpstreamSession(initialize, arguments)
        return [Dial(upstream)]

    def _proving(self, arguments: Message) -> Message:
        """Add the token, which the editor does not know, to the arguments of an attach; it is proven, not sent."""
        return {tokens.PROPERTY: self._registry.token, **arguments} if self._registry.token else arguments

    def _to_roots(self, arguments: Message) -> Message:
        """Add the token and the flag for leading the rank barrier to a root session's attach arguments."""
        is_closed = messages.opens_sessions(as_dict(self._initialize.get("arguments")))
        return {**self._proving(arguments), **({messages.LEADS_BARRIER: True} if is_closed else {})}

    def branch(self, number: int) -> list[Action]:
        """Turn this connection into a child session; its attach has arrived."""
        process = self._registry.find(number)
        if process is None:
            return self.unbranch()
        self.phase = "branched"
        shown = {} if self._pinned else process.shown
        arguments = {
            **self._proving(as_dict(self._attach.get("arguments"))),
            **shown,
            "subProcessId": process.pid,
        }
        return [
            Branch(
                process=process, initialize=self._initialize, attach={**self._attach, "arguments": arguments}
            )
        ]

    def release(self, process: Process) -> list[Action]:
        """Resume an announced process that waits for a session, because no session will be opened."""
        session = self.sessions.get(process.upstream)
        return send(process.upstream, session.release(process.pid)) if session is not None else []

    def unbranch(self) -> list[Action]:
        """Answer the attach as debugpy does for a process that has ended."""
        self.phase = "ended"
        return [ToClient(messages.answer(self._attach)), ToClient(messages.event("terminated"))]

    def _configured(self, message: Message) -> list[Action]:
        self.phase, name = "live", "dkdbg: " + ", ".join(self.sessions)
        process = messages.event("process", name=name, isLocalProcess=False, startMethod="attach")
        actions: list[Action] = [
            *map(ToClient, (messages.answer(message), messages.answer(self._attach), process))
        ]
        actions.append(Announce("editor", f"an editor has attached from {self.address or 'here'}"))
        for upstream, session in self.sessions.items():
            if session.phase == "ready":
                actions += self._configure(upstream, session)
            elif session.phase == "down":
                actions.append(say(f"waiting for {upstream}: {session.why or 'looking for it'}"))
        return actions

    def _disconnect(self, message: Message) -> list[Action]:
        terminate = as_dict(message.get("arguments")).get("terminateDebuggee") is True
        # Leave the targets first: once this editor has its answer, the next one may attach.
        actions = [*self._leave(terminate=terminate), ToClient(messages.answer(message))]
        if self.phase in {"arriving", "configuring", "live"}:
            actions.append(
                Announce(
                    "left",
                    f"the editor {f'at {self.address}' if self.address else 'on this machine'} has left",
                )
            )
        return [*actions, *self._close()]

    # -- the upstreams' side ------------------------------------------------------------------------------------

    def opened(
        self, upstream: str, *, must_prove: bool = False, deadlines: Sequence[Deadline] = ()
    ) -> list[Action]:
        """Handle a new connection to an upstream.

        Args:
            must_prove: whether the port belongs to another user of this machine.
            deadlines: time limits of the target, for its agent.
        """
        session = self.sessions.get(upstream)
        if session is None or self.phase not in {"arriving", "configuring", "live"}:
            return [HangUp(upstream)]
        bodies, refusal = session.opened(must_prove=must_prove, deadlines=deadlines)
        return self._refused(upstream, refusal) if refusal else send(upstream, bodies)

    def absent(self, upstream: str, why: str) -> list[Action]:
        """Report an unavailable upstream, once for each reason."""
        session = self.sessions.get(upstream)
        if session is None or session.phase != "down" or session.why == why:
            return []
        session.why = why
        if self.phase == "arriving":
            return self._settle()
        return [say(f"waiting for {upstream}: {why}")] if self.phase == "live" else []

    def lost(self, upstream: str) -> list[Action]:
        """Handle the end of the connection to an upstream."""
        session = self.sessions.get(upstream)
        if session is None:
            return []
        self._registry.forget(session.processes)
        self._barrier.forget(upstream)
        unexpected = session.phase not in {"down", "left"}
        session.lost()
        if self.phase == "arriving":
            return self._settle()
        if self.phase != "live" or not unexpected:
            return []
        return [Announce("lost", "the connection was lost; reconnecting", upstream)]

    def from_upstream(self, upstream: str, body: bytes) -> list[Action]:
        """Handle one message of an upstream."""
        session = self.sessions.get(upstream)
        if session is None or self.phase not in {"arriving", "configuring", "live"}:
            return []
        actions: list[Action] = []
        for heard in session.take(body):
            actions += self._heard(upstream, session, heard)
        return actions

    def _heard(self, upstream: str, session: UpstreamSession, heard: Heard) -> list[Action]:
        match heard.kind:
            case "reply":
                return [ToUpstream(upstream, heard.body)]
            case "ready":
                return self._configure(upstream, session) if self.phase == "live" else self._settle()
            case "barrier":
                self._barrier.hear(upstream, heard.message)
                return self._run_barrier()
            case "group":
                others = [(name, each) for name, each in self.sessions.items() if name != upstream]
                report = {key: heard.message.get(key) for key in ("command", "world", "ranks")}
                sends = [send(name, each.ask(messages.GROUP, report)) for name, each in others]
                return [*chain(*sends)]
            case "attached":
                self._barrier.attached(upstream)
                announcement = Announce("attached", "the editor is attached to it", upstream)
                return [say(f"{upstream}: attached"), announcement]
            case "refused":
                return self._refused(upstream, heard.text)
            case "child":
                return self._announce(upstream, session, heard.process) if heard.process else []
            case "output":
                prefix = upstream if len(self.sessions) > 1 else ""
                return [ToClient(from_targets.output(heard.message, prefix))]
            case "ended":
                text = "the program has ended; waiting for it to start again"
                line = say(f"{upstream}: {text}")
                return [line, Announce("ended", text, upstream), HangUp(upstream, then="redial")]
            case "closed":
                ended = self._end_if_all_left("the session was ended")
                line = say(f"{upstream}: detached; will reattach after its next start")
                return [HangUp(upstream, then="replaced"), *(ended or [line])]

    def _refused(self, upstream: str, text: str) -> list[Action]:
        announcement = Announce("refused", text, upstream)
        others = [session for session in self.sessions.values() if session.phase != "left"]
        if self.phase == "arriving" and not others:
            answer = ToClient(messages.refuse(self._attach, text))
            return [announcement, answer, *map(HangUp, self.sessions), *self._close()]
        line = say(f"{upstream}: {text}", "important")
        return [announcement, line, HangUp(upstream), *self._settle(), *self._end_if_all_left("refused")]

    def _configure(self, upstream: str, session: UpstreamSession) -> list[Action]:
        self._barrier.expect(upstream)
        return send(upstream, session.configure())

    def barrier_due(self) -> list[Action]:
        """Check the barrier again; called when the time of a `RunBarrier` action is over."""
        self._is_barrier_timed = False
        return self._run_barrier() if self.phase == "live" else []

    def _run_barrier(self) -> list[Action]:
        """Make the ranks of all targets stop together."""
        self._barrier.coming = frozenset(
            upstream
            for upstream, session in self.sessions.items()
            if session.phase in {"attaching", "ready"} or (session.phase == "down" and not session.why)
        )
        actions: list[Action] = []
        for upstream, wanted in self._barrier.decide():
            session = self.sessions.get(upstream)
            actions += send(upstream, session.ask(messages.BARRIER, wanted)) if session is not None else []
        if apart := self._barrier.apart():
            actions.append(say(apart, "important"))
        if self._barrier.is_closed and not self._is_barrier_timed:
            self._is_barrier_timed = True
            actions.append(RunBarrier(INTERVAL_S))
        return actions

    def _announce(self, upstream: str, session: UpstreamSession, found: Announcement) -> list[Action]:
        process = self._registry.register(upstream, found, self._reported)
        session.processes.append(process)
        self._registry.forget(session.processes[:-MAX_PROCESSES])
        del session.processes[:-MAX_PROCESSES]
        arguments = as_dict(self._attach.get("arguments"))
        mine = arguments.get("connect")
        connect = mine if isinstance(mine, dict) else {"host": LOOPBACK, "port": self._registry.port()}
        child = from_targets.child(arguments, called=process.name, number=process.number, connect=connect)
        actions: list[Action] = [Announce("process", process.name, upstream)]
        client = as_dict(self._initialize.get("arguments"))
        actions.append(ToClient(messages.announcement(client, self._numbers.__next__, child)))
        alone = not messages.opens_sessions(client)
        return [*actions, Offer(process, say=alone)] if alone or self._registry.offers_all else actions

    # -- both sides ------------------------------------------------------------------------------------------------

    def say(self, text: str, category: str = "console") -> list[Action]:
        """Print a line in the editor's debug console."""
        return [say(text, category)] if self.phase in {"configuring", "live", "expecting"} else []

    def is_settled(self, upstream: str) -> bool:
        """Return whether this editor has finished attaching to the upstream, or will not attach."""
        session = self.sessions.get(upstream)
        return session is None or session.phase in {"attached", "left"} or self.phase in {"ended", "closed"}

    def _settle(self) -> list[Action]:
        waiting = [
            session
            for session in self.sessions.values()
            if session.phase == "attaching" or not (session.why or session.phase != "down")
        ]
        return [] if self.phase != "arriving" or waiting else self._arrived()

    def _arrived(self) -> list[Action]:
        self.phase = "configuring"
        return [ToClient(messages.event("initialized"))]

    def _end_if_all_left(self, reason: str) -> list[Action]:
        return self._end(reason) if all(session.phase == "left" for session in self.sessions.values()) else []

    def _end(self, reason: str) -> list[Action]:
        """Tell the editor that its session is over, so that it disconnects."""
        self.phase = "ended"
        over = Announce("over", f"the session is over: {reason}")
        return [ToClient(messages.event("terminated")), over, *map(HangUp, self.sessions)]

    def _leave(self, *, terminate: bool) -> list[Action]:
        sends = [send(name, session.leave(terminate=terminate)) for name, session in self.sessions.items()]
        return [*chain(*sends), *map(HangUp, self.sessions)]

    def _close(self) -> list[Action]:
        if self.phase == "closed":
            return []
        self.phase = "closed"
        return [Close()]


def _root_answer(request: Message) -> bytes:
    """Return a root session's response to a request about a process, which it does not have: an error or no data."""
    command = str(request.get("command"))
    if command in _QUIET:
        return messages.refuse(
            request, "this is the root session; choose the session of a process", show=False
        )
    if command.startswith("set"):
        return messages.answer(request, breakpoints=messages.unset(as_dict(request.get("arguments"))))
    return messages.answer(request, **_EMPTY_ANSWERS.get(command, {}))
