"""One port per process, for clients that open no child sessions: rank r is on the base port + r.

While a client is on one of these ports, a keeper holds a root session with each target, so that processes join; a
process waits at its start for its client as long as DKDBG_JOIN_DEADLINE says where it runs, then it goes on.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

from dkdbg.agent.dap import frames, messages
from dkdbg.agent.front import front, peers
from dkdbg.door.actions import Note
from dkdbg.door.party import Party
from dkdbg.door.service import Connection
from dkdbg.door.upstream import is_whole

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from dkdbg.door.actions import Branch, Offer, Process
    from dkdbg.door.service import Service

HOST = "127.0.0.1"
DEFAULT_BASE = 6000
#: Processes that are no ranks are on the ports from here on, after the base.
AFTER_RANKS = 100
#: Ports that are open before any process is known, so that a client can be there first.
FIRST_RANKS = 8
#: Processes without a rank that get a port; their order is that of their appearance.
MAX_OTHERS = 64
#: Seconds between two looks at processes that nobody debugs.
INTERVAL = 1.0
#: What is expected at the first port of the others.
_OTHER = "the first process without a rank"
_NO_LIST = (
    "it tells its processes only to those who show its token: DKDBG_TOKEN is missing here, or is another one"
)
_RANK = re.compile(r"(?:.*: )?rank (\d+) \(")


class Slot:
    """One port and the process that is on it now.

    Args:
        is_known: whether a process is there still, as far as its target says.
        refusal: why the targets announce no process to us, in one line; empty while they do or may.

    Attributes:
        label: what is expected there.
    """

    def __init__(
        self, label: str, port: int, *, is_known: Callable[[Process], bool], refusal: Callable[[], str]
    ) -> None:
        self.label = label
        self.refusal = refusal
        self.port = port
        self._is_known = is_known
        self._changed = threading.Condition()
        self._process: Process | None = None

    def put(self, process: Process) -> None:
        """Another process is there from now on."""
        with self._changed:
            self._process, self.label = process, process.name
            self._changed.notify_all()

    def gone(self, process: Process) -> None:
        """The process was not there any more: the next client waits for another one."""
        with self._changed:
            if self._process is process:
                self._process = None

    def wait(self, seconds: float) -> Process | None:
        """Return the process as soon as there is one, None when there is none in time."""
        with self._changed:
            if self._process is not None and not self._is_known(self._process):
                self._process = None
            self._changed.wait_for(lambda: self._process is not None, seconds)
            return self._process


class Ports:
    """Opens ports as processes appear. `base` is where the ranks begin."""

    def __init__(self, service: Service, base: int, *, log: Callable[[str], None]) -> None:
        self._service = service
        self._base = base
        self._log = log
        self._lock = service.lock  # one for both: each calls the other
        self._slots: dict[str, Slot] = {}
        self._taken: set[int] = set()
        self._fronts: list[front.Front] = []
        self._clients = 0
        self._keeper: Keeper | None = None
        self._stopped = threading.Event()

    def open_first(self) -> None:
        """Open the ports of the first ranks and of the first other process, and look for processes from now on."""
        for rank in range(FIRST_RANKS):
            self._open(f"rank {rank}", self._base + rank)
        self._open(_OTHER, self._next(None))
        threading.Thread(target=self._look, name="dkdbg ports", daemon=True).start()

    def stop(self) -> None:
        """Close all ports."""
        self._stopped.set()
        with self._lock:
            fronts, keeper = list(self._fronts), self._keeper
        if keeper is not None:
            keeper.leave()
        for each in fronts:
            each.stop()

    def offer(self, process: Process) -> str:
        """Put a process on its port and return where that is, in words; empty when it gets none."""
        slot = self._slot_of(process.name)
        if slot is None:
            return ""
        slot.put(process)
        return f"{process.name}: attach to {HOST}:{slot.port}"

    def _slot_of(self, name: str) -> Slot | None:
        found = _RANK.match(name)
        with self._lock:
            key = f"rank {found.group(1)}" if found and len(self._service.upstreams) == 1 else name
            slot = self._slots.get(key)
            if slot is None and not found:
                slot = self._slots.pop(_OTHER, None)
            fresh = slot is None
            if slot is None:
                slot = self._open(key, self._next(found))
            if slot is not None:
                self._slots[key] = slot
                if fresh or slot.label != name:
                    self._service.report(Note("port", f"{name}: attach to {HOST}:{slot.port}"))
                slot.label = name
            return slot

    def _next(self, rank: re.Match[str] | None) -> int | None:
        wanted = self._base + int(rank.group(1)) if rank else 0
        if rank and int(rank.group(1)) < AFTER_RANKS and wanted not in self._taken:
            return wanted
        others = range(self._base + AFTER_RANKS, self._base + AFTER_RANKS + MAX_OTHERS)
        return next((port for port in others if port not in self._taken), None)

    def _open(self, key: str, port: int | None) -> Slot | None:
        """Listen for a process; the next port of the others when this one is taken."""
        while port is not None and port < 65536:
            self._taken.add(port)
            slot = Slot(key, port, is_known=self._is_known, refusal=self._refusal)
            try:
                listening = front.Front(
                    HOST, port, serve=lambda *client, slot=slot: self._serve(slot, *client),
                    ready=lambda: True, status=self._service.status, allow=peers.AllowList(), log=self._log,
                )  # fmt: skip
            except OSError:
                port = self._next(None)
                continue
            self._slots[key] = slot
            self._fronts.append(listening)
            listening.start()
            return slot
        return None

    def _is_known(self, process: Process) -> bool:
        return self._service.exchange.find(process.number) is process

    def _refusal(self) -> str:
        with self._lock:
            return self._keeper.refusal if self._keeper is not None else ""

    def _serve(self, slot: Slot, client: socket.socket, first: bytes, parser: frames.FrameParser) -> None:
        self._come()
        try:
            Connection(self._service, client, parser, slot).serve(first)
        finally:
            self._go()

    def _come(self) -> None:
        with self._lock:
            self._clients += 1
            others = [each for each in self._service.parties if each.is_attached and each is not self._keeper]
            if not others and (self._keeper is None or self._keeper.is_over):
                former, self._keeper = self._keeper, Keeper(self._service, self)
                if former is not None:
                    former.leave()
                self._keeper.begin()

    def _go(self) -> None:
        with self._lock:
            self._clients -= 1
            keeper = self._keeper
            if self._clients or keeper is None:
                return
            self._keeper = None
        keeper.leave()

    def keeper_over(self) -> None:
        """The keeper's session was ended by an upstream: another one, as long as there are clients."""
        with self._lock:
            if self._clients and not self._stopped.is_set():
                former, self._keeper = self._keeper, Keeper(self._service, self)
                if former is not None:
                    former.leave()
                self._keeper.begin()

    def _look(self) -> None:
        """Open a port for each process that runs already, debugged or not."""
        refused: dict[str, str] = {}
        while not self._stopped.wait(INTERVAL):
            for name, upstream in self._service.upstreams.items():
                prefix = f"{name}: " if len(self._service.upstreams) > 1 else ""
                seen = upstream.look()
                if seen.agent and not is_whole(seen.record) and refused.get(name) != seen.agent:
                    refused[name] = seen.agent
                    self._service.report(Note("refused", _NO_LIST, name))
                for process in seen.record.get("processes", ()):
                    if process.get("name"):
                        self._slot_of(prefix + process["name"])


