"""A router with its links to the targets: base of an editor's connection and of the headless editor.

A link is an editor's root connection to one agent; it is reopened after each loss, as long as it is needed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Literal

from dkdbg.agent import sockets
from dkdbg.agent.dap import frames
from dkdbg.attach import upstream as upstreams
from dkdbg.attach import wires
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
)
from dkdbg.attach.router import Router

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from dkdbg.attach.actions import Action
    from dkdbg.attach.switchboard import Switchboard
    from dkdbg.attach.upstream import Seen, Upstream

#: Seconds for an earlier editor to attach to a restarted container before a later one does, so that the earlier one
#: becomes the controller again.
TURN_TIMEOUT_S = 10.0
#: Seconds for an upstream to close its connection after the proxy has shut it down for writing.
CLOSE_TIMEOUT_S = 1.5
#: Maximum bytes of a message in a root session. Only a long line of the program's output makes a message long.
MAX_BODY_BYTES = 8 << 20
#: Seconds to pause before reconnecting after the third short connection in a row, once more for each further one;
#: maximum.
RETRY_PAUSE_S, MAX_RETRY_PAUSE_S = 1.0, 5.0


class Editor:
    """Carries out the actions of its router.

    Args:
        address: the client's address. pinned: whether the client uses the port of a single process.
    """

    def __init__(self, board: Switchboard, address: str, *, pinned: bool = False) -> None:
        self.board = board
        self.router = Router(board.registry, address, pinned=pinned)
        self._links: dict[str, Link] = {}
        self._turns: dict[str, float] = {}

    def act(self, make_actions: Callable[[], list[Action]]) -> None:
        """Call the router and carry out its actions; thread-safe."""
        with self.board.lock:
            for action in make_actions():
                self._do(action)

    @property
    def is_attached(self) -> bool:
        """Return whether the editor has, or is about to have, a root session."""
        return self.router.phase in {"arriving", "configuring", "live"}

    def join(self) -> None:
        """Join the queue of editors that attach to restarted containers."""
        with self.board.lock:
            self.board.editors.append(self)

    def leave(self) -> None:
        """Close all links."""
        self.act(self.router.client_gone)
        with self.board.lock:
            if self in self.board.editors:
                self.board.editors.remove(self)
        for link in self._links.values():
            link.hang_up("stop")

    # -- actions for the client ---------------------------------------------------------------------------------

    def to_client(self, body: bytes) -> None:
        """Send a message to the client."""
        raise NotImplementedError

    def close(self) -> None:
        """End the client's connection."""
        raise NotImplementedError

    def branch(self, branch: Branch) -> None:
        """Turn the client's connection into a child session."""
        raise NotImplementedError

    def offer(self, offer: Offer) -> None:
        """Give a process its own port."""
        raise NotImplementedError

    def _do(self, action: Action) -> None:
        match action:
            case ToClient(body):
                self.to_client(body)
            case ToUpstream(upstream, body):
                self._links[upstream].send(body)
            case Dial(upstream):
                self._links[upstream] = Link(self.board.upstreams[upstream], self)
                self._links[upstream].start()
            case HangUp(upstream, then):
                self._links[upstream].hang_up(then)
            case Branch():
                self.branch(action)
            case Offer():
                self.offer(action)
            case Wait(seconds):
                self._ask_after(seconds, self.router.waited)
            case RunBarrier(seconds):
                self._ask_after(seconds, self.router.barrier_due)
            case Announce():
                self.board.report(action)
            case Close():
                self.close()

    def _ask_after(self, seconds: float, make_actions: Callable[[], list[Action]]) -> None:
        timer = threading.Timer(seconds, self.act, (make_actions,))
        timer.daemon = True
        timer.start()

    # -- events of the links ------------------------------------------------------------------------------------

    def may_dial(self, upstream: str) -> bool:
        """Return whether every earlier editor has attached to the upstream, or had enough time to attach."""
        with self.board.lock:
            editors = self.board.editors
            before = editors[: editors.index(self)] if self in editors else []
            settled = all(each.router.is_settled(upstream) for each in before)
        since = self._turns.setdefault(upstream, time.monotonic())
        return settled or time.monotonic() - since > TURN_TIMEOUT_S

    def opened(self, upstream: str, *, must_prove: bool) -> None:
        """Handle a new connection to an upstream, see `Router.opened`."""
        self._turns.pop(upstream, None)
        found = self.board.upstreams[upstream].target.deadlines()
        self.act(lambda: self.router.opened(upstream, must_prove=must_prove, deadlines=found))

    def received(self, upstream: str, body: bytes) -> None:
        """Handle a message; return when the client can take another one."""
        self.act(lambda: self.router.from_upstream(upstream, body))
        self.wait_for_room()

    def wait_for_room(self) -> None:
        """Wait until the client has read most messages, to throttle a target that floods it."""

    def absent(self, upstream: str, why: str) -> None:
        """Handle an unavailable upstream; `why` is the reason, as text."""
        self._turns.pop(upstream, None)
        self.act(lambda: self.router.absent(upstream, why))

    def lost(self, upstream: str) -> None:
        """Handle the end of a connection."""
        self.act(lambda: self.router.lost(upstream))


