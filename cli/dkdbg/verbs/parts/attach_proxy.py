"""Attach proxy of some targets: `dkdbg attach` keeps it open, `dkdbg run --attach` opens it beside a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from dkdbg import hints
from dkdbg.agent.contract import LOOPBACK
from dkdbg.agent.proxy.listener import containers, listener, peers
from dkdbg.attach import wires
from dkdbg.attach.connection import Connection
from dkdbg.attach.plain_debugpy import PlainPort, greeted, leave
from dkdbg.attach.ports import DEFAULT_BASE, Ports, debugpy_version
from dkdbg.attach.switchboard import Switchboard
from dkdbg.attach.upstream import ChangeWatch, Upstream
from dkdbg.errors import EXIT_CONFLICT, EXIT_USAGE, DkdbgError
from dkdbg.targets.docker.ports import free_port

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable, Sequence

    from dkdbg.attach.actions import Announce
    from dkdbg.attach.plain_debugpy import Greeted
    from dkdbg.core.target import Target

#: Maximum seconds for editors to close their sessions at the end.
CLOSE_TIMEOUT_S = 1.5


class Reporting(Protocol):
    """Receiver of events. Thread-safe."""

    def announce(self, announcement: Announce) -> None:
        """Report a message of the attach proxy's router."""

    def line(self, text: str) -> None:
        """Report a line for the user."""

    def event(self, kind: str, text: str, *, prefix: str = "", **more: object) -> None:
        """Report an event that programs may use."""


