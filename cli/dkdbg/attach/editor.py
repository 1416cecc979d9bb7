"""A router with its links to the targets: what an editor's connection and the keeper of the ports have in common."""

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

#: Seconds that a later editor waits for an earlier one to attach to a restarted container, so that it looks on again.
TURN_LIMIT = 10.0


class Editor:
    """Asks its router and does what it says.

    Args:
        address: where the client is. pinned: the client is to get one process, by a port of its own.
    """

    def __init__(self, board: Switchboard, address: str, *, pinned: bool = False) -> None:
        self.board = board
        self.router = Router(board.exchange, address, pinned=pinned)
        self._links: dict[str, Link] = {}
        self._turns: dict[str, float] = {}

    def act(self, question: Callable[[], list[Action]]) -> None:
        """Ask the router and do what it says; from any thread."""
        with self.board.lock:
            for action in question():
                self._do(action)

    @property
    def is_attached(self) -> bool:
        """Whether it has, or is about to have, a root session."""
        return self.router.phase in {"arriving", "configuring", "live"}

    def join(self) -> None:
        """Take a place in the row of those who attach to restarted containers."""
        with self.board.lock:
            self.board.editors.append(self)

    def leave(self) -> None:
        """Give up everything."""
        self.act(self.router.client_gone)
        with self.board.lock:
            if self in self.board.editors:
                self.board.editors.remove(self)
        for link in self._links.values():
            link.hang_up("stop")

    # -- what a client is to be told ----------------------------------------------------------------------------

    def to_client(self, body: bytes) -> None:
        """Send a message to the client."""
        raise NotImplementedError

    def close(self) -> None:
        """End the client's connection."""
        raise NotImplementedError

    def branch(self, branch: Branch) -> None:
        """Make the client's connection one process's."""
        raise NotImplementedError

    def offer(self, offer: Offer) -> None:
        """Give a process a port of its own."""
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

    # -- what the links tell ------------------------------------------------------------------------------------

    def may_dial(self, upstream: str) -> bool:
        """Return whether every editor that was here before has attached there, or had the time to."""
        with self.board.lock:
            here = self.board.editors
            before = here[: here.index(self)] if self in here else []
            settled = all(each.router.is_settled(upstream) for each in before)
        since = self._turns.setdefault(upstream, time.monotonic())
        return settled or time.monotonic() - since > TURN_LIMIT

    def opened(self, upstream: str, *, must_prove: bool) -> None:
        """There is a connection."""
        self._turns.pop(upstream, None)
        self.act(lambda: self.router.opened(upstream, must_prove=must_prove))

    def received(self, upstream: str, body: bytes) -> None:
        """A message has come; return when the next one may."""
        self.act(lambda: self.router.from_upstream(upstream, body))
        self.wait_for_room()

    def wait_for_room(self) -> None:
        """Return when the client has read most of what it was sent: a target that floods it is not read from meanwhile."""

    def absent(self, upstream: str, why: str) -> None:
        """There is no connection to be had."""
        self._turns.pop(upstream, None)
        self.act(lambda: self.router.absent(upstream, why))

    def lost(self, upstream: str) -> None:
        """The connection has ended."""
        self.act(lambda: self.router.lost(upstream))
