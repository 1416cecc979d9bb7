"""One editor's root connection to one container's door; opened again after each loss, for as long as it is wanted."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Literal, Protocol

from dkdbg.agent.dap import frames
from dkdbg.attach import upstream as upstreams
from dkdbg.attach import wires

if TYPE_CHECKING:
    import socket

    from dkdbg.attach.upstream import Seen, Upstream

#: Seconds that an upstream has to close after we have ended our direction.
GOODBYE = 1.5
#: A root session says little; one line of a program's output may be long.
MAX_BODY = 8 << 20
#: Seconds until the next try after a connection that was over at once, as often as that happened; the longest such wait.
SHORT, LONGEST_PAUSE = 1.0, 5.0


class Owner(Protocol):
    """What a link tells, in its own thread."""

    def may_dial(self, upstream: str) -> bool:
        """Return whether it is this editor's turn."""

    def opened(self, upstream: str, *, must_prove: bool) -> None:
        """There is a connection; `must_prove`: to another user's process on this machine."""

    def received(self, upstream: str, body: bytes) -> None:
        """A message has come; return when the next one may."""

    def absent(self, upstream: str, why: str) -> None:
        """There is none to be had now; said at each look."""

    def lost(self, upstream: str) -> None:
        """The connection has ended."""


class Link:
    """Runs on a thread of its own from `start` to `hang_up`."""

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
        """Connect as soon as an attach would work."""
        threading.Thread(target=self._run, name=f"dkdbg link {self._upstream.name}", daemon=True).start()

    def send(self, body: bytes) -> None:
        """Send a message; without a connection nothing happens."""
        with self._lock:
            if self._outbox is not None:
                self._outbox.put(body)

    def hang_up(self, then: Literal["stop", "redial", "replaced"]) -> None:
        """Close the connection, after what was sent; see `HangUp`."""
        with self._lock:
            if then == "stop":
                self._over = True
                self._ended.set()
            if then == "replaced":
                self._avoided = self._agent
            sock, outbox, self._outbox = self._sock, self._outbox, None
        if sock is not None and outbox is not None:
            outbox.finish()
            limit = threading.Timer(GOODBYE, wires.cut, (sock,))
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
                failures = failures + 1 if time.monotonic() - began < SHORT else 0
                if failures > 3:  # an agent that was killed at once may be back at once, and not for ever
                    self._ended.wait(min(LONGEST_PAUSE, SHORT * (failures - 3)))
            self._upstream.changed.wait(upstreams.INTERVAL)

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
        parser = frames.FrameParser(max_body=MAX_BODY)
        with contextlib.suppress(OSError, frames.FrameError):
            wires.read_frames(sock, parser, self._received)
        with self._lock:
            outbox, self._outbox, self._sock = self._outbox, None, None
        if outbox is not None:
            outbox.finish()
        wires.cut(sock)
        sock.close()
        self._upstream.poke()
        self._owner.lost(name)

    def _received(self, body: bytes) -> bool:
        self._owner.received(self._upstream.name, body)
        return True
