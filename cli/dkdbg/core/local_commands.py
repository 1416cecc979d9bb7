"""Executor on this machine: runs commands locally."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.core.target import Executor

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True)
class Local(Executor):
    """The `local:` target.

    Attributes:
        python: interpreter that runs the agent.
        label: name for display.
    """

    python: str
    label: str = "local"

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:  # noqa: ARG002 - it runs in this terminal
        """Return `argv` unchanged."""
        return tuple(argv)
