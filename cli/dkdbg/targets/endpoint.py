"""Target for a port that is forwarded to this machine, such as `127.0.0.1:5678`; it supports only attaching."""

from __future__ import annotations

from dkdbg.core.target import Capability, Endpoint, Kind, Target, see_ended
from dkdbg.errors import EXIT_USAGE, DkdbgError


class EndpointTarget(Target):
    """A forwarded port; see `core/target.py`."""

    capabilities = frozenset({Capability.ATTACH_ONLY})

    def endpoint(self) -> Endpoint:
        """Return the port itself."""
        return Endpoint(
            address=(self.address.host, self.address.port), why=f"nothing answers at {self.address}"
        )

    def refusal(self) -> DkdbgError:
        """Return the error for verbs other than attaching; see `Target`."""
        return DkdbgError(
            f"{self.address} is only a port: you can attach to it, but not run commands through it",
            hint="name the container or host behind it; dkdbg ps lists sessions",
            exit_code=EXIT_USAGE,
        )


KIND = Kind(target=lambda address, _root: EndpointTarget(address), begin=see_ended)
