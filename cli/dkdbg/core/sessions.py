"""Sessions as `dkdbg ps` shows them: a record of an agent, seen from the machine of the editor."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from dkdbg import hints
from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dkdbg.core.record import SeenRecord

#: States in which nobody can attach any more.
ENDED = frozenset({"exited", "lost"})
#: What an agent said of a session makes no sense.
UNREADABLE = "unreadable"


@dataclass(frozen=True, kw_only=True)
class SeenSession:
    """One session.

    Attributes:
        target: where it runs, for people: `local`, or `container NAME`.
        address: of its target, as any verb takes it.
        id, name: of the record; the label's where there is no record to read.
        state: the record's; `lost` when its agent is gone without a word, `exited` for a container that has ended,
            `unreadable` when what it says makes no sense; `detail` is why then.
        endpoint: `host:port` to attach to from here; empty when there is none.
        started: epoch seconds, None when unknown.
        client: whether an editor is attached.
        processes: what the Python processes are, such as `rank 3`.
        by_hand: what to type, and what for, where it is reached by no editor; programs find it in `detail`.
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
    detail: str = ""
    by_hand: str = ""

    @property
    def is_ended(self) -> bool:
        """Whether nobody can attach any more."""
        return self.state in ENDED

    def as_json(self, now: float) -> dict[str, object]:
        """A JSON object; `age` is in seconds."""
        found = {**asdict(self), "age": None if self.started is None else round(now - self.started, 1)}
        by_hand = found.pop("by_hand")
        return {**found, "detail": by_hand or self.detail}


def of_record(
    record: SeenRecord, *, live: bool, target: str, address: str, endpoint: str | None = None
) -> SeenSession:
    """A record, read where it was written.

    Args:
        live: its agent runs.
        target, address: see SeenSession.
        endpoint: where the record's port is reached from this machine; None: where it says itself.
    """
    state = record.state if live or record.state == "exited" else "lost"
    if endpoint is None:
        endpoint = "{}:{}".format(*record.here)
    return SeenSession(
        target=target, address=address, id=record.id, name=record.name,
        state=state, endpoint="" if state in ENDED else endpoint.replace("0.0.0.0:", "127.0.0.1:"),
        started=record.started, client=record.client,
        processes=tuple(each.name or f"process {each.pid}" for each in record.processes or ()), detail=record.detail,
    )  # fmt: skip


def unreadable(*, target: str, address: str, id: str, name: str, why: str) -> SeenSession:  # noqa: A002 - as in the class
    """A place whose agent, or what is in its place, says what makes no sense."""
    detail = f"unreadable answer of its agent: {why}"
    return SeenSession(target=target, address=address, id=id, name=name, state=UNREADABLE, detail=detail)


def choose(
    seen: Sequence[SeenSession],
    target: str | None = None,
    *,
    others: Sequence[SeenSession] = (),
    naming: Callable[[str], str],
    begin: str = "",
) -> SeenSession:
    """The only session that can be attached to.

    Args:
        seen: those of one target, or all.
        target: as a person named the target; where there are several sessions, it may be the name or id of one.
        others: to be named when there is none.
        naming: makes of a target the command line that somebody has typed, with it.
        begin: the hint where nothing runs; by default how the debug service is started.

    Raises:
        DkdbgError: there is none, or more than one.
    """
    live = [each for each in seen if not each.is_ended and each.state != UNREADABLE]
    found = [each for each in live if target in {each.name, each.id}] or live
    if len(found) == 1:
        return found[0]
    there = found or [each for each in others if not each.is_ended]
    problem = "no session is running"
    if there:
        problem = (
            f"{len(found)} sessions fit {target}"
            if found and target
            else f"{len(there)} sessions are running"
            if target is None
            else f"no session is called {target}"
        )
    names = [_called(each, there) for each in there]
    raise DkdbgError(
        problem + (f"; there are: {', '.join(names)}" if names else ""),
        hint=f"name one: {naming(shlex.quote(names[0]))}" if names else begin or hints.SERVICE_UP(),
        exit_code=EXIT_USAGE,
    )


def _called(session: SeenSession, others: Sequence[SeenSession]) -> str:
    """What names it and none of the others: its address, or its id where they have the same."""
    alone = sum(each.address == session.address for each in others) == 1
    return session.address if alone else session.id


def age(seconds: float) -> str:
    """`12 s`, `3 min`, `5 h`, `2 d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


#: Headings of what `rows` gives, those that people copy from, and the colours of its states.
HEADER = ("TARGET", "SESSION", "STATE", "ATTACH TO", "AGE", "EDITOR", "PROCESSES")
WHOLE = ("SESSION", "STATE", "ATTACH TO", "AGE", "EDITOR")
STYLES = {
    "STATE": {
        "running": "green", "attached": "green", "waiting": "yellow", "starting": "yellow", "lost": "red",
        UNREADABLE: "red", "exited": "dim",
    },
}  # fmt: skip


def rows(sessions: Sequence[SeenSession], now: float) -> list[tuple[str, ...]]:
    """One row of a table for each, for a person; what they are called is as strangers said it."""
    found: list[tuple[str, ...]] = []
    for each in sessions:
        processes = ", ".join(each.processes[:4]) + (
            f", {len(each.processes) - 4} more" if each.processes[4:] else ""
        )
        found.append(
            (
                each.target, each.name, each.state, each.endpoint or "-",
                "-" if each.started is None else age(now - each.started), "attached" if each.client else "-",
                processes or "-",
            )
        )  # fmt: skip
    return found
