"""One port per process, for clients that open no child sessions: rank r is on the base port + r.

While a client is connected to one of these ports, a headless editor keeps a root session with each target, so that
processes join the debugger. A process for which a client waits stops before its first line until the breakpoints are
set. Other processes run at once.
"""

from __future__ import annotations

import re
import threading
from importlib import metadata
from typing import TYPE_CHECKING

from dkdbg.agent.contract import LOOPBACK
from dkdbg.agent.dap import frames, messages
from dkdbg.agent.proxy.listener import containers, listener, peers
from dkdbg.attach import from_targets, wires
from dkdbg.attach.actions import Announce, named
from dkdbg.attach.connection import Connection, Slot
from dkdbg.attach.editor import Editor

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from dkdbg.attach.actions import Branch, Offer, Process
    from dkdbg.attach.switchboard import Switchboard

DEFAULT_BASE = 6000
#: Offset, from the base port, of the ports for processes that are not ranks.
AFTER_RANKS = 100
#: Rank ports that are open before any process is known, so that a client can connect early.
FIRST_RANKS = 8
#: Maximum processes without a rank that get a port, in order of appearance.
MAX_OTHERS = 64
#: Seconds between two searches for running processes, whether or not a debugger is in them.
INTERVAL_S = 1.0
#: Label of the first port for processes without a rank, until such a process appears.
_OTHER = "the first process without a rank"
_NO_LIST = "it lists its processes only to clients with its token: DKDBG_TOKEN is missing here, or differs"
_RANK = re.compile(r"rank (\d{1,18})(?: |$)")


class Ports:
    """Opens ports as processes appear. `base` is the port of rank 0."""

    def __init__(self, board: Switchboard, base: int, *, log: Callable[[str], None]) -> None:
        self._board = board
        self._base = base
        self._log = log
        self._greeting = debugpy_version()
        self._lock = board.lock  # the same lock, because the two objects call each other
        self._slots: dict[str, Slot] = {}
        self._taken: set[int] = set()
        self._listeners: list[listener.Listener] = []
        self._clients = 0
        self._headless: HeadlessEditor | None = None
        self._stopped = threading.Event()

    def open_first(self) -> None:
        """Open the ports of the first ranks and of the first other process, and start to search for processes."""
        for rank in range(FIRST_RANKS):
            self._open(f"rank {rank}", self._base + rank)
        self._open(_OTHER, self._next(None))
        threading.Thread(target=self._follow, name="dkdbg ports", daemon=True).start()

    def stop(self) -> None:
        """Close all ports."""
        self._stopped.set()
        with self._lock:
            listeners, headless = list(self._listeners), self._headless
        if headless is not None:
            headless.leave()
        for each in listeners:
            each.stop()

    def offer(self, process: Process) -> str:
        """Assign a process to its port; return a line that names the port, empty if all ports are in use."""
        slot = self._slot_of(process.name)
        if slot is None:
            return ""
        slot.put(process)
        return f"{process.name}: attach to {LOOPBACK}:{slot.port}"

    def _offer_announced(self, process: Process) -> bool:
        self.offer(process)
        slot = self._slot_of(process.name)
        return slot is not None and slot.clients > 0

    def _slot_of(self, name: str) -> Slot | None:
        found = _RANK.match(name)
        with self._lock:
            key = f"rank {found.group(1)}" if found and len(self._board.upstreams) == 1 else name
            slot = self._slots.get(key)
            if slot is None and not found:
                slot = self._slots.pop(_OTHER, None)
            fresh = slot is None
            if slot is None:
                slot = self._open(key, self._next(found))
            if slot is not None:
                self._slots[key] = slot
                if fresh or slot.label != name:
                    self._board.report(Announce("port", f"{name}: attach to {LOOPBACK}:{slot.port}"))
                slot.label = name
            return slot

    def _next(self, rank: re.Match[str] | None) -> int | None:
        wanted = self._base + int(rank.group(1)) if rank else 0
        if rank and int(rank.group(1)) < AFTER_RANKS and wanted not in self._taken:
            return wanted
        others = range(self._base + AFTER_RANKS, self._base + AFTER_RANKS + MAX_OTHERS)
        return next((port for port in others if port not in self._taken), None)

    def _open(self, key: str, port: int | None) -> Slot | None:
        """Listen on `port`; if it is taken, on the next free port above the ranks' ports.

        Return None if no port is free.
        """
        while port is not None and port < 65536:
            self._taken.add(port)
            slot = Slot(key, port, is_known=self._is_known, refusal=self._refusal)
            try:
                listening = listener.Listener(
                    LOOPBACK, port, serve=lambda *client, slot=slot: self._serve(slot, *client),
                    ready=lambda: True, status=self._board.status, allow=peers.AllowList(), log=self._log,
                    admit=wires.owner_refusal, outsiders=containers.WAY_OUT, greeting=self._greeting,
                )  # fmt: skip
            except OSError:
                port = self._next(None)
                continue
            self._slots[key] = slot
            self._listeners.append(listening)
            listening.start()
            return slot
        return None

    def _is_known(self, process: Process) -> bool:
        return self._board.registry.find(process.number) is process

    def _refusal(self) -> str:
        with self._lock:
            return self._headless.refusal if self._headless is not None else ""

    def _serve(self, slot: Slot, client: socket.socket, first: bytes, parser: frames.FrameParser) -> None:
        self._client_opened(slot)
        try:
            Connection(self._board, client, parser, slot).serve(first)
        finally:
            self._client_closed(slot)

    def _client_opened(self, slot: Slot) -> None:
        with self._lock:
            self._clients += 1
            slot.clients += 1
            others = [each for each in self._board.editors if each.is_attached and each is not self._headless]
            if not others and (self._headless is None or self._headless.is_over):
                self._renew_headless()

    def _renew_headless(self) -> None:
        former = self._headless
        self._headless = HeadlessEditor(self._board, offer=self._offer_announced, over=self._headless_over)
        if former is not None:
            former.leave()
        self._headless.begin()

    def _client_closed(self, slot: Slot) -> None:
        with self._lock:
            self._clients -= 1
            slot.clients -= 1
            headless = self._headless
            if self._clients or headless is None:
                return
            self._headless = None
        headless.leave()

    def _headless_over(self) -> None:
        """Replace the headless editor after an upstream has ended its session, if clients are still connected."""
        with self._lock:
            if self._clients and not self._stopped.is_set():
                self._renew_headless()

    def _follow(self) -> None:
        """Open a port for each running process, debugged or not."""
        refused: dict[str, str] = {}
        while not self._stopped.wait(INTERVAL_S):
            for name, upstream in self._board.upstreams.items():
                several = len(self._board.upstreams) > 1
                seen = upstream.poll()
                if seen.record is None or not seen.agent:
                    continue
                if seen.record.processes is None and refused.get(name) != seen.agent:
                    refused[name] = seen.agent
                    self._board.report(Announce("refused", _NO_LIST, name))
                for process in seen.record.processes or ():
                    if process.name:
                        called = from_targets.name(process.name)
                        self._slot_of(named(name, called, self._board.upstreams) if several else called)


