"""Sessions as `dkdbg ps` shows them: an agent's record, seen from the machine of the editor."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from dkdbg import hints
from dkdbg.agent.state import deadlines
from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dkdbg.agent.contract import Deadline
    from dkdbg.core.record import SeenRecord

#: States in which no client can attach any more.
ENDED = frozenset({"exited", "lost"})
#: State of a session whose agent sends invalid data, or whose target cannot be queried.
UNREADABLE = "unreadable"
#: State of a session whose container is paused: no command can run in the container.
PAUSED = "paused"


@dataclass(frozen=True, kw_only=True)
class SeenSession:
    """One session.

    Attributes:
        target: its target, for display: `local`, or `container NAME`.
        address: address of its target, as any verb accepts it.
        id, name: from the record; from the target's label if there is no readable record.
        state: the record's state, or one without a record's: `lost` if the agent vanished without a message, `exited`
            for a container that has ended, `unreadable` for invalid data or a failed query, `paused` in a paused
            container. `detail` then gives the reason.
        endpoint: `host:port` to attach to, as seen from this machine; empty if unreachable.
        started: epoch seconds, None when unknown.
        client: whether an editor is attached.
        processes: descriptions of the Python processes, such as `rank 3`.
        held: processes that a debugger holds, with the line: `rank 3: train.py:12 (breakpoint)`.
        manual_command: the command for users to type, and its purpose, if no editor can reach the session; also
            in `detail`.
        deadlines: time limits that keep running while a debugger holds its program.
    """

    target: str
    address: str
    id: str
    name: str
    state: str
    endpoint: str = ""
    started: float | None = None
    client: bool = False
    processes: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    detail: str = ""
    manual_command: str = ""
    deadlines: tuple[Deadline, ...] = ()

    @property
    def is_ended(self) -> bool:
        """Return whether no client can attach any more."""
        return self.state in ENDED

    def as_json(self, now: float) -> dict[str, object]:
        """Return the session as a JSON object; `age` is in seconds."""
        found = {
            **asdict(self),
            "age": None if self.started is None else round(now - self.started, 1),
            "deadlines": deadlines.as_json(self.deadlines, now),
        }
        manual_command = found.pop("manual_command")
        return {**found, "detail": manual_command or self.detail}


def of_record(
    record: SeenRecord, *, live: bool, target: str, address: str, endpoint: str | None = None
) -> SeenSession:
    """Build a session from a record.

    Args:
        live: whether its agent runs.
        target, address: see SeenSession.
        endpoint: address that leads to the record's port from this machine; None for the record's own address.
    """
    state = record.state if live or record.state == "exited" else "lost"
    if endpoint is None:
        endpoint = "{}:{}".format(*record.local_address)
    named = [(each.name or f"process {each.pid}", each.stopped) for each in record.processes or ()]
    return SeenSession(
        target=target, address=address, id=record.id, name=record.name,
        state=state, endpoint="" if state in ENDED else endpoint.replace("0.0.0.0:", "127.0.0.1:"),
        started=record.started, client=record.client,
        processes=tuple(name for name, _ in named), detail=record.detail,
        held=tuple(f"{name}: {stopped}" for name, stopped in named if stopped and live),
        deadlines=record.deadlines if live else (),
    )  # fmt: skip


def of_records(
    records: Iterable[SeenRecord | str],
    *,
    target: str,
    address: str,
    label: str,
    id: str = "",  # noqa: A002 - as in the class
    endpoint: Callable[[SeenRecord], str | None] = lambda _: "",
) -> list[SeenSession]:
    """Build a session for each item of an agent's list: a record, or the reason why a record is unreadable."""
    return [
        unreadable(target=target, address=address, id=id or label, name=label, why=record)
        if isinstance(record, str)
        else of_record(
            record, live=bool(record.live), target=target, address=address, endpoint=endpoint(record)
        )
        for record in records
    ]


def unreadable(
    *, target: str, address: str, id: str, name: str, why: str | DkdbgError  # noqa: A002 - as in the class
) -> SeenSession:  # fmt: skip
    """Build the session of a target that cannot be queried or sends invalid data.

    Args:
        why: the problem with the data, or the error of a query that no agent answered.
    """
    detail = (
        why.message.splitlines()[0]
        if isinstance(why, DkdbgError)
        else f"unreadable answer of its agent: {why}"
    )
    return SeenSession(target=target, address=address, id=id, name=name, state=UNREADABLE, detail=detail)


def choose(
    seen: Sequence[SeenSession],
    target: str | None = None,
    *,
    others: Sequence[SeenSession] = (),
    naming: Callable[[str], str],
    begin: str = "",
) -> SeenSession:
    """Return the only session that can be attached to.

    Args:
        seen: sessions of one target, or all.
        target: the target as the user named it; may be the name or id of one of several sessions.
        others: sessions to list in the error if none in `seen` can be attached to.
        naming: returns the user's command line with a given target in it.
        begin: hint if nothing runs; by default how to start the debug service.

    Raises:
        DkdbgError: no session fits, or several do.
    """
    live = [each for each in seen if not each.is_ended and each.state != UNREADABLE]
    found = [each for each in live if target in {each.name, each.id}] or live
    # Prefer sessions with a start time. Ray's workers have none, and no agent to query; their driver has one.
    found = [each for each in found if each.started is not None] or found
    if len(found) == 1:
        return found[0]
    candidates = found or [each for each in others if not each.is_ended]
    problem = "no session is running"
    if candidates:
        problem = (
            f"{len(found)} sessions match {target}"
            if found and target
            else f"{len(candidates)} sessions are running"
            if target is None
            else f"no session is called {target}"
        )
    names = [_called(each, candidates) for each in candidates]
    raise DkdbgError(
        problem + (f"; there are: {', '.join(names)}" if names else ""),
        hint=f"name one: {naming(shlex.quote(names[0]))}" if names else begin or hints.SERVICE_UP(),
        exit_code=EXIT_USAGE,
    )


def _called(session: SeenSession, others: Sequence[SeenSession]) -> str:
    """Return the text that identifies a session among the others: its address, or its id if they share the address."""
    alone = sum(each.address == session.address for each in others) == 1
    return session.address if alone else session.id


def age(seconds: float) -> str:
    """Format an age as `12 s`, `3 min`, `5 h` or `2 d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


#: Headings of `rows`, the columns that are never shortened (users copy from them), and the colours of the states.
HEADER = ("TARGET", "SESSION", "STATE", "ATTACH TO", "AGE", "ENDS IN", "EDITOR", "PROCESSES")
WHOLE = ("SESSION", "STATE", "ATTACH TO", "AGE", "ENDS IN", "EDITOR")
STYLES = {
    "STATE": {
        "running": "green", "attached": "green", "waiting": "yellow", "starting": "yellow", "lost": "red",
        UNREADABLE: "red", "exited": "dim",
    },
}  # fmt: skip


def rows(sessions: Sequence[SeenSession], now: float) -> list[tuple[str, ...]]:
    """Return a table row for each session; names are untrusted."""
    found: list[tuple[str, ...]] = []
    for each in sessions:
        processes = ", ".join(each.processes[:4]) + (
            f", {len(each.processes) - 4} more" if each.processes[4:] else ""
        )
        found.append(
            (
                each.target, each.name, each.state, each.endpoint or "-",
                "-" if each.started is None else age(now - each.started), deadlines.soonest(each.deadlines, now) or "-",
                "attached" if each.client else "-",
                processes or "-",
            )
        )  # fmt: skip
    return found
