"""Proxy for a plain debugpy behind `HOST:PORT`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.attach.plain_debugpy import PlainPort, greeted, leave
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.verbs.parts.attach_proxy import CLOSE_TIMEOUT_S, Reporting, listen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.attach.plain_debugpy import Greeted
    from dkdbg.core.target import Target


class PlainProxy:
    """Counterpart of `AttachProxy` for one debugpy without an agent.

    Args:
        target: its address, for messages.
        anchor: a connection that keeps its port open.
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
        DkdbgError: it is one of several targets, or no port is free.
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
