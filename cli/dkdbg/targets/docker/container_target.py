"""What a container and a compose service have in common as targets (`core/target.py`)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from dkdbg.agent.contract import DEFAULT_PORT, LOOPBACK
from dkdbg.core import again
from dkdbg.core.brought import relay_words
from dkdbg.core.record import BadRecord
from dkdbg.core.target import Capability, Endpoint, Target
from dkdbg.delivery.running import running_at
from dkdbg.errors import DkdbgError, GoneError
from dkdbg.targets.docker import client, containers, foreign
from dkdbg.targets.docker.container import (
    ContainerReach,
    endpoint_of,
    has_network,
    logs_words,
    no_endpoint,
    workspace_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dkdbg.core.address import Address
    from dkdbg.core.pythons import PythonThere
    from dkdbg.core.record import SeenRecord
    from dkdbg.core.sessions import SeenSession
    from dkdbg.core.target import Changes, Reach, Workspace
    from dkdbg.targets.docker.container import Container

#: Seconds within which a container says what runs in it.
_ANSWER_LIMIT = 60.0


class RelayedEndpoint(Protocol):
    """As `relay/remote_sessions.py` has it."""

    @property
    def why(self) -> str:
        """See there."""

    def of(self, found: Sequence[SeenRecord | str], *, why_none: str) -> Endpoint:
        """See there."""

    def close(self) -> None:
        """See there."""


class ContainerTarget(Target):
    """A target that is one container at a time.

    Args:
        seen: a container that was looked up a moment ago: the first `find` takes it.
    """

    capabilities = frozenset({Capability.CONTAINER, Capability.LOGS, Capability.LIST_PROCESSES})

    def __init__(self, address: Address, seen: Container | None = None) -> None:
        super().__init__(address)
        self._seen = seen
        self._found: Container | None = None
        self._engine: str | None = None
        self._relay: RelayedEndpoint | None = None
        self._led: Container | None = None
        self._lock = threading.Lock()

    # -- what differs -------------------------------------------------------------------------------------------

    def look(self) -> Container | None:
        """The container that the address means now, running or not; None when there is none.

        Raises:
            DkdbgError: the engine cannot be asked.
        """
        raise NotImplementedError

    def here(self) -> Container | None:
        """As `look`, for who wants to run something in it: whose session is in it may be left out."""
        return self.look()

    def absent(self) -> DkdbgError:
        """The error for a container that is not there, or does not run."""
        raise NotImplementedError

    def called(self, found: Container) -> str:
        """How a person reads what was found."""
        raise NotImplementedError

    def relayed(self, command: Callable[[str, bool, float], Sequence[str]]) -> RelayedEndpoint:
        """What leads to endpoints on an engine of another machine."""
        raise NotImplementedError

    # -- the target ----------------------------------------------------------------------------------------------

    def find(self) -> Reach:
        """The running container, which the reach stays with."""
        self._found = found = self._alive(self._seen or self.here())
        self._seen = None
        return ContainerReach(name=found.id, label=self.called(found))

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """`docker exec`."""
        return ContainerReach(name=self._running().id, label=self.label).wrap(argv, tty=tty)

    def agent(self) -> tuple[str, ...] | None:
        """The one that a debug service mounts, or that `dkdbg run` has brought."""
        found = self._found
        if found is None or not found.label:  # `here` may have left it out
            self._found = found = self._alive(self._seen or self.look())
        return found.agent if found.label else None

    def listen_address(self) -> tuple[str, int]:
        """Return all its addresses, as the agent accepts connections of the host alone; loopback on the host's network.

        A relay ends in the container: then it is loopback too, with any port, also beside another agent.
        """
        found = self._running()
        if not self._is_near(found):
            return LOOPBACK, 0
        return LOOPBACK if found.host_network else "0.0.0.0", DEFAULT_PORT  # noqa: S104

    def workspace(self) -> Workspace:
        """What `init` planned, else WORKDIR."""
        return workspace_of(self._running())

    def endpoint(self) -> Endpoint:
        """The published port of a debug service, else the container's own; a relay where this machine does not reach it."""
        try:
            found = self.look()
            return endpoint_of(found) if self._is_near(found) else self._remote_endpoint(found)
        except (DkdbgError, BadRecord) as error:
            return Endpoint(address=None, why=str(error).splitlines()[0])

    def changes(self) -> Changes | None:
        """The engine's events."""
        return containers.ContainerChanges()

    def sessions(self) -> list[SeenSession]:
        """What the agent in it says."""
        found = self.look()
        if found is None:
            raise self.absent()
        return containers.sessions_in(found)

    def advice(self) -> Sequence[str]:
        """Which Pythons run in a container without our agent; for one that is not there, those that are."""
        try:
            found = self.look()
            if found is None:
                return self.others()
            if found.label or not found.running:
                return ()
            return foreign.advice(found, self._pythons(found))
        except DkdbgError:
            return ()

    def pythons(self) -> Sequence[PythonThere]:
        """Those of a container without our agent."""
        found = self._alive(self.look())
        return () if found.label else self._pythons(found)

    def within(self, user: str) -> Reach:
        """The container as that user of it."""
        return ContainerReach(name=self._running().id, label=self.label, user=user)

    def code_at(self, folder: str) -> tuple[str, str] | None:
        """By the mounts, on an engine of this machine."""
        found = self._running()
        return found.code_at(folder) if client.endpoint().is_local else None

    def recreation(self, words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        """A new container with what the engine knows of this one; see `Target`."""
        inspected = containers.inspected(self._running().id)
        line = again.again(inspected, words, image=containers.image_of(inspected))
        return line, again.of_several_lines(inspected)

    def _pythons(self, found: Container) -> Sequence[PythonThere]:
        return running_at(ContainerReach(name=found.id, label=self.label))

    def others(self) -> Sequence[str]:
        """What else there is, where there is no container of this name; it may still come."""
        return ()

    def logs(self, *, follow: bool, lines: int | None) -> tuple[str, ...]:
        """What the engine has kept, of a container that has ended too."""
        found = self._seen or self.look()
        if found is None:
            raise self.absent()
        return logs_words(found.id, follow=follow, lines=lines)

    def close(self) -> None:
        """End the relay."""
        if self._relay is not None:
            self._relay.close()

    def _is_near(self, found: Container | None) -> bool:
        """Whether a container's ports can be reached from this machine: published here, or by its own address.

        Not on an engine of another machine, nor without a network (`network_mode: none`); on a rootless one only where
        they are published, as its networks are its own.
        """
        if self._engine is None:
            where = client.endpoint()
            self._engine = "elsewhere" if not where.is_local else "rootless" if where.is_a_persons else "here"
        if self._engine == "rootless":
            return found is not None and (found.host_network or found.port in found.published)
        return self._engine == "here" and (found is None or has_network(found))

    def _remote_endpoint(self, found: Container | None) -> Endpoint:
        with self._lock:
            if self._relay is not None and (why := self._relay.why):  # it asks anew by itself
                return Endpoint(address=None, why=f"{self.label}: {why}")
            self._led = found
            closed = no_endpoint(found)
            if found is None or closed:
                return Endpoint(address=None, why=closed)
            records = containers.records_in(found)
            if self._relay is None:
                self._relay = self.relayed(self._relayed)
            return self._relay.of(records, why_none=f"container {found.name} is starting")

    def _relayed(self, word: str, silent: bool, _limit: float) -> tuple[str, ...]:
        """The relay's command line; on its thread, while an endpoint may be asked for on another one.

        Args:
            silent: the last one led nowhere: another container may have taken the place of this one.
        """
        if silent or self._led is None:
            self._led = self.look()
        found = self._led
        closed = no_endpoint(found)
        if found is None or closed:
            raise GoneError(closed)
        reach = ContainerReach(name=found.id, label=self.label, user=found.user)
        return reach.wrap(relay_words(found.agent, word))

    def _running(self) -> Container:
        if self._found is None:
            self.find()
        return self._alive(self._found)

    def _alive(self, found: Container | None) -> Container:
        if found is None or not found.running:
            raise self.absent()
        return found