class AttachProxy:
    """One port of 127.0.0.1 that editors attach to, and the targets behind it, which `close` closes.

    Args:
        port: if taken, the next free one is used.
        base: first of the ports, one for each process; None: only processes of an editor that opens no child
            sessions get a port.
        ranks: default ranks for editors that choose none; empty for the ranks that the targets were started with.
        continues: default effect of continuing one rank on the others, `all` or `one`.
        token: token for agents that list their processes only to clients that prove knowledge of it.
        proves: whether to use it also for editors that send no token, so that every client of the port can attach.

    Raises:
        DkdbgError: a target is named twice, or no port is free.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        report: Reporting,
        *,
        port: int,
        base: int | None = None,
        ranks: str = "",
        continues: str = "",
        token: str = "",
        proves: bool = False,
    ) -> None:
        self.upstreams = [Upstream(each, name, token) for each, name in _named(targets)]
        self._board = Switchboard(
            self.upstreams, port=lambda: self._listener.port, report=report.announce, token=token
        )
        self._board.registry.ranks, self._board.registry.continues = ranks, continues
        self._token = token
        self._board.registry.token = token if proves else ""
        self._offers_all = base is not None
        self._extra = Ports(self._board, base or DEFAULT_BASE, log=report.line)
        self._board.offer = self._extra.offer
        self._changes = ChangeWatch(self.upstreams, report.line)
        self._listener = listen(
            port, report, self._board.status,
            lambda client, first, parser: Connection(self._board, client, parser).serve(first),
        )  # fmt: skip

    @property
    def port(self) -> int:
        """Port that editors attach to."""
        return self._listener.port

    def start(self) -> None:
        """Accept editors."""
        self._listener.start()
        if self._offers_all:
            self._board.registry.offers_all = True
            self._extra.open_first()

    def add(self, target: Target) -> Upstream:
        """Add a target with a unique label; thread-safe."""
        upstream = Upstream(target, target.label, self._token)
        self.upstreams = [*self.upstreams, upstream]
        self._board.add(upstream)
        return upstream

    def follow(self) -> None:
        """Follow changes of the targets."""
        self._changes.start()

    def close(self) -> None:
        """End the sessions, and close all targets."""
        self._board.stop("dkdbg attach was ended")
        self._listener.drain(CLOSE_TIMEOUT_S)
        self._listener.stop()
        self._extra.stop()
        self._changes.stop()
        for upstream in self.upstreams:
            upstream.close()
            upstream.target.close()


def _named(targets: Sequence[Target]) -> list[tuple[Target, str]]:
    """Return each target with a unique name: its label, or its whole address if two labels are equal."""
    addresses = [str(each.address) for each in targets]
    if twice := next((each for each in addresses if addresses.count(each) > 1), ""):
        raise DkdbgError(f"{twice} is named twice", hint="name each target once")
    labels = [each.label for each in targets]
    return [
        (each, label if labels.count(label) == 1 else str(each.address))
        for each, label in zip(targets, labels, strict=True)
    ]


def listen(
    port: int, report: Reporting, status: Callable[[], dict[str, Any]], serve: listener.Serve
) -> listener.Listener:
    """Listen for editors on a port of 127.0.0.1, or on the next free one. Raises DkdbgError: no port is free."""
    for _ in range(20):
        chosen = free_port(port, own_port=None)
        try:
            listening = listener.Listener(
                LOOPBACK, chosen, serve=serve, ready=lambda: True, status=status, allow=peers.AllowList(), log=report.line,
                admit=wires.owner_refusal, outsiders=containers.WAY_OUT, greeting=debugpy_version(),
            )  # fmt: skip
        except OSError:  # another process has taken the port
            continue
        if chosen != port:
            report.event("port", f"port {port} is taken; using {chosen}", port=chosen)
        return listening
    raise DkdbgError(
        f"cannot listen on {LOOPBACK}:{port}", hint="name another port with --port", exit_code=EXIT_CONFLICT
    )


def open_proxy(opened: contextlib.ExitStack, targets: Sequence[Target], port: int) -> None:
    """Forward editors to targets on exactly this port, until `opened` is closed.

    Raises:
        DkdbgError: the port is taken.
    """
    proxy = AttachProxy(targets, _Quiet(), port=port)
    opened.callback(proxy.close)
    if proxy.port != port:
        raise DkdbgError(
            f"port {port} of this machine is taken",
            hint=hints.PORT_HELD(),
            exit_code=EXIT_CONFLICT,
        )
    proxy.start()
    proxy.follow()


class _Quiet:
    """Discards reports: the terminal belongs to the program, and the editor gets its own messages."""

    def announce(self, announcement: Announce) -> None:
        """Do nothing."""

    def line(self, text: str) -> None:
        """Do nothing."""

    def event(self, kind: str, text: str, *, prefix: str = "", **more: object) -> None:
        """Do nothing."""


class PlainProxy:
    """Counterpart of `AttachProxy` for one debugpy without an agent.

    Args:
        target: address of debugpy, for messages.
        anchor: a connection that keeps debugpy's port open.
        port: if taken, the next free one is used.

    Raises:
        DkdbgError: no port is free.
    """

    def __init__(
        self, target: str, endpoint: tuple[str, int], anchor: Greeted, report: Reporting, *, port: int
    ) -> None:
        self.target = target
        self._debugpy = PlainPort(endpoint, anchor, report.line)
        self._listener = listen(port, report, self._debugpy.status, self._debugpy.serve)

    @property
    def port(self) -> int:
        """Port that editors attach to."""
        return self._listener.port

    def start(self) -> None:
        """Accept editors."""
        self._listener.start()

    def close(self) -> None:
        """End the sessions, and leave debugpy as it was."""
        self._listener.drain(CLOSE_TIMEOUT_S)
        self._listener.stop()
        self._debugpy.close()


def plain_proxy(targets: Sequence[Target], report: Reporting, *, port: int) -> PlainProxy | None:
    """Return the proxy of a plain debugpy, if the only target is one; otherwise None.

    Raises:
        DkdbgError: a plain debugpy is one of several targets, or no port is free.
    """
    for target in targets:
        if target.address.scheme != "endpoint" or (endpoint := target.endpoint().address) is None:
            continue
        try:
            anchor = greeted(endpoint)
        except OSError:  # nothing listens there yet
            continue
        if anchor is None:
            continue
        if len(targets) > 1:
            leave(anchor)
            raise DkdbgError(
                f"{target.address} is a plain debugpy, which cannot share a port with other targets",
                hint=f"dkdbg attach {target.address}",
                exit_code=EXIT_USAGE,
            )
        return PlainProxy(str(target.address), endpoint, anchor, report, port=port)
    return None