class Keeper(Party):
    """A client without a socket, which attaches to every target and opens no session."""

    def __init__(self, service: Service, ports: Ports) -> None:
        super().__init__(service, "")
        self._ports = ports
        self.is_over = False
        self.refusal = ""

    def begin(self) -> None:
        """Attach."""
        self.join()
        self._ask("initialize", {"clientID": "dkdbg-ports", "adapterID": "debugpy", "pathFormat": "path"})
        token = {"dkdbgToken": self.service.token} if self.service.token else {}
        self._ask("attach", {"justMyCode": True, **token})

    def to_client(self, body: bytes) -> None:
        """Configure the session as soon as that is asked for."""
        if b'"success":false' in body.replace(b" ", b""):
            self.refusal = str(frames.decode(body).get("message") or "refused").removeprefix("dkdbg: ")
        elif b'"initialized"' in body:
            threading.Thread(target=self._ask, args=("configurationDone", {}), daemon=True).start()
        elif b'"terminated"' in body and not self.is_over:
            self.is_over = True
            threading.Timer(0.2, self._ports.keeper_over).start()

    def close(self) -> None:
        """There is nothing to close."""
        self.is_over = True

    def branch(self, branch: Branch) -> None:
        """It opens no session."""

    def offer(self, offer: Offer) -> None:
        """Put the process on its port."""
        self._ports.offer(offer.process)

    def _ask(self, command: str, arguments: dict[str, object]) -> None:
        self.act(lambda: self.router.from_client(messages.request(1, command, arguments)))
