"""Shared state of the editors of one port: targets, announced processes, and the answer to GET /status."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

from dkdbg.attach.actions import ProcessRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dkdbg.attach.actions import Action, Announce, Process
    from dkdbg.attach.child_proxy import ChildProxy
    from dkdbg.attach.router import Router
    from dkdbg.attach.upstream import Upstream


class Attached(Protocol):
    """One editor, as the switchboard needs it.

    Attributes:
        router: its state machine.
        is_attached: whether it has, or is about to have, a root session.
    """

    router: Router

    @property
    def is_attached(self) -> bool:
        """See `Attached`."""

    def act(self, make_actions: Callable[[], list[Action]]) -> None:
        """Call the router and carry out its actions; thread-safe."""


class Switchboard:
    """State shared by the editors of one port.

    Args:
        upstreams: the targets, by unique names.
        port: returns the attach proxy's own port.
        report: takes events; called from any thread.
        token: token that the headless editor proves to the targets.

    Attributes:
        offer: gives a process its own port and returns a line about it; empty for none.
    """

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        *,
        port: Callable[[], int],
        report: Callable[[Announce], None],
        token: str = "",
    ) -> None:
        self.upstreams = {each.name: each for each in upstreams}
        self.lock = threading.RLock()
        self.registry = ProcessRegistry(tuple(self.upstreams), port)
        self.report = report
        self.token = token
        self.offer: Callable[[Process], str] = lambda _: ""
        self.child_proxies: set[ChildProxy] = set()
        self.editors: list[Attached] = []

    def add(self, upstream: Upstream) -> None:
        """Add a target, and attach the attached editors to it."""
        with self.lock:
            self.upstreams = {**self.upstreams, upstream.name: upstream}
            self.registry.upstreams = tuple(self.upstreams)
            editors = list(self.editors)
            for editor in editors:
                editor.act(lambda each=editor: each.router.joined(upstream.name))  # type: ignore[misc]

    def status(self) -> dict[str, Any]:
        """Return the answer to GET /status."""
        with self.lock:
            editors = [each for each in self.editors if each.router.phase == "live"]
        targets = []
        for name, upstream in self.upstreams.items():
            seen = upstream.last
            held = any(
                name in each.router.sessions and each.router.sessions[name].phase == "attached"
                for each in editors
            )
            targets.append(
                {
                    "target": str(upstream.target.address),
                    "name": name,
                    "endpoint": "{}:{}".format(*seen.endpoint) if seen and seen.endpoint else "",
                    "attached": held,
                    "detail": "" if held or seen is None else seen.why,
                }
            )
        state = "attached" if any(each["attached"] for each in targets) else "waiting"
        return {"state": state, "client": bool(editors), "editors": len(editors), "targets": targets}

    def stop(self, reason: str) -> None:
        """End all sessions, with a reason for the editors."""
        with self.lock:
            editors, child_proxies = list(self.editors), list(self.child_proxies)
        for child_proxy in child_proxies:
            child_proxy.end()
        for editor in editors:
            editor.act(lambda each=editor: each.router.stop(reason))  # type: ignore[misc]
