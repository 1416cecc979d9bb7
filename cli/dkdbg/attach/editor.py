"""A router with its links to the targets: base of an editor's connection and of the headless editor."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from dkdbg.attach.actions import Branch, Close, Dial, HangUp, Look, Note, Offer, ToClient, ToUpstream, Wait
from dkdbg.attach.link import Link
from dkdbg.attach.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable

    from dkdbg.attach.actions import Action
    from dkdbg.attach.switchboard import Switchboard

#: Seconds that a later editor waits for an earlier one to attach to a restarted container, so that it stays an observer.
TURN_TIMEOUT_S = 10.0


class Editor:
    """Carries out the actions of its router.

    Args:
        address: the client's. pinned: the client came by the port of a single process.
    """

    def __init__(self, board: Switchboard, address: str, *, pinned: bool = False) -> None:
        self.board = board
        self.router = Router(board.registry, address, pinned=pinned)
        self._links: dict[str, Link] = {}
        self._turns: dict[str, float] = {}

    def act(self, question: Callable[[], list[Action]]) -> None:
        """Call the router and carry out its actions; thread-safe."""
        with self.board.lock:
            for action in question():
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
            case Look(seconds):
                self._ask_after(seconds, self.router.look)
            case Note():
                self.board.report(action)
            case Close():
                self.close()

    def _ask_after(self, seconds: float, question: Callable[[], list[Action]]) -> None:
        timer = threading.Timer(seconds, self.act, (question,))
        timer.daemon = True
        timer.start()

    # -- events of the links ------------------------------------------------------------------------------------

    def may_dial(self, upstream: str) -> bool:
        """Tell whether every earlier editor has attached there, or had the time to."""
        with self.board.lock:
            here = self.board.editors
            before = here[: here.index(self)] if self in here else []
            settled = all(each.router.is_settled(upstream) for each in before)
        since = self._turns.setdefault(upstream, time.monotonic())
        return settled or time.monotonic() - since > TURN_TIMEOUT_S

    def opened(self, upstream: str, *, must_prove: bool) -> None:
        """Handle a new connection."""
        self._turns.pop(upstream, None)
        found = self.board.upstreams[upstream].target.deadlines()
        self.act(lambda: self.router.opened(upstream, must_prove=must_prove, deadlines=found))

    def received(self, upstream: str, body: bytes) -> None:
        """Handle a message; return when the next one may arrive."""
        self.act(lambda: self.router.from_upstream(upstream, body))
        self.wait_for_room()

    def wait_for_room(self) -> None:
        """Wait until the client has read most messages: throttles a target that floods it."""

    def absent(self, upstream: str, why: str) -> None:
        """Handle an unavailable upstream."""
        self._turns.pop(upstream, None)
        self.act(lambda: self.router.absent(upstream, why))

    def lost(self, upstream: str) -> None:
        """Handle the end of a connection."""
        self.act(lambda: self.router.lost(upstream))
