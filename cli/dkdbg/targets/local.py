"""Target for this machine: `local:` for any session, `local:SESSION` for one, `local:/folder` for a folder to sync."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg.agent.contract import DEFAULT_PORT, LOOPBACK
from dkdbg.agent.settings import ENV_PORT
from dkdbg.agent.state import records
from dkdbg.core import sessions
from dkdbg.core.address import LOCAL, Address
from dkdbg.core.mapping import Workspace
from dkdbg.core.record import BadRecord, parse
from dkdbg.core.target import RUN_ABSENT, Endpoint, Kind, Local, Target
from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.record import SeenRecord
    from dkdbg.core.sessions import SeenSession
    from dkdbg.core.target import Executor

_AGENT = Path(__file__).resolve().parents[1] / "agent" / "__main__.py"


class LocalTarget(Target):
    """This machine; see `core/target.py`."""

    pause = 0.1

    @property
    def label(self) -> str:
        """Return the session's name."""
        return LOCAL if self.address.rest.startswith("/") else self.address.label

    def find(self) -> Executor:
        """Return this machine, which always exists."""
        return Local()

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """Return `argv` unchanged."""
        return self.find().wrap(argv, tty=tty)

    def agent(self) -> tuple[str, ...] | None:
        """Return dkdbg's own agent, by its file: with `-m`, Python would look in the working directory first."""
        return (sys.executable, "-I", "-S", "-B", str(_AGENT))

    def workspace(self) -> Workspace:
        """Return the folder of the address."""
        if self.address.rest.startswith("/"):
            return Workspace(local=".", remote=self.address.rest, why="the target names it")
        raise DkdbgError(
            f"{self.address} names no folder on this machine",
            hint="local:/folder",
            exit_code=EXIT_USAGE,
        )

    def listen_address(self, port: int | None = None) -> tuple[str, int]:
        """Return loopback with `port`, or with DKDBG_PORT (a local agent inherits it), or with the default port."""
        if port is not None:
            return LOOPBACK, port
        text = os.environ.get(ENV_PORT) or str(DEFAULT_PORT)
        if re.fullmatch("[0-9]{1,5}", text) is None or int(text) > 65535:
            raise DkdbgError(
                f"{ENV_PORT} is {text[:40]!r}, which is not a port",
                hint=f"unset {ENV_PORT}, or set it to a number up to 65535",
                exit_code=EXIT_USAGE,
            )
        return LOOPBACK, int(text)

    def endpoint(self) -> Endpoint:
        """Return the endpoint of the newest live session with this name."""
        live = [
            record
            for record, is_live in _records()
            if is_live and self._means(record) and record.is_of(self.run)
        ]
        if not live:
            why = f"no session {self.address.rest} runs on this machine".replace("  ", " ")
            return Endpoint(address=None, why=RUN_ABSENT if self.run else why)
        return Endpoint(address=live[-1].local_address, why="its session does not answer")

    def sessions(self) -> list[SeenSession]:
        """Return the sessions that the address selects."""
        return [_seen(record, is_live) for record, is_live in _records() if self._means(record)]

    def _means(self, record: SeenRecord) -> bool:
        name = self.address.rest
        return name.startswith("/") or name in {"", record.name, record.id}


def _records() -> list[tuple[SeenRecord, bool]]:
    """Return the session records of this machine, and whether their agents run, oldest first.

    The records are in the runtime folders that agents may use (`agent/state/runtime_dir.py`).
    """
    found: list[tuple[SeenRecord, bool]] = []
    for written in records.list_records():
        with contextlib.suppress(BadRecord):  # from another version, or damaged
            found.append((parse(written), records.is_live(written)))
    return found


def _seen(record: SeenRecord, is_live: bool) -> SeenSession:
    address = str(Address(scheme=LOCAL, rest=record.id))
    return sessions.of_record(record, live=is_live, target=LOCAL, address=address)


def _named(name: str, _root: Path) -> LocalTarget | None:
    target = LocalTarget(Address(scheme=LOCAL, rest=name))
    return target if target.endpoint().address else None


KIND = Kind(
    target=lambda address, _root: LocalTarget(address),
    named=_named,
    sessions=lambda: [_seen(record, is_live) for record, is_live in _records()],
    begin=lambda _address, _ran: "dkdbg run -- python train.py starts one",
)
