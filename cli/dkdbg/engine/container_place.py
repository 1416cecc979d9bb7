"""What a container and a compose service have in common as places (`targets/place.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.engine import containers
from dkdbg.errors import DkdbgError
from dkdbg.targets.container import ContainerReach, door_of, workspace_of
from dkdbg.targets.place import Door

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.targets.address import Address
    from dkdbg.targets.container import Container
    from dkdbg.targets.place import Changes, Reach, Workspace
    from dkdbg.targets.sessions import SeenSession


class ContainerPlace:
    """A place that is one container at a time.

    Args:
        seen: a container that was looked up a moment ago: the first `find` takes it.
    """

    #: An engine is asked by a process, and tells of changes.
    pause = 3.0

    def __init__(self, address: Address, seen: Container | None = None) -> None:
        self.address = address
        self._seen = seen
        self._found: Container | None = None

    @property
    def label(self) -> str:
        """The name in the address."""
        return self.address.label

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

    # -- the place ----------------------------------------------------------------------------------------------

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

    def listens_on(self) -> str:
        """All its addresses: the agent lets nobody in but the host. On the host's network there is loopback."""
        return "127.0.0.1" if self._running().host_network else "0.0.0.0"  # noqa: S104

    def workspace(self) -> Workspace:
        """What `init` planned, else WORKDIR."""
        return workspace_of(self._running())

    def door(self) -> Door:
        """The published port of a debug service, else the container's own."""
        try:
            return door_of(self.look())
        except DkdbgError as error:
            return Door(endpoint=None, why=error.message.splitlines()[0])

    def changes(self) -> Changes | None:
        """The engine's events."""
        return containers.ContainerChanges()

    def sessions(self) -> list[SeenSession]:
        """What the agent in it says."""
        found = self.look()
        if found is None:
            raise self.absent()
        return containers.sessions_in(found)

    def close(self) -> None:
        """Nothing was opened."""

    def _running(self) -> Container:
        if self._found is None:
            self.find()
        return self._alive(self._found)

    def _alive(self, found: Container | None) -> Container:
        if found is None or not found.running:
            raise self.absent()
        return found
