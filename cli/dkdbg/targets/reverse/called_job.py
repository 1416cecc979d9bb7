"""Target for a job that has connected to this `dkdbg attach --listen`; it supports only attaching."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.agent.contract import LOOPBACK
from dkdbg.core.address import CALL, Address
from dkdbg.core.target import Capability, Endpoint, Target
from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from dkdbg.targets.reverse.jobs import Caller


class CalledJobTarget(Target):
    """A connected job; see `core/target.py`.

    Args:
        name: unique among the connected jobs.

    Attributes:
        caller: replaced after the job's restart.
    """

    pause = 1.0
    capabilities = frozenset({Capability.ATTACH_ONLY})

    def __init__(self, caller: Caller, name: str) -> None:
        super().__init__(
            Address(scheme=CALL, rest=name)
        )  # other verbs query it through us: `targets/reverse/target.py`
        self.caller = caller
        self.name = name

    def endpoint(self) -> Endpoint:
        """Return the relay's port."""
        why = self.caller.why
        return Endpoint(
            address=(LOOPBACK, self.caller.local),
            why=f"it is not connected: {why}" if why else "its session does not answer",
        )

    def close(self) -> None:
        """Drop the job."""
        self.caller.close()

    def refusal(self) -> DkdbgError:
        """Return the error for other verbs; see `Target`. `attach` uses no other verb, so it is never shown."""
        return DkdbgError(
            f"{self.name} has called here: it can be attached to, and nothing else", exit_code=EXIT_USAGE
        )
