"""A job that has called a waiting `dkdbg attach --listen`, as a target of that one: it can be attached to, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.agent.contract import LOOPBACK
from dkdbg.core.address import CALL, Address
from dkdbg.core.target import Capability, Endpoint, Target
from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from dkdbg.targets.reverse.jobs import Caller


class CalledJobTarget(Target):
    """See `core/target.py`.

    Args:
        name: unique among those that have called.

    Attributes:
        caller: another one after the job's restart.
    """

    pause = 1.0
    capabilities = frozenset({Capability.ATTACH_ONLY})

    def __init__(self, caller: Caller, name: str) -> None:
        super().__init__(
            Address(scheme=CALL, rest=name)
        )  # other verbs ask through us: `targets/reverse/target.py`
        self.caller = caller
        self.name = name

    def endpoint(self) -> Endpoint:
        """The relay's port."""
        why = self.caller.why
        return Endpoint(
            address=(LOOPBACK, self.caller.local),
            why=f"it is not connected: {why}" if why else "its session does not answer",
        )

    def close(self) -> None:
        """Let it go."""
        self.caller.close()

    def refusal(self) -> DkdbgError:
        """See `Target`; `attach` asks for nothing else, so nobody reads it."""
        return DkdbgError(
            f"{self.name} has called here: it can be attached to, and nothing else", exit_code=EXIT_USAGE
        )
