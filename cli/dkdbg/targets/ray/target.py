"""Target for a Ray cluster: its waiting workers, behind one proxy that runs where the cluster is reachable.

The proxy (`agent/ray`) runs at another target, of any kind, and reaches the workers of all nodes from there: their
ports are random, and on the nodes' own addresses. So one relay to that target leads to all of them.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg import hints, process
from dkdbg.core.address import LOCAL
from dkdbg.core.brought import relay_words
from dkdbg.core.record import BadRecord, SeenRecord, parse_all
from dkdbg.core.target import Capability, Endpoint, Kind, Target
from dkdbg.delivery.bring import bring
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.relay.remote_sessions import RelayedEndpoint
from dkdbg.targets.ray import cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dkdbg.core.address import Address
    from dkdbg.core.sessions import SeenSession
    from dkdbg.core.target import Reach, Workspace
    from dkdbg.delivery.bring import Brought

#: Timeout for the remote agent to query the cluster.
_QUERY_TIMEOUT_S = 60.0
_MAX_ANSWER = 16 << 20
#: Sources of Ray's own token (`ray/_private/authentication`).
_TOKEN, _TOKEN_PATH, _TOKEN_FILE = "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "~/.ray/auth_token"


class RayTarget(Target):
    """A Ray cluster; see `core/target.py`. Commands run at the inner target; the endpoint is the workers' proxy.

    Args:
        make_inner: returns the target from which the cluster is reached.
    """

    pause = 1.0
    capabilities = frozenset({Capability.CLUSTER})

    def __init__(self, address: Address, make_inner: Callable[[], Target]) -> None:
        super().__init__(address)
        self._make_inner = make_inner
        self._inner = make_inner()
        self._cluster = cluster.cluster_of(address)
        self._lock = threading.RLock()
        self._brought: Brought | None = None
        self._endpoint = RelayedEndpoint(self._relayed)

    @property
    def label(self) -> str:
        """Return the address, because the driver may have a session of its own."""
        return str(self.address)

    def find(self) -> Reach:
        """Find the target from which the cluster is reached."""
        return self._inner.find()

    @property
    def driver(self) -> Target:
        """Return a node of the cluster. Raises DkdbgError: the inner target is not a node."""
        host = self._cluster.dashboard.rpartition(":")[0]
        if self._cluster.is_node or (self._inner.address.scheme == LOCAL and _is_here(host)):
            return self._inner
        raise DkdbgError(
            f"{self.address}: a driver runs on a node of the cluster, and {self._inner.label} is not one",
            hint=f"name the node as a target: ray+ssh://{','.join((*self.address.hops[:-1], host))}, or ray+ and the address of its batch job",
            exit_code=EXIT_USAGE,
        )

    def worker_flags(self, workers: str | None) -> tuple[str, ...]:
        """Return flags with which Ray starts the driver's workers with our setup function."""
        return ("--ray-workers", "*" if workers is None else workers)

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """Wrap a command for the inner target."""
        return self._inner.wrap(argv, tty=tty)

    def agent(self) -> tuple[str, ...] | None:
        """Return the agent of the inner target."""
        return self._inner.agent()

    def workspace(self) -> Workspace:
        """Return the workspace of the inner target."""
        return self._inner.workspace()

    def endpoint(self) -> Endpoint:
        """Return the endpoint of the workers' proxy, and start the proxy if it does not run."""
        with self._lock:
            if why := self._endpoint.why:  # the relay reconnects on its own
                return Endpoint(address=None, why=why)
            try:
                found = self._proxies() or self._started()
            except DkdbgError as error:
                return Endpoint(
                    address=None, why=error.message.splitlines()[0].removeprefix(f"{self.label}: ")
                )
            if self._inner.address.scheme == LOCAL and found:
                return Endpoint(address=found[-1].here, why="its proxy does not answer")
            return self._endpoint.of(found, why_none="its proxy has not started")

    def sessions(self) -> list[SeenSession]:
        """Return the waiting workers, and the sessions of the inner target."""
        found = cluster.sessions_of(self._asked("list"), address=str(self.address))
        with contextlib.suppress(DkdbgError):
            found += self.driver.sessions()
        return found

    def each(self) -> Sequence[Target]:
        """Return the targets of the driver, if it can run here, and of the workers."""
        try:
            _ = self.driver
        except DkdbgError:
            return [self]
        return [*self._make_inner().each(), self]

    def close(self) -> None:
        """Close the relay; the proxy exits automatically."""
        self._endpoint.close()
        with self._lock:
            if self._brought is not None:
                self._brought.close()
                self._brought = None
            self._inner.close()

    def _there(self) -> tuple[Reach, tuple[str, ...]]:
        """Return the reach of the agent that queries the cluster, and its command line."""
        reach = self._inner.find()
        if self._inner.address.scheme == LOCAL and (agent := self._inner.agent()):
            return reach, agent
        if self._brought is None:
            self._brought = bring(reach)
        return reach, self._brought.argv

    def _asked(self, what: str) -> dict[str, object]:
        with self._lock:
            reach, agent = self._there()
            token = _own_token()
            words = (*agent, "ray", what, "--dashboard", self._cluster.dashboard)
            words += ("--name", cluster.session_name(self._cluster.dashboard))
            words += ("--token",) if token else ()
            done = process.run(reach.wrap(words), timeout=_QUERY_TIMEOUT_S, stdin_text=f"{token}\n")
        return cluster.parse(done.stdout or done.stderr, label=str(self.address))

    def _started(self) -> list[SeenRecord]:
        self._asked("proxy")
        return self._proxies()

    def _proxies(self) -> list[SeenRecord]:
        """Return the proxies that run there for this cluster, oldest first."""
        reach, agent = self._there()
        name = cluster.session_name(self._cluster.dashboard)
        done = process.read(
            reach.wrap((*agent, "ray", "proxies")), most=_MAX_ANSWER, timeout=_QUERY_TIMEOUT_S
        )
        try:
            found = [] if done.code else parse_all(done.stdout)
        except BadRecord as error:
            raise DkdbgError(f"{self.label}: {error}") from error
        return [each for each in found if isinstance(each, SeenRecord) and each.live and each.name == name]

    def _relayed(self, word: str, silent: bool, limit: float) -> tuple[str, ...]:
        reach = self._inner.again(silent=silent, limit=limit)
        agent = self._brought.argv if self._brought else self._there()[1]
        return reach.wrap(relay_words(agent, word))


def _is_here(host: str) -> bool:
    """Return whether a host name or address belongs to this machine, so that a socket can be bound to it."""
    try:
        with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            return True
    except OSError:
        return False


def _own_token() -> str:
    """Return this machine's token for Ray, empty without one. Only a dashboard that requires a token receives it."""
    if token := os.environ.get(_TOKEN, "").strip():
        return token
    path = Path(os.environ.get(_TOKEN_PATH) or _TOKEN_FILE).expanduser()
    try:
        token = path.read_text()[:4096].strip()
    except (OSError, ValueError):
        return ""
    return token if token.isprintable() else ""


def _alone(address: Address, _root: Path) -> Target:
    raise AssertionError(f"{address} is a target around another one")


KIND = Kind(
    target=_alone, inner=lambda address: cluster.cluster_of(address).inner, around=RayTarget,
    begin=lambda address, _ran: hints.RAY_WAITS(target=address),
)  # fmt: skip
