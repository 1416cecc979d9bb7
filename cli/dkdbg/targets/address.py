"""What a person types to name a target: `compose://trainer`, `docker://NAME`, `local:`, `127.0.0.1:5678`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from dkdbg.targets.sessions import LabelledContainer

_FORMS = "compose://SERVICE, docker://CONTAINER, local:, local:SESSION or HOST:PORT"


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a door is looked for.

    Attributes:
        name: the service, container or session; the host of an endpoint. Empty with `local:` means any session.
        port: of an endpoint, 0 otherwise.
    """

    kind: Literal["compose", "docker", "local", "endpoint"]
    name: str
    port: int = 0

    @property
    def label(self) -> str:
        """A short name for people."""
        if self.kind == "endpoint":
            return f"{self.name}:{self.port}"
        return self.name or "local"

    def __str__(self) -> str:
        return {
            "compose": f"compose://{self.name}",
            "docker": f"docker://{self.name}",
            "local": f"local:{self.name}",
            "endpoint": f"{self.name}:{self.port}",
        }[self.kind]


def parse(text: str) -> Address:
    """Return the address that `text` names.

    Raises:
        DkdbgError: it has none of the known forms.
    """
    scheme, mark, rest = text.partition("://")
    if mark and scheme in {"compose", "docker"} and rest and "/" not in rest:
        return Address(kind="compose" if scheme == "compose" else "docker", name=rest)
    if text.startswith("local:") and not mark:
        return Address(kind="local", name=text.removeprefix("local:"))
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if colon and not mark and host and port.isdecimal() and 0 < int(port) < 65536:
        return Address(kind="endpoint", name=host, port=int(port))
    raise DkdbgError(f"{text!r} names no target", hint=f"a target is {_FORMS}", exit_code=EXIT_USAGE)


def container_for(
    address: Address, containers: Iterable[LabelledContainer], root: Path
) -> LabelledContainer | None:
    """Return the container that an address names now: a running one before one that has ended, the newest first.

    Args:
        address: `compose://` or `docker://`. A service of the user's stands for its debug service.
        containers: those of debug services.
        root: the compose project's folder, resolved.
    """
    fitting = [each for each in containers if _fits(address, each, root)]
    fitting.sort(key=lambda each: (each.running, each.created), reverse=True)
    return fitting[0] if fitting else None


def _fits(address: Address, container: LabelledContainer, root: Path) -> bool:
    if address.kind == "docker":
        return container.name == address.name or (
            len(address.name) >= 8 and container.id.startswith(address.name)
        )
    services = {address.name, f"{address.name}-debug", f"{address.name}-dkdbg"}
    return container.project_dir == str(root) and bool({container.service, container.label} & services)


def endpoint_of(container: LabelledContainer) -> tuple[str, int] | None:
    """Return host and port at which a container's door is reached from here; None when it is not.

    Its own address, where nothing is published, is reachable from a Linux host only; elsewhere nothing answers there.
    """
    if not container.running:
        return None
    if container.host_network:
        return "127.0.0.1", container.port
    published = container.published.get(container.port)
    if published:
        host, _, port = published.rpartition(":")
        return host.replace("0.0.0.0", "127.0.0.1").replace("::", "::1"), int(port)  # noqa: S104
    return (container.address, container.port) if container.address else None