class Link:
    """An editor's root connection to one upstream, on its own thread from `start` to `hang_up`."""

    def __init__(self, upstream: Upstream, editor: Editor) -> None:
        self._upstream = upstream
        self._editor = editor
        self._lock = threading.Lock()
        self._over = False
        self._ended = threading.Event()
        self._agent = ""
        self._avoided = ""
        self._sock: socket.socket | None = None
        self._outbox: wires.Outbox | None = None

    def start(self) -> None:
        """Start the thread, which connects as soon as an attach would work."""
        threading.Thread(target=self._run, name=f"dkdbg link {self._upstream.name}", daemon=True).start()

    def send(self, body: bytes) -> None:
        """Send a message; without a connection, do nothing."""
        with self._lock:
            if self._outbox is not None:
                self._outbox.put(body)

    def hang_up(self, then: Literal["stop", "redial", "replaced"]) -> None:
        """Close the connection after pending messages; see `HangUp`."""
        with self._lock:
            if then == "stop":
                self._over = True
                self._ended.set()
            if then == "replaced":
                self._avoided = self._agent
            sock, outbox, self._outbox = self._sock, self._outbox, None
        if sock is not None and outbox is not None:
            outbox.finish()
            limit = threading.Timer(CLOSE_TIMEOUT_S, sockets.shut, (sock,))
            limit.daemon = True
            limit.start()

    def _run(self) -> None:
        name, failures = self._upstream.name, 0
        while not self._over:
            seen = self._upstream.poll()
            if not seen.agent:
                self._editor.absent(name, seen.why)
            elif seen.agent != self._avoided and self._editor.may_dial(name):
                began = time.monotonic()
                self._serve(seen)
                failures = failures + 1 if time.monotonic() - began < RETRY_PAUSE_S else 0
                if failures > 3:  # the first retries are quick, for an agent that was killed
                    self._ended.wait(min(MAX_RETRY_PAUSE_S, RETRY_PAUSE_S * (failures - 3)))
            self._upstream.changed.wait(upstreams.INTERVAL_S)

    def _serve(self, seen: Seen) -> None:
        name = self._upstream.name
        try:
            sock, is_own_user = wires.connect(seen.endpoint or ("", 0))
        except OSError:
            return
        with self._lock:
            if self._over:
                sock.close()
                return
            self._sock, self._outbox, self._agent = sock, wires.Outbox(sock), seen.agent
        self._editor.opened(name, must_prove=not is_own_user)
        parser = frames.FrameParser(max_body=MAX_BODY_BYTES)
        with contextlib.suppress(OSError, frames.FrameError):
            for body in frames.received(sock.recv, parser):
                self._editor.received(name, body)
        with self._lock:
            outbox, self._outbox, self._sock = self._outbox, None, None
        if outbox is not None:
            outbox.finish()
        sockets.shut(sock)
        sock.close()
        self._upstream.poke()
        self._editor.lost(name)
