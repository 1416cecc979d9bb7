"""Parse addresses of Ray clusters, and the agent's answers about waiting workers. No I/O.

ray://HOST:8265                the dashboard, reached from this machine
ray://me@login,node-12:8265    the same, reached from the last host before it
ray+SCHEME://REST[::PORT]      the cluster of the node, pod or container at SCHEME://REST, or of a job's: ray+ssh://login,node1
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from dkdbg.core.address import LOCAL, Address
from dkdbg.core.sessions import SeenSession
from dkdbg.errors import EXIT_CONFLICT, EXIT_USAGE, DkdbgError
from dkdbg.printable import printable

DEFAULT_PORT = 8265
#: State of a waiting worker in `ps`, and of one with a debugger attached.
PAUSED, HELD = "paused", "attached"
_MAX_WORKERS = 10000


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The cluster that an address selects.

    Attributes:
        inner: the target from which it is reached.
        dashboard: HOST:PORT as seen from there; PORT alone for the cluster that the target is a node of.
    """

    inner: Address
    dashboard: str

    @property
    def is_node(self) -> bool:
        """Return whether the target is a node of the cluster, on which a driver can run."""
        return ":" not in self.dashboard


def cluster_of(address: Address) -> Cluster:
    """Return the cluster at an address. Raises DkdbgError: the address names no cluster."""
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
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:6]) < 65536:
        raise _wrong(address)
    return int(text)


def _wrong(address: Address) -> DkdbgError:
    return DkdbgError(
        f"{address} names no dashboard of Ray",
        hint="ray://HOST:8265, ray://LOGIN,HOST:8265 behind ssh, or ray+ before the target of a node: ray+k8s://NAMESPACE/HEAD-POD",
        exit_code=EXIT_USAGE,
    )


#: Hint for each kind of error that the agent reports (`agent/ray/dashboard.py`).
_HINTS = {
    "unreachable": "is Ray running, and is this its dashboard's port? Ask there: ray status. A dashboard that listens on the "
    "node's own address is reached from outside as ray://LOGIN,NODE:8265, from inside as ray+ssh://NODE",
    "not-ray": "another program has this port: the dashboard says its own in the output of ray start --head (8265 by default)",
    "old": "dkdbg sees the workers of Ray 2.9 and newer; until then: RAY_DEBUG=legacy and ray debug",
    "no-state": "the head needs Ray's dashboard: pip install 'ray[default]' there, and ray start --head --include-dashboard=true",
    "token": "set RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH to its file, or have it in ~/.ray/auth_token, here or there",
    "wrong-token": "the cluster has another token: see RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH and ~/.ray/auth_token, here and there",
}


def parse(text: str, *, label: str) -> dict[str, Any]:
    """Parse the agent's answer.

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
            hint="ask there: ray status",
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
    """Return the name of the attach proxy's session on its machine."""
    return f"ray {dashboard}"
