"""One client's connection to the attach proxy, from its first request to its end."""

from __future__ import annotations

import select
import socket
import threading
from typing import TYPE_CHECKING

from dkdbg.agent import sockets
from dkdbg.agent.dap import frames
from dkdbg.attach import wires
from dkdbg.attach.child_proxy import ChildProxy
from dkdbg.attach.editor import Editor

if TYPE_CHECKING:
    from collections.abc import Callable

    from dkdbg.attach.actions import Branch, Offer, Process
    from dkdbg.attach.switchboard import Switchboard

#: Timeout in seconds from `initialize` to the attach, which an editor sends within milliseconds.
ATTACH_TIMEOUT_S = 60.0
#: Seconds after the last message for the editor to close its connection; then the proxy closes it.
CLOSE_TIMEOUT_S = 1.0
MAX_BODY_BYTES = 16 << 20


class Connection(Editor):
    """One client's connection, to the shared port or to the port of a single process.

    Args:
        client: the client's socket. parser: holds the data received after the first request.
        slot: slot of the port, if the port belongs to a single process; None on the shared port.
    """

    def __init__(
        self,
        board: Switchboard,
        client: socket.socket,
        parser: frames.FrameParser,
        slot: Slot | None = None,
    ) -> None:
        super().__init__(board, str(client.getpeername()[0]), pinned=slot is not None)
        self._client = client
        self._parser = parser
        self._slot = slot
        self._outbox = wires.Outbox(client)
        self._branch: Branch | None = None
        self._over = False

    def serve(self, first: bytes) -> None:
        """Serve until the end; the caller closes the client's socket."""
        self.join()
        try:
            self._client.settimeout(ATTACH_TIMEOUT_S)
            self.act(lambda: self.router.from_client(first))
            while not self._over:
                for body in frames.received(self._client.recv, self._parser):
                    if not self._from_client(body):
                        break
                if self._slot is not None and self.router.phase == "expecting":
                    self._expect(self._slot)
                if self._branch is None:
                    break
                self._pass_on(self._branch)
        except (OSError, frames.FrameError):
            sockets.shut(self._client)
        finally:
            self.leave()
        sockets.drain(self._client, CLOSE_TIMEOUT_S)

    def to_client(self, body: bytes) -> None:
        """Send a message to the client."""
        self._outbox.put(body)

    def wait_for_room(self) -> None:
        """See `Editor.wait_for_room`."""
        self._outbox.wait_for_room()

    def close(self) -> None:
        """Close the connection; messages already sent still arrive."""
        self._over = True
        self._outbox.finish()

    def branch(self, branch: Branch) -> None:
        """Turn the connection into a child session, in the thread that reads from the client."""
        self._branch = branch

    def offer(self, offer: Offer) -> None:
        """Print the port at which the client can attach to a process."""
        text = self.board.offer(offer.process)
        for action in self.router.say(text, "important") if text and offer.say else ():
            self._do(action)

    def _from_client(self, body: bytes) -> bool:
        self.act(lambda: self.router.from_client(body))
        if self.router.phase not in {"new", "initialized"}:
            self._parser.allow(MAX_BODY_BYTES)
            self._client.settimeout(None)
        return not self._over and self._branch is None and self.router.phase != "expecting"

    def _expect(self, slot: Slot) -> None:
        """Wait for the slot's process, then attach to it; give up if the client leaves or the targets refuse."""
        is_answered = False
        arrived = select.poll()  # not select.select: with many processes more than 1,024 files are open
        arrived.register(self._client, select.POLLIN)
        while (process := slot.wait()) is None:
            if not is_answered:
                is_answered = True
                self.act(lambda: self.router.say(f"waiting for {slot.label}"))
            if reason := slot.refusal():
                self.act(lambda: self.router.stop(reason))
                return
            if arrived.poll(0) and not self._client.recv(1, socket.MSG_PEEK):
                return
        self.act(lambda: self.router.branch(process.number))

    def _pass_on(self, branch: Branch) -> None:
        """Connect the client to the process; if the process has ended, answer as debugpy does."""
        self._branch = None
        seen = self.board.upstreams[branch.process.upstream].last
        try:
            if seen is None or seen.endpoint is None:
                raise ConnectionRefusedError
            upstream, owned = wires.connect(seen.endpoint)
        except OSError:
            self.act(self.router.unbranch)
            return
        self._outbox.hand_over()
        self._client.settimeout(None)
        target = self.board.upstreams[branch.process.upstream].target
        child_proxy = ChildProxy(self._client, self._parser, upstream, branch, target, must_prove=not owned)
        with self.board.lock:
            self.board.child_proxies.add(child_proxy)
        try:
            child_proxy.serve()
        finally:
            self._over = True
            with self.board.lock:
                self.board.child_proxies.discard(child_proxy)
            if self._slot is not None and not child_proxy.begun:
                self._slot.gone(branch.process)


class Slot:
    """One port and its current process.

    Args:
        is_known: returns whether a process still exists at the target.
        refusal: returns the one-line reason if the targets refuse to announce processes; otherwise an empty string.

    Attributes:
        label: name of the expected process.
        clients: number of clients on the port.
    """

    def __init__(
        self, label: str, port: int, *, is_known: Callable[[Process], bool], refusal: Callable[[], str]
    ) -> None:
        self.label = label
        self.clients = 0
        self.refusal = refusal
        self.port = port
        self._is_known = is_known
        self._changed = threading.Condition()
        self._process: Process | None = None

    def put(self, process: Process) -> None:
        """Put another process on the port."""
        with self._changed:
            self._process, self.label = process, process.name
            self._changed.notify_all()

    def gone(self, process: Process) -> None:
        """Remove an ended process: the next client waits for another one."""
        with self._changed:
            if self._process is process:
                self._process = None

    def wait(self) -> Process | None:
        """Return the process; wait up to 0.2 s for it, then return None."""
        with self._changed:
            if self._process is not None and not self._is_known(self._process):
                self._process = None
            self._changed.wait_for(lambda: self._process is not None, 0.2)
            return self._process
