"""This machine: `local:` for any session here, `local:SESSION` for one, `local:/folder` for files to keep in step."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg.agent.state import records
from dkdbg.core import sessions
from dkdbg.core.address import LOCAL, Address
from dkdbg.core.local_commands import Local
from dkdbg.core.record import BadRecord, parse
from dkdbg.core.target import Endpoint, Kind, Target, Workspace
from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.record import SeenRecord
    from dkdbg.core.sessions import SeenSession
    from dkdbg.core.target import Reach

_AGENT = Path(__file__).resolve().parents[1] / "agent" / "__main__.py"


class LocalTarget(Target):
    """See `core/target.py`."""

    pause = 0.1

    @property
    def label(self) -> str:
        """The session's name."""
        return LOCAL if self.address.rest.startswith("/") else self.address.label

    def find(self) -> Reach:
        """This machine is always there."""
        return Local(python=sys.executable)

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """`argv` itself."""
        return self.find().wrap(argv, tty=tty)

    def agent(self) -> tuple[str, ...] | None:
        """It comes with dkdbg: by its file, for with `-m` Python would look in the working folder first."""
        return (sys.executable, "-I", "-S", "-B", str(_AGENT))

    def workspace(self) -> Workspace:
        """The folder of the address."""
        if self.address.rest.startswith("/"):
            return Workspace(local=".", remote=self.address.rest, why="the target says so")
        raise DkdbgError(
            f"{self.address} names no folder of this machine",
            hint="local:/folder",
            exit_code=EXIT_USAGE,
        )

    def endpoint(self) -> Endpoint:
        """That of the newest session that runs under this name."""
        live = [record for record, is_live in _records() if is_live and self._means(record)]
        if not live:
            why = f"no session {self.address.rest} runs on this machine".replace("  ", " ")
            return Endpoint(address=None, why=why)
        return Endpoint(address=live[-1].here, why="its session does not answer")

    def sessions(self) -> list[SeenSession]:
        """Those that the address names."""
        return [_seen(record, is_live) for record, is_live in _records() if self._means(record)]

    def _means(self, record: SeenRecord) -> bool:
        name = self.address.rest
        return name.startswith("/") or name in {"", record.name, record.id}


def _records() -> list[tuple[SeenRecord, bool]]:
    """Records, and whether their agents run, of the runtime folders that agents of ours may have used here (`agent/state/runtime_dir.py`), oldest session first."""
    found: list[tuple[SeenRecord, bool]] = []
    for written in records.list_records():
        with contextlib.suppress(BadRecord):  # of another version, or damaged
            found.append((parse(written), records.is_live(written)))
    return found


def _seen(record: SeenRecord, is_live: bool) -> SeenSession:
    address = str(Address(scheme=LOCAL, rest=record.id))
    return sessions.of_record(record, live=is_live, target=LOCAL, address=address)


def _target(address: Address, _root: Path) -> LocalTarget:
    return LocalTarget(address)


def _named(name: str, _root: Path) -> LocalTarget | None:
    target = LocalTarget(Address(scheme=LOCAL, rest=name))
    return target if target.endpoint().address else None


def _sessions() -> list[SeenSession]:
    return [_seen(record, is_live) for record, is_live in _records()]


KIND = Kind(
    target=_target,
    named=_named,
    sessions=_sessions,
    begin=lambda _address, _ran: "dkdbg run -- python train.py starts one",
)
