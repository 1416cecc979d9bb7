"""This machine as a target where a process runs: a plain process under the agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.agent.contract import LOOPBACK
from dkdbg.core.target import Reach

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True)
class Local(Reach):
    """The `local:` target.

    Attributes:
        python: interpreter that runs the agent.
        label: name for display.
    """

    python: str
    label: str = "local"

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:  # noqa: ARG002 - it runs in this terminal
        """Return `argv` itself: it runs here."""
        return tuple(argv)

    def launch(self, argv: Sequence[str], *, port: int, wait: int, runtime: str) -> tuple[str, ...]:
        """Return the command line that runs `argv` under the agent on 127.0.0.1:`port`.

        Args:
            runtime: local folder of the session record.
        """
        return (
            self.python, "-m", "dkdbg.agent", "launch", "--host", LOOPBACK, "--port", str(port),
            "--wait", str(wait), "--runtime", runtime, "--", *argv,
        )  # fmt: skip
