"""A port that somebody else has brought here, such as `127.0.0.1:5678`: it can be attached to, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.targets.place import Door, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dkdbg.targets.address import Address
    from dkdbg.targets.place import Changes, Reach, Workspace
    from dkdbg.targets.sessions import SeenSession


@dataclass(frozen=True)
class Endpoint:
    """See `targets/place.py`."""

    address: Address
    pause: float = 3.0

    @property
    def label(self) -> str:
        """Host and port."""
        return self.address.label

    def find(self) -> Reach:
        """Never: see the module."""
        self._refuse()

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:  # noqa: ARG002
        """Never: see the module."""
        self._refuse()

    def agent(self) -> tuple[str, ...] | None:
        """Never: see the module."""
        self._refuse()

    def workspace(self) -> Workspace:
        """Never: see the module."""
        self._refuse()

    def sessions(self) -> list[SeenSession]:
        """Never: see the module."""
        self._refuse()

    def door(self) -> Door:
        """The port itself."""
        return Door(endpoint=(self.address.host, self.address.port), why=f"nothing answers at {self.address}")

    def changes(self) -> Changes | None:
        """Nobody tells."""
        return None

    def close(self) -> None:
        """Nothing was opened."""

    def _refuse(self) -> NoReturn:
        raise DkdbgError(
            f"{self.address} is a port: it can be attached to, and nothing can be run behind it",
            hint="name the container, or what else is behind it; dkdbg ps shows sessions",
            exit_code=EXIT_USAGE,
        )


def _place(address: Address, _root: Path) -> Endpoint:
    return Endpoint(address)


KIND = Kind(place=_place)
