"""The common part of the targets for containers and compose services (`core/target.py`)."""

from __future__ import annotations

import shlex
import threading
from typing import TYPE_CHECKING

from dkdbg import hints
from dkdbg.agent.contract import DEFAULT_PORT, LOOPBACK
from dkdbg.core import again
from dkdbg.core.brought import relay_words
from dkdbg.core.pythons import is_debugpy
from dkdbg.core.record import BadRecord
from dkdbg.core.target import RUN_ABSENT, Capability, Endpoint, Target
from dkdbg.delivery.bring import running_at
from dkdbg.errors import DkdbgError, GoneError
from dkdbg.relay.remote_sessions import RelayedEndpoint
from dkdbg.targets.docker import client, containers
from dkdbg.targets.docker.container import (
    ContainerExecutor,
    endpoint_of,
    has_network,
    logs_words,
    no_endpoint,
    workspace_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.agent.contract import Deadline
    from dkdbg.core.address import Address
    from dkdbg.core.mapping import Workspace
    from dkdbg.core.pythons import PythonThere
    from dkdbg.core.sessions import SeenSession
    from dkdbg.core.target import Changes, Executor
    from dkdbg.targets.docker.container import Container


class ContainerTarget(Target):
    """A target that is one container at a time.

    Args:
        seen: a container that was just looked up, for the first `find`.
    """

    capabilities = frozenset({Capability.CONTAINER, Capability.LOGS, Capability.LIST_PROCESSES})

    def __init__(self, address: Address, seen: Container | None = None) -> None:
        super().__init__(address)
        self._seen = seen
        self._found: Container | None = None
        self._last: Container | None = None
        self._engine: str | None = None
        self._relay = RelayedEndpoint(self._relayed)
        self._led: Container | None = None
        self._lock = threading.Lock()

    # -- for subclasses -----------------------------------------------------------------------------------------

    def inspect(self) -> Container | None:
        """Return the container that the address means now, running or not; None if there is no such container.

        Raises:
            DkdbgError: the engine cannot be queried.
        """
        raise NotImplementedError

    def to_run_in(self) -> Container | None:
        """Return the container to run something in: as `inspect`, but a subclass may skip looking up its session."""
        return self.inspect()

    def absent(self) -> DkdbgError:
        """Return the error for a missing or stopped container."""
        raise NotImplementedError

    def called(self, found: Container) -> str:
        """Return the name of a container for messages."""
        raise NotImplementedError

    # -- the target ----------------------------------------------------------------------------------------------

    def find(self) -> Executor:
        """Return the executor of the container that runs now; it keeps referring to this container."""
        self._found = found = self._alive(self._seen or self.to_run_in())
        self._seen = None
        return ContainerExecutor(name=found.id, label=self.called(found))

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """Wrap a command with `docker exec`."""
        return ContainerExecutor(name=self._running().id, label=self.label).wrap(argv, tty=tty)

    def agent(self) -> tuple[str, ...] | None:
        """Return the agent that a debug service mounts, or that `dkdbg run` has sent."""
        found = self._found
        if found is None or not found.label:  # `to_run_in` may have left its session out
            self._found = found = self._alive(self._seen or self.inspect())
        return found.agent if found.label else None

    def listen_address(self, port: int | None = None) -> tuple[str, int]:
        """Return the address for the agent to listen on: all interfaces, or loopback.

        All interfaces are safe, since the agent accepts only the host's connections. Loopback is for a container on the
        host's network, and for a container that only a relay reaches. A relay ends in the container: loopback is
        sufficient for it, with any port, even if another agent runs in the container.
        """
        found = self._running()
        if not self._is_near(found):
            return LOOPBACK, port or 0
        return LOOPBACK if found.host_network else "0.0.0.0", port or DEFAULT_PORT  # noqa: S104

    def workspace(self) -> Workspace:
        """Return the mapping that `init` planned, or WORKDIR."""
        return workspace_of(self._running())

    def endpoint(self) -> Endpoint:
        """Return the agent's endpoint: the published port, the container's own address, or else a relay."""
        try:
            self._last = found = self.inspect()
            if self.run and found is not None:
                found = containers.of_run(found.id, self.run)
                if found is not None and found.running and not found.label:
                    return Endpoint(address=None, why=RUN_ABSENT)
            return endpoint_of(found) if self._is_near(found) else self._remote_endpoint(found)
        except (DkdbgError, BadRecord) as error:
            return Endpoint.failed(error)

    def changes(self) -> Changes | None:
        """Return the source of the engine's events."""
        return containers.ContainerChanges()

    def sessions(self) -> list[SeenSession]:
        """Return the sessions that the agent in the container reports."""
        self._last = found = self.inspect()
        if found is None:
            raise self.absent()
        return containers.sessions_in(found)

    def deadlines(self) -> Sequence[Deadline]:
        """Return the container's own healthcheck."""
        found = self._last or self._found
        return found.deadlines if found is not None else ()

    def advice(self) -> Sequence[str]:
        """Return advice about Python processes without dkdbg's agent; without a container, about other containers."""
        try:
            found = self.inspect()
            if found is None or not found.running:
                return self.others()
            if found.label:
                return ()
            return advice(found, self._pythons(found))
        except DkdbgError:
            return ()

    def pythons(self) -> Sequence[PythonThere]:
        """Return the Python processes of a container without dkdbg's agent."""
        found = self._alive(self.inspect())
        return () if found.label else self._pythons(found)

    def within(self, user: str) -> Executor:
        """Return an executor that runs commands as this user of the container."""
        return ContainerExecutor(name=self._running().id, label=self.label, user=user)

    def code_at(self, folder: str) -> tuple[str, str] | None:
        """Return host and container side of the mount that contains a folder; None on a remote engine."""
        found = self._running()
        return found.code_at(folder) if client.endpoint().is_local else None

    def recreation(self, argv: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        """Return a shell line that recreates the container from the engine's description of it; see `Target`."""
        inspected = containers.inspected(self._running().id)
        line = again.again(inspected, argv, image=containers.image_of(inspected))
        return line, again.of_several_lines(inspected)

    def _pythons(self, found: Container) -> Sequence[PythonThere]:
        return running_at(ContainerExecutor(name=found.id, label=self.label))

    def others(self) -> Sequence[str]:
        """Return advice for a missing or stopped container, which may still start."""
        return ()

    def logs(self, *, follow: bool, lines: int | None) -> tuple[str, ...]:
        """Return the command that prints the logs kept by the engine, also for a container that has ended."""
        found = self._seen or self.inspect()
        if found is None:
            raise self.absent()
        return logs_words(found.id, follow=follow, lines=lines)

    def close(self) -> None:
        """Close the relay."""
        self._relay.close()

    def _is_near(self, found: Container | None) -> bool:
        """Return whether this machine can reach a container's ports: published, or at its own address.

        False for an engine on another machine, and without a network (`network_mode: none`). On a rootless engine only
        published ports are reachable, because it has its own networks.
        """
        if self._engine is None:
            where = client.endpoint()
            self._engine = (
                "elsewhere" if not where.is_local else "rootless" if where.has_own_networks else "here"
            )
        if self._engine == "rootless":
            return found is not None and (found.host_network or found.port in found.published)
        return self._engine == "here" and (found is None or has_network(found))

    def _remote_endpoint(self, found: Container | None) -> Endpoint:
        with self._lock:
            if why := self._relay.why:  # the relay reconnects on its own
                return Endpoint(address=None, why=f"{self.label}: {why}")
            self._led = found
            closed = no_endpoint(found)
            if found is None or closed:
                return Endpoint(address=None, why=closed)
            records = containers.records_in(found)
            return self._relay.of(records, why_none=f"container {found.name} is starting", run=self.run)

    def _relayed(self, word: str, silent: bool, _limit: float) -> tuple[str, ...]:
        """Return the relay's command line; called on the relay's thread, concurrently with `endpoint`.

        Args:
            silent: whether the last connection went silent: another container may have replaced this one.
        """
        if silent or self._led is None:
            self._led = self.inspect()
        found = self._led
        closed = no_endpoint(found)
        if found is None or closed:
            raise GoneError(closed)
        executor = ContainerExecutor(name=found.id, label=self.label, user=found.user)
        return executor.wrap(relay_words(found.agent, word))

    def _running(self) -> Container:
        if self._found is None:
            self.find()
        return self._alive(self._found)

    def _alive(self, found: Container | None) -> Container:
        if found is None or not found.running:
            raise self.absent()
        return found


#: Maximum number of processes to show.
SHOWN = 3


def advice(container: Container, found: Sequence[PythonThere]) -> list[str]:
    """Return lines that tell the user which processes run in the container and what to type."""
    name = container.name
    if not found:
        return [
            f"no Python runs in {name}, or it has no shell to list processes; start one under dkdbg: dkdbg run --on docker://{name} --wait -- python3 train.py"
        ]
    debugpy = next((each.listens for each in found if each.listens), None)
    if is_debugpy(found):
        return _of_debugpy(container, debugpy)
    programs = [
        each for each in found if not any("multiprocessing" in word for word in each.argv[1:4])
    ] or list(found)
    lines = [f"{name} runs without dkdbg:"]
    for each in programs[:SHOWN]:
        version = f" (Python {each.version})" if each.version else ""
        lines.append(f"  process {each.pid}{version}: {shlex.join(each.argv)[:200]}")
    if programs[SHOWN:]:
        lines.append(f"  and {len(programs) - SHOWN} more")
    lines.append(
        "to debug that command, start a second copy in the container under dkdbg; it waits for your editor:"
    )
    lines.append(hints.RUN_BESIDE(name=name, command=shlex.join(programs[0].argv)))
    if container.service:
        lines.append(hints.INIT_SERVICE(service=shlex.quote(container.service)))
    return lines


def _of_debugpy(container: Container, listens: tuple[str, int] | None) -> list[str]:
    host, port = listens or ("", 5678)
    lines = [f"a plain debugpy runs in {container.name}" + (f", on port {port}" if listens else "")]
    published = container.published.get(port)
    if container.host_network:
        lines.append(f"attach through dkdbg, which keeps debugpy's port open: dkdbg attach 127.0.0.1:{port}")
    elif published:
        outside = published.replace("0.0.0.0:", "127.0.0.1:").replace(":::", "127.0.0.1:")
        lines.append(f"attach through dkdbg, which keeps debugpy's port open: dkdbg attach {outside}")
    elif listens and host not in {LOOPBACK, "localhost"} and container.address:
        lines.append(
            f"attach through dkdbg, which keeps debugpy's port open: dkdbg attach {container.address}:{port}"
        )
    else:
        lines.append(
            f"its port is not published: start the container with docker run -p 127.0.0.1:{port}:{port}, "
            f"and debugpy in it with --listen 0.0.0.0:{port}"
        )
    return lines
