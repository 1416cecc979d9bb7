"""A port that somebody else has brought here, such as `127.0.0.1:5678`: it can be attached to, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.core.attach_only import AttachOnly
from dkdbg.core.target import Endpoint, Kind
from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from pathlib import Path

    from dkdbg.core.address import Address


@dataclass(frozen=True)
class EndpointTarget(AttachOnly):
    """See `core/target.py`."""

    address: Address
    pause: float = 3.0

    @property
    def label(self) -> str:
        """Host and port."""
        return self.address.label

    def endpoint(self) -> Endpoint:
        """The port itself."""
        return Endpoint(
            address=(self.address.host, self.address.port), why=f"nothing answers at {self.address}"
        )

    def close(self) -> None:
        """Nothing was opened."""

    def refusal(self) -> DkdbgError:
        """See `AttachOnly`."""
        return DkdbgError(
            f"{self.address} is a port: it can be attached to, and nothing can be run behind it",
            hint="name the container, or what else is behind it; dkdbg ps shows sessions",
            exit_code=EXIT_USAGE,
        )


def _target(address: Address, _root: Path) -> EndpointTarget:
    return EndpointTarget(address)


KIND = Kind(target=_target)
