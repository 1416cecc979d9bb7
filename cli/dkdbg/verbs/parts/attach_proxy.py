"""The attach proxy for some targets: `dkdbg attach` keeps it open, `dkdbg run --attach` opens it beside a program."""

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

#: Maximum seconds that editors get to close their sessions at the end.
CLOSE_TIMEOUT_S = 1.5


class Reporting(Protocol):
    """Receives events, from any thread."""

    def announce(self, announcement: Announce) -> None:
        """Report a message of the attach proxy's router."""

    def line(self, text: str) -> None:
        """Report a line of text for the user."""

    def event(self, kind: str, text: str, *, prefix: str = "", **more: object) -> None:
        """Report an event that programs may use; `more` are values for programs only."""


class AttachProxy:
    """A port of 127.0.0.1 that editors attach to, and the targets behind it; `close` closes both.

    Args:
        port: if it is taken, the next free port is used.
        base: first of the ports that each serve one process; None to open them only for an editor that does not open
            child sessions.
        ranks: ranks for an editor that chooses none; empty for those that the targets were started with.
        continues: what continuing one rank does to the others, unless the editor chooses: `all` or `one`.
        token: token for agents that list their processes only to clients that prove they know it.
        proves: whether to prove it on behalf of editors that send no token, so that every client of the port can
            attach.

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
        """The port that editors attach to."""
        return self._listener.port

    def start(self) -> None:
        """Begin to accept editors."""
        self._listener.start()
        if self._offers_all:
            self._board.registry.offers_all = True
            self._extra.open_first()

    def add(self, target: Target) -> Upstream:
        """Add a target, whose label must be unique; may be called from any thread."""
        upstream = Upstream(target, target.label, self._token)
        self.upstreams = [*self.upstreams, upstream]
        self._board.add(upstream)
        return upstream

    def follow(self) -> None:
        """Begin to follow changes of the targets."""
        self._changes.start()

    def close(self) -> None:
        """End the editors' sessions, and close all targets."""
        self._board.stop("dkdbg attach was ended")
        self._listener.drain(CLOSE_TIMEOUT_S)
        self._listener.stop()
        self._extra.stop()
        self._changes.stop()
        for upstream in self.upstreams:
            upstream.close()
            upstream.target.close()


def _named(targets: Sequence[Target]) -> list[tuple[Target, str]]:
    """Return each target with a unique name: its label, or its address where two labels are equal."""
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
        except OSError:  # another process took the port in the meantime
            continue
        if chosen != port:
            report.event("port", f"port {port} is taken; using {chosen}", port=chosen)
        return listening
    raise DkdbgError(
        f"cannot listen on {LOOPBACK}:{port}", hint="name another port with --port", exit_code=EXIT_CONFLICT
    )


def open_proxy(opened: contextlib.ExitStack, targets: Sequence[Target], port: int) -> None:
    """Forward editors from exactly this local port to the targets, until `opened` is closed.

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
    """Discards events: the terminal belongs to the program, and editors get their own messages."""

    def announce(self, announcement: Announce) -> None:
        """Discard the message."""

    def line(self, text: str) -> None:
        """Discard the line."""

    def event(self, kind: str, text: str, *, prefix: str = "", **more: object) -> None:
        """Discard the event."""


class PlainProxy:
    """The counterpart of `AttachProxy` for a single debugpy that runs without an agent.

    Args:
        target: address of debugpy, for messages.
        anchor: connection that stays open, so that debugpy keeps its port open.
        port: if it is taken, the next free port is used.

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
        """The port that editors attach to."""
        return self._listener.port

    def start(self) -> None:
        """Begin to accept editors."""
        self._listener.start()

    def close(self) -> None:
        """End the editors' sessions, and leave debugpy as it was."""
        self._listener.drain(CLOSE_TIMEOUT_S)
        self._listener.stop()
        self._debugpy.close()


def plain_proxy(targets: Sequence[Target], report: Reporting, *, port: int) -> PlainProxy | None:
    """Return the proxy for a plain debugpy if that is the only target; otherwise None.

    Raises:
        DkdbgError: a plain debugpy is one of several targets, or no port is free.
    """
    for target in targets:
        if target.address.scheme != "endpoint" or (endpoint := target.endpoint().address) is None:
            continue
        try:
            anchor = greeted(endpoint)
        except OSError:  # no program listens there yet
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
