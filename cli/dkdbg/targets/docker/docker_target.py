"""Target for one container, by its name or id: `docker://shop-web-1`."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from dkdbg import hints
from dkdbg.core.address import Address
from dkdbg.core.target import Kind
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.targets.docker import containers
from dkdbg.targets.docker.container_target import ContainerTarget

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dkdbg.core.sessions import SeenSession
    from dkdbg.targets.docker.container import Container

SCHEME = "docker"


class DockerTarget(ContainerTarget):
    """A container; see `core/target.py`."""

    is_meant = True

    def inspect(self) -> Container | None:
        """Find the container by its name or a prefix of its id, like `docker`."""
        return containers.of_name(self.address.rest)

    def to_run_in(self) -> Container | None:
        """Find the container without the session that `dkdbg run` has started in it."""
        return containers.of_name(self.address.rest, runs=False)

    def absent(self) -> DkdbgError:
        """Return the error for a missing or stopped container."""
        return DkdbgError(f"there is no running container {self.address.rest}", hint=hints.CONTAINERS())

    def others(self) -> Sequence[str]:
        """Return the running containers, the most similar name first."""
        names = containers.names()
        near = get_close_matches(self.address.rest, names, n=1)
        lines = [
            f"no container {self.address.rest} runs yet"
            + (f"; did you mean docker://{near[0]}?" if near else "")
        ]
        rest = [each for each in names if each not in near][:8]
        return [*lines, f"other running containers: {', '.join(rest)}"] if rest else lines

    def called(self, found: Container) -> str:
        """Return the container's address with its full name."""
        return f"{SCHEME}://{found.name}"


def _target(address: Address, _root: Path) -> DockerTarget:
    if len(address.parts) > 1:
        raise DkdbgError(f"{address} names no container", hint="docker://CONTAINER", exit_code=EXIT_USAGE)
    return DockerTarget(address)


def _named(name: str, _root: Path) -> DockerTarget | None:
    """Return the target of the container with this name or id, or of the only running debug service of this name."""
    exact = containers.of_name(name)
    if exact is not None and not exact.is_called(name):
        exact = None  # one or two letters match the id of any container
    found = [exact] if exact else [
        each for each in containers.of_debug_services() if each.running and each.label == name
    ]  # fmt: skip
    return DockerTarget(Address(scheme=SCHEME, rest=found[0].name), found[0]) if len(found) == 1 else None


def _sessions() -> list[SeenSession]:
    """Return the sessions of the debug services of all projects."""
    return [session for each in containers.of_debug_services() for session in containers.sessions_in(each)]


KIND = Kind(
    target=_target, named=_named, sessions=_sessions,
    begin=lambda address, ran: (
        hints.RUN_THERE(target=address) if ran else hints.HOW_TO_ENTER(target=address)
    ),
)  # fmt: skip
