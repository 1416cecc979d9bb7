"""One editor's root connection to one agent; opened again after each loss, as long as it is needed."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Literal, Protocol

from dkdbg.agent import sockets
from dkdbg.agent.dap import frames
from dkdbg.attach import upstream as upstreams
from dkdbg.attach import wires

if TYPE_CHECKING:
    import socket

    from dkdbg.attach.upstream import Seen, Upstream

#: Seconds that an upstream has to close after the proxy has ended its direction.
CLOSE_TIMEOUT_S = 1.5
#: A root session has little traffic, but a line of a program's output may be long.
MAX_BODY_BYTES = 8 << 20
#: Seconds until the next attempt after a connection that ended at once, times the number of such; maximum of that.
RETRY_PAUSE_S, MAX_RETRY_PAUSE_S = 1.0, 5.0


class Owner(Protocol):
    """Receiver of a link's events, in the link's thread."""

    def may_dial(self, upstream: str) -> bool:
        """Tell whether it is this editor's turn."""

    def opened(self, upstream: str, *, must_prove: bool) -> None:
        """Handle a new connection; `must_prove`: to another user's process on this machine."""

    def received(self, upstream: str, body: bytes) -> None:
        """Handle a message; return when the next one may arrive."""

    def absent(self, upstream: str, why: str) -> None:
        """Handle an unavailable upstream; called at each look."""

    def lost(self, upstream: str) -> None:
        """Handle the end of the connection."""


class Link:
    """Runs on its own thread from `start` to `hang_up`."""

    def __init__(self, upstream: Upstream, owner: Owner) -> None:
        self._upstream = upstream
        self._owner = owner
        self._lock = threading.Lock()
        self._over = False
        self._ended = threading.Event()
        self._agent = ""
        self._avoided = ""
        self._sock: socket.socket | None = None
        self._outbox: wires.Outbox | None = None

    def start(self) -> None:
        """Connect once an attach would work."""
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
            seen = self._upstream.look()
            if not seen.agent:
                self._owner.absent(name, seen.why)
            elif seen.agent != self._avoided and self._owner.may_dial(name):
                began = time.monotonic()
                self._serve(seen)
                failures = failures + 1 if time.monotonic() - began < RETRY_PAUSE_S else 0
                if failures > 3:  # retry soon for an agent that was killed, but not forever
                    self._ended.wait(min(MAX_RETRY_PAUSE_S, RETRY_PAUSE_S * (failures - 3)))
            self._upstream.changed.wait(upstreams.INTERVAL_S)

    def _serve(self, seen: Seen) -> None:
        name = self._upstream.name
        try:
            sock, is_ours = wires.connect(seen.endpoint or ("", 0))
        except OSError:
            return
        with self._lock:
            if self._over:
                sock.close()
                return
            self._sock, self._outbox, self._agent = sock, wires.Outbox(sock), seen.agent
        self._owner.opened(name, must_prove=not is_ours)
        parser = frames.FrameParser(max_body=MAX_BODY_BYTES)
        with contextlib.suppress(OSError, frames.FrameError):
            for body in frames.received(sock.recv, parser):
                self._owner.received(name, body)
        with self._lock:
            outbox, self._outbox, self._sock = self._outbox, None, None
        if outbox is not None:
            outbox.finish()
        sockets.shut(sock)
        sock.close()
        self._upstream.poke()
        self._owner.lost(name)
