"""Serves editors on the host's port: the sockets around the routers."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

from dkdbg.agent import dap_frames
from dkdbg.door import wires
from dkdbg.door.actions import Branch, Close, Dial, Exchange, HangUp, Note, Offer, ToClient, ToUpstream, Wait
from dkdbg.door.link import Link
from dkdbg.door.passage import Passage
from dkdbg.door.router import Router

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from dkdbg.door.actions import Action, Process
    from dkdbg.door.upstream import Upstream

    #: Reports what happens to the person or program at the terminal.
    Report = Callable[[Note], None]

#: Seconds from `initialize` to an attach; an editor sends it within milliseconds.
ATTACH_LIMIT = 60.0
#: Seconds that an editor has to close after the last message.
GOODBYE = 1.0
#: Seconds that a later editor waits for an earlier one to attach to a restarted container, so that it looks on again.
TURN_LIMIT = 3.0
MAX_BODY = 16 << 20


class Service:
    """What the front hands its clients on to.

    Args:
        upstreams: the targets, by unique names.
        port: the host's port.
        report: called from any thread.
        offer: gives a process a port of its own, and returns what to say about it; None for nothing.
    """

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        *,
        port: Callable[[], int],
        report: Report,
        offer: Callable[[Process], str] | None = None,
    ) -> None:
        self.upstreams = {each.name: each for each in upstreams}
        self.lock = threading.RLock()
        self.exchange = Exchange(tuple(self.upstreams), port)
        self.report = report
        self.offer = offer
        self.passages: set[Passage] = set()
        self.connections: list[Connection] = []

    def serve(self, client: socket.socket, first: bytes, parser: dap_frames.FrameParser) -> None:
        """Serve one client until its end. Raises OSError."""
        Connection(self, str(client.getpeername()[0]), client, parser).serve(first)

    def status(self) -> dict[str, Any]:
        """What GET /status answers."""
        with self.lock:
            editors = [each for each in self.connections if each.router.phase == "live"]
        targets = []
        for name, upstream in self.upstreams.items():
            seen = upstream.last
            held = [each for each in editors if each.router.legs[name].phase == "held"]
            targets.append(
                {
                    "target": str(upstream.address),
                    "name": name,
                    "endpoint": "{}:{}".format(*seen.endpoint) if seen and seen.endpoint else "",
                    "attached": bool(held),
                    "detail": "" if held or seen is None else seen.why,
                }
            )
        state = "attached" if any(each["attached"] for each in targets) else "waiting"
        return {"state": state, "client": bool(editors), "editors": len(editors), "targets": targets}

    def stop(self, reason: str) -> None:
        """Tell every editor that it is over."""
        with self.lock:
            connections, passages = list(self.connections), list(self.passages)
        for passage in passages:
            passage.end()
        for connection in connections:
            connection.act(lambda each=connection: each.router.stop(reason))  # type: ignore[misc]


class Connection:
    """One editor's connection, with its links to the targets."""

    def __init__(
        self, service: Service, address: str, client: socket.socket, parser: dap_frames.FrameParser
    ) -> None:
        self.router = Router(service.exchange, address)
        self._service = service
        self._client = client
        self._parser = parser
        self._outbox = wires.Outbox(client)
        self._links: dict[str, Link] = {}
        self._turns: dict[str, float] = {}
        self._branch: Branch | None = None
        self._over = False

    def serve(self, first: bytes) -> None:
        """Serve until the end; the client's socket is left to the caller."""
        with self._service.lock:
            self._service.connections.append(self)
        try:
            self._client.settimeout(ATTACH_LIMIT)
            self.act(lambda: self.router.from_client(first))
            if not self._over:
                wires.read_frames(self._client, self._parser, self._from_client)
            if self._branch is not None:
                self._pass_on(self._branch)
            if not self._over:
                wires.read_frames(self._client, self._parser, self._from_client)
        except (OSError, dap_frames.FrameError):
            wires.cut(self._client)
        finally:
            self.act(self.router.client_gone)
            with self._service.lock:
                self._service.connections.remove(self)
            for link in self._links.values():
                link.hang_up("stop")
        self._drain()

    def act(self, question: Callable[[], list[Action]]) -> None:
        """Ask the router and do what it says; from any thread."""
        with self._service.lock:
            for action in question():
                self._do(action)

    def _do(self, action: Action) -> None:
        match action:
            case ToClient(body):
                self._outbox.put(body)
            case ToUpstream(upstream, body):
                self._links[upstream].send(body)
            case Dial(upstream):
                self._links[upstream] = Link(self._service.upstreams[upstream], self)
                self._links[upstream].start()
            case HangUp(upstream, then):
                self._links[upstream].hang_up(then)
            case Branch():
                self._branch = action
            case Offer(process):
                text = self._service.offer(process) if self._service.offer else ""
                for said in self.router.say(text, "important") if text else ():
                    self._do(said)
            case Wait(seconds):
                timer = threading.Timer(seconds, self.act, (self.router.waited,))
                timer.daemon = True
                timer.start()
            case Note():
                self._service.report(action)
            case Close():
                self._over = True
                self._outbox.finish()

    def _from_client(self, body: bytes) -> bool:
        self.act(lambda: self.router.from_client(body))
        if self.router.phase not in {"new", "introduced"}:
            self._parser.allow(MAX_BODY)
            self._client.settimeout(None)
        return not self._over and self._branch is None

    def _pass_on(self, branch: Branch) -> None:
        """Connect the client to the process; to one that is gone as debugpy does."""
        self._branch = None
        seen = self._service.upstreams[branch.process.upstream].last
        try:
            if seen is None or seen.endpoint is None:
                raise ConnectionRefusedError
            upstream = wires.connect(seen.endpoint)
        except OSError:
            self.act(self.router.unbranch)
            return
        self._outbox.hand_over()
        self._client.settimeout(None)
        passage = Passage(self._client, self._parser, upstream, branch)
        with self._service.lock:
            self._service.passages.add(passage)
        try:
            passage.serve()
        finally:
            self._over = True
            with self._service.lock:
                self._service.passages.discard(passage)

    def _drain(self) -> None:
        """Read what the client still sends: to close before would reset the connection and lose our last answer."""
        end = time.monotonic() + GOODBYE
        with contextlib.suppress(OSError):
            while time.monotonic() < end:
                self._client.settimeout(max(0.01, end - time.monotonic()))
                if not self._client.recv(1 << 16):
                    return

    # -- what the links tell ------------------------------------------------------------------------------------

    def may_dial(self, upstream: str) -> bool:
        """Return whether every editor that was here before has attached there, or had the time to."""
        with self._service.lock:
            here = self._service.connections
            before = here[: here.index(self)] if self in here else []
            settled = all(each.router.is_settled(upstream) for each in before)
        since = self._turns.setdefault(upstream, time.monotonic())
        return settled or time.monotonic() - since > TURN_LIMIT

    def opened(self, upstream: str) -> None:
        """There is a connection."""
        self._turns.pop(upstream, None)
        self.act(lambda: self.router.opened(upstream))

    def received(self, upstream: str, body: bytes) -> None:
        """A message has come."""
        self.act(lambda: self.router.from_upstream(upstream, body))

    def absent(self, upstream: str, why: str) -> None:
        """There is no connection to be had."""
        self._turns.pop(upstream, None)
        self.act(lambda: self.router.absent(upstream, why))

    def lost(self, upstream: str) -> None:
        """The connection has ended."""
        self.act(lambda: self.router.lost(upstream))