def debugpy_version() -> str:
    """Return debugpy's version on this machine, for the greeting; a target may have another version.

    Empty if its metadata is missing; then the port sends no greeting.
    """
    try:
        return metadata.version("debugpy")
    except metadata.PackageNotFoundError:
        return ""


class HeadlessEditor(Editor):
    """An editor without a socket, which attaches to every target and opens no child session.

    Args:
        offer: called with an announced process; returns whether a client waits for it. Other processes are resumed:
            they would otherwise wait at their start for DKDBG_JOIN_DEADLINE seconds.
        over: called when an upstream has ended its session.

    Attributes:
        is_over: whether its session has ended.
        refusal: one-line reason if the targets refuse to announce processes to it; otherwise empty.
    """

    def __init__(
        self, board: Switchboard, *, offer: Callable[[Process], bool], over: Callable[[], None]
    ) -> None:
        super().__init__(board, "")
        self._offer = offer
        self._over = over
        self.is_over = False
        self.refusal = ""

    def begin(self) -> None:
        """Attach to all targets."""
        self.join()
        self._ask("initialize", {"clientID": "dkdbg-ports", "adapterID": "debugpy", "pathFormat": "path"})
        token = {"dkdbgToken": self.board.token} if self.board.token else {}
        self._ask("attach", {"justMyCode": True, **token})

    def to_client(self, body: bytes) -> None:
        """Handle a message: send configurationDone after `initialized`, and record a refusal or the end."""
        message = frames.decode(body)
        text = message.get("event")
        if message.get("type") == "response" and message.get("success") is not True:
            self.refusal = str(message.get("message") or "refused").removeprefix("dkdbg: ")
        elif text == "initialized":
            threading.Thread(target=self._ask, args=("configurationDone", {}), daemon=True).start()
        elif text == "terminated" and not self.is_over:
            self.is_over = True
            threading.Timer(0.2, self._over).start()

    def close(self) -> None:
        """Record the end: a headless editor has no connection to close."""
        self.is_over = True

    def branch(self, branch: Branch) -> None:
        """Do nothing: it opens no child session."""

    def offer(self, offer: Offer) -> None:
        """Put the process on its port, and resume it if no client waits at that port."""
        if not self._offer(offer.process):
            self.act(lambda: self.router.release(offer.process))

    def _ask(self, command: str, arguments: dict[str, object]) -> None:
        self.act(lambda: self.router.from_client(messages.request(1, command, arguments)))
