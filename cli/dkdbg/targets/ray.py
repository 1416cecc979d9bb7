"""Target for a Ray cluster: its waiting workers, behind one proxy on a machine that can reach the cluster.

The proxy (`agent/ray`) runs at another target, of any kind, and connects to the workers of all nodes from that target:
the workers listen on random ports of the nodes' own addresses. So one relay to that target leads to all workers.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dkdbg import hints, process
from dkdbg.core.address import LOCAL, Address
from dkdbg.core.brought import relay_words
from dkdbg.core.record import BadRecord, SeenRecord, parse_all
from dkdbg.core.sessions import SeenSession
from dkdbg.core.target import Capability, Endpoint, Kind, Target
from dkdbg.delivery.bring import bring
from dkdbg.errors import EXIT_CONFLICT, EXIT_USAGE, DkdbgError
from dkdbg.launchers.words import whole_number
from dkdbg.printable import printable
from dkdbg.relay.remote_sessions import RelayedEndpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dkdbg.core.mapping import Workspace
    from dkdbg.core.target import Executor
    from dkdbg.delivery.bring import Brought

#: Timeout for the remote agent to query the cluster.
_QUERY_TIMEOUT_S = 60.0
_MAX_ANSWER = 16 << 20
#: Sources of Ray's own token (`ray/_private/authentication`).
_TOKEN, _TOKEN_PATH, _TOKEN_FILE = "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "~/.ray/auth_token"
DEFAULT_PORT = 8265
#: State in `ps` of a waiting worker, and of a worker with a debugger attached.
PAUSED, HELD = "paused", "attached"
_MAX_WORKERS = 10000


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
        self._cluster = cluster_of(address)
        self._lock = threading.RLock()
        self._brought: Brought | None = None
        self._endpoint = RelayedEndpoint(self._relayed)

    @property
    def label(self) -> str:
        """Return the address, because the driver may have a session of its own."""
        return str(self.address)

    def find(self) -> Executor:
        """Find the target from which the cluster is reached."""
        return self._inner.find()

    @property
    def driver(self) -> Target:
        """Return a node of the cluster. Raises DkdbgError: the inner target is not a node."""
        host = self._cluster.dashboard.rpartition(":")[0]
        if self._cluster.is_node or (self._inner.address.scheme == LOCAL and _is_local(host)):
            return self._inner
        raise DkdbgError(
            f"{self.address}: the driver must run on a node of the cluster, but {self._inner.label} is not one",
            hint=f"name the node as a target: ray+ssh://{','.join((*self.address.hops[:-1], host))}, or put ray+ before the address of its batch job",
            exit_code=EXIT_USAGE,
        )

    def worker_flags(self, workers: str | None) -> tuple[str, ...]:
        """Return the flags that make Ray start the driver's workers with dkdbg's setup function."""
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
                return Endpoint.failed(error, label=self.label)
            if self._inner.address.scheme == LOCAL and found:
                return Endpoint(address=found[-1].local_address, why="its proxy does not answer")
            return self._endpoint.of(found, why_none="its proxy has not started")

    def sessions(self) -> list[SeenSession]:
        """Return the waiting workers, and the sessions of the inner target."""
        found = sessions_of(self._asked("list"), address=str(self.address))
        with contextlib.suppress(DkdbgError):
            found += self.driver.sessions()
        return found

    def each(self) -> Sequence[Target]:
        """Return the targets of the driver, if the inner target can run a driver, and this target for the workers."""
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

    def _find_agent(self) -> tuple[Executor, tuple[str, ...]]:
        """Return the executor and the command line of the agent that queries the cluster."""
        executor = self._inner.find()
        if self._inner.address.scheme == LOCAL and (agent := self._inner.agent()):
            return executor, agent
        if self._brought is None:
            self._brought = bring(executor)
        return executor, self._brought.argv

    def _asked(self, what: str) -> dict[str, object]:
        with self._lock:
            executor, agent = self._find_agent()
            token = _own_token()
            argv = (*agent, "ray", what, "--dashboard", self._cluster.dashboard)
            argv += ("--name", session_name(self._cluster.dashboard))
            argv += ("--token",) if token else ()
            done = process.run(executor.wrap(argv), timeout=_QUERY_TIMEOUT_S, stdin_text=f"{token}\n")
        return parse_workers(done.stdout or done.stderr, label=str(self.address))

    def _started(self) -> list[SeenRecord]:
        self._asked("proxy")
        return self._proxies()

    def _proxies(self) -> list[SeenRecord]:
        """Return this cluster's proxies that run at the inner target, oldest first."""
        executor, agent = self._find_agent()
        name = session_name(self._cluster.dashboard)
        done = process.read(
            executor.wrap((*agent, "ray", "proxies")), max_bytes=_MAX_ANSWER, timeout=_QUERY_TIMEOUT_S
        )
        try:
            found = [] if done.code else parse_all(done.stdout)
        except BadRecord as error:
            raise DkdbgError(f"{self.label}: {error}") from error
        return [each for each in found if isinstance(each, SeenRecord) and each.live and each.name == name]

    def _relayed(self, word: str, silent: bool, limit: float) -> tuple[str, ...]:
        executor = self._inner.again(silent=silent, limit=limit)
        agent = self._brought.argv if self._brought else self._find_agent()[1]
        return executor.wrap(relay_words(agent, word))


