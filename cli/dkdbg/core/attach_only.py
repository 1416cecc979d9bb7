"""What a place answers that leads an editor to a program, and where no command can be run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.sessions import SeenSession
    from dkdbg.core.target import Changes, Reach, Workspace
    from dkdbg.errors import DkdbgError


class AttachOnly(ABC):
    """See `core/target.py`; its other members are the place's own."""

    @abstractmethod
    def refusal(self) -> DkdbgError:
        """Why nothing can be run there, with what to type in its place."""

    def find(self) -> Reach:
        """Never: see the class."""
        raise self.refusal()

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:  # noqa: ARG002
        """Never: see the class."""
        raise self.refusal()

    def agent(self) -> tuple[str, ...] | None:
        """Never: see the class."""
        raise self.refusal()

    def workspace(self) -> Workspace:
        """Never: see the class."""
        raise self.refusal()

    def sessions(self) -> list[SeenSession]:
        """Never: see the class."""
        raise self.refusal()

    def changes(self) -> Changes | None:
        """Nobody tells."""
        return None