def _is_local(host: str) -> bool:
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
    target=_alone, inner=lambda address: cluster_of(address).inner, around=RayTarget,
    begin=lambda address, _ran: hints.RAY_WAITS(target=address),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The cluster that an address selects.

    Attributes:
        inner: the target from which it is reached.
        dashboard: HOST:PORT as seen from `inner`; PORT alone if `inner` is a node of the cluster.
    """

    inner: Address
    dashboard: str

    @property
    def is_node(self) -> bool:
        """Return whether `inner` is a node of the cluster, on which a driver can run."""
        return ":" not in self.dashboard


def cluster_of(address: Address) -> Cluster:
    """Return the cluster at an address.

    ray://HOST:8265                the dashboard, reached from this machine
    ray://me@login,node-12:8265    the dashboard on node-12, reached from login, the last host before it
    ray+SCHEME://REST[::PORT]      the cluster of a node, pod, container or job: ray+ssh://login,node1

    Raises:
        DkdbgError: the address names no cluster.
    """
    _, plus, scheme = address.scheme.partition("+")
    if plus:
        rest, colons, port = address.rest.rpartition("::")
        rest = rest if colons else address.rest
        number = _port(port if colons else str(DEFAULT_PORT), address)
        return Cluster(
            inner=Address(scheme=scheme, rest="" if scheme == LOCAL and rest == "." else rest),
            dashboard=str(number),
        )
    if len(address.parts) > 1:
        raise _wrong(address)
    *before, last = address.hops
    host, colon, port = last.rpartition(":")
    if colon and not host:
        raise _wrong(address)
    host = host if colon else last
    number = _port(port if colon else str(DEFAULT_PORT), address)
    inner = Address(scheme="ssh", rest=",".join(before)) if before else Address(scheme=LOCAL, rest="")
    return Cluster(inner=inner, dashboard=f"{host.removeprefix('[').removesuffix(']')}:{number}")


def _port(text: str, address: Address) -> int:
    port = whole_number(text, 65535)
    if not port:
        raise _wrong(address)
    return port


def _wrong(address: Address) -> DkdbgError:
    return DkdbgError(
        f"{address} is not the address of a Ray dashboard",
        hint="ray://HOST:8265, ray://LOGIN,HOST:8265 behind ssh, or ray+ before the target of a node: ray+k8s://NAMESPACE/HEAD-POD",
        exit_code=EXIT_USAGE,
    )


#: Hint for each kind of error that the agent reports (`agent/ray/dashboard.py`).
_HINTS = {
    "unreachable": "is Ray running, and is this its dashboard's port? Check on the node: ray status. A dashboard that listens on the "
    "node's own address is reached from outside as ray://LOGIN,NODE:8265, from inside as ray+ssh://NODE",
    "not-ray": "another program uses this port: ray start --head prints the port of the dashboard (8265 by default)",
    "old": "only Ray 2.9 or newer can be debugged here; for older ones: RAY_DEBUG=legacy and ray debug",
    "no-state": "the head node needs Ray's dashboard; on that node: pip install 'ray[default]', then ray start --head --include-dashboard=true",
    "token": "set RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH to its file, or write it to ~/.ray/auth_token, on this machine or on the cluster",
    "wrong-token": "the cluster uses another token: compare RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH and ~/.ray/auth_token on both sides",
    "foreign": "dkdbg sends the token only to a dashboard that you or root runs: log in as the user of the cluster, or name its head: "
    "ray://HEAD:8265",
}


def parse_workers(text: str, *, label: str) -> dict[str, Any]:
    """Parse the agent's answer about waiting workers.

    Args:
        label: name of the target, for messages.

    Raises:
        DkdbgError: the agent cannot query the cluster, or its answer is invalid.
    """
    try:
        found = json.loads(text.strip().rpartition("\n")[2])
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise DkdbgError(
            f"{label}: unexpected answer about the Ray cluster: {printable(text.strip()[-200:]) or 'nothing'}",
            hint="on a node of the cluster: ray status",
        )
    error = found.get("error")
    if isinstance(error, dict):
        kind = str(error.get("kind"))
        raise DkdbgError(
            f"{label}: {printable(str(error.get('text'))[:400])}",
            hint=_HINTS.get(kind, ""),
            exit_code=EXIT_CONFLICT,
        )
    return found


def sessions_of(found: dict[str, Any], *, address: str) -> list[SeenSession]:
    """Return the workers that the agent has listed, as sessions for `ps`."""
    rows = found.get("workers")
    seen = []
    for row in rows[:_MAX_WORKERS] if isinstance(rows, list) else ():
        if not isinstance(row, dict):
            continue
        name, paused = row.get("name"), row.get("paused")
        node, pid, task = (printable(str(row.get(key, "")))[:80] for key in ("node", "pid", "task"))
        stopped = printable(str(row.get("stopped") or ""))[:80]
        actor = printable(str(row.get("actor_name") or row.get("actor") or ""))[:80]
        seen.append(
            SeenSession(
                target=f"ray node {node}", address=address, id=str(row.get("id", ""))[:80],
                name=printable(str(name).partition(", pid ")[0])[:80], state=HELD if row.get("attached") or not paused else PAUSED,
                client=row.get("attached") is True or not paused, processes=(", ".join(
                    part for part in (
                        f"task {task}" if task else "", f"actor {actor}" if actor else "", f"pid {pid}",
                        f"at {stopped}" if stopped else "",
                    ) if part
                ),),
            )
        )  # fmt: skip
    return seen


def session_name(dashboard: str) -> str:
    """Return the name of the proxy's session on its machine."""
    return f"ray {dashboard}"
