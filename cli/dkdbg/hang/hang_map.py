"""Group processes by their stacks; the smallest groups, the likely outliers, come first. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dkdbg.agent.state import deadlines
from dkdbg.hang.collectives import findings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dkdbg.agent.contract import Deadline
    from dkdbg.core.stacks import Frame, Process, Session, Thread
    from dkdbg.hang.collectives import Late, Mismatch


@dataclass(frozen=True, kw_only=True)
class Member:
    """A process of a job, and its session."""

    process: Process
    session: Session


@dataclass(frozen=True, kw_only=True)
class Aside:
    """Threads with the same name and stack, one per member; none is a main thread."""

    name: str
    frames: tuple[Frame, ...]
    members: tuple[Member, ...]

    @property
    def ranks(self) -> tuple[int, ...]:
        """Return the ranks of the members, in order."""
        return _ranks_among(self.members)


@dataclass(frozen=True, kw_only=True)
class Group:
    """Processes whose main threads have the same stack.

    Attributes:
        frames: stack, innermost frame first; empty if the processes did not answer.
        more: number of further frames that the agent left out.
        why: why the processes did not answer.
        asides: other threads of these processes; the rarest stacks first.
    """

    members: tuple[Member, ...]
    frames: tuple[Frame, ...]
    more: int
    why: str
    asides: tuple[Aside, ...]

    @property
    def ranks(self) -> tuple[int, ...]:
        """Return the ranks of the members, in order."""
        return _ranks_among(self.members)


@dataclass(frozen=True, kw_only=True)
class Job:
    """The sessions whose ranks form one job, or a single session.

    Attributes:
        ranks, others: groups of the processes with a rank, and of the other processes; the smallest first.
        absent: ranks of the job without a process.
        world_size: number of ranks; 0 if unknown.
        findings: late ranks and mismatches.
    """

    sessions: tuple[Session, ...]
    ranks: tuple[Group, ...]
    others: tuple[Group, ...]
    absent: tuple[int, ...]
    world_size: int
    findings: tuple[Late | Mismatch, ...] = ()

    @property
    def deadlines(self) -> list[Deadline]:
        """Return the time limits that keep running while a debugger stops the job."""
        return deadlines.merged(*(each.deadlines for each in self.sessions))


#: Maximum world size to believe: a hostile process may report 2**31 ranks.
_MAX_WORLD_SIZE = 100_000


def jobs(sessions: Iterable[Session]) -> list[Job]:
    """Merge sessions that are parts of one job: equal world sizes, and no rank twice."""
    parts: list[list[Session]] = []
    for session in sessions:
        size, own = _world(session), _ranks_of(session)
        for part in parts:
            taken = {rank for each in part for rank in _ranks_of(each)}
            if (
                size > len(own) > 0
                and size == _world(part[0])
                and not taken & own
                and len(taken) + len(own) <= size
            ):
                part.append(session)
                break
        else:
            parts.append([session])
    return [_job(part) for part in parts]


def chosen(job: Job, is_wanted: Callable[[int], bool]) -> Job:
    """Return the job with only the wanted ranks in its groups; its findings still cover all ranks."""
    members = [each for group in job.ranks for each in group.members]
    kept = [each for each in members if each.process.rank is not None and is_wanted(each.process.rank)]
    absent = tuple(rank for rank in job.absent if is_wanted(rank))
    return replace(job, ranks=groups(kept), others=(), absent=absent)


def _job(sessions: Sequence[Session]) -> Job:
    members = [Member(process=process, session=each) for each in sessions for process in each.processes]
    ranked = [each for each in members if each.process.rank is not None]
    size = min(max((_world(each) for each in sessions), default=0), _MAX_WORLD_SIZE)
    present = {each.process.rank for each in ranked}
    return Job(
        sessions=tuple(sessions), ranks=groups(ranked), others=groups([each for each in members if each.process.rank is None]),
        absent=tuple(rank for rank in range(size) if rank not in present), world_size=size,
        findings=tuple(findings(each.process for each in ranked)),
    )  # fmt: skip


def groups(members: Iterable[Member]) -> tuple[Group, ...]:
    """Group members by the stack of their main thread; the smallest group comes first, then the lowest rank."""
    alike: dict[tuple[object, ...], list[Member]] = defaultdict(list)
    for each in members:
        main = _main(each.process)
        alike[(main.frames, "") if main is not None else ((), each.process.why)].append(each)
    found = [_group(each) for each in alike.values()]
    return tuple(sorted(found, key=lambda group: (len(group.members), _first(group.members))))


def _group(members: Sequence[Member]) -> Group:
    ordered = tuple(sorted(members, key=lambda each: _first([each])))
    main = _main(ordered[0].process)
    aside: dict[tuple[str, tuple[Frame, ...]], list[Member]] = defaultdict(list)
    for each in ordered:
        for thread in each.process.threads or ():
            if thread is not _main(each.process):
                aside[thread.name, thread.frames].append(each)
    asides = [
        Aside(name=name, frames=frames, members=tuple(found)) for (name, frames), found in aside.items()
    ]
    return Group(
        members=ordered, frames=main.frames if main else (), more=main.more if main else 0, why=ordered[0].process.why,
        asides=tuple(sorted(asides, key=lambda each: len(each.members))),
    )  # fmt: skip


def _main(process: Process) -> Thread | None:
    """Return the main thread, or the first thread if the main one has ended."""
    if not process.threads:
        return None
    return next((each for each in process.threads if each.main), process.threads[0])


def _first(members: Sequence[Member]) -> tuple[int, int]:
    first = members[0].process
    return (first.rank if first.rank is not None else 1 << 31, first.pid)


def _ranks_among(members: Iterable[Member]) -> tuple[int, ...]:
    return tuple(sorted({each.process.rank for each in members if each.process.rank is not None}))


def _world(session: Session) -> int:
    return max((each.world_size for each in session.processes), default=0)


def _ranks_of(session: Session) -> set[int]:
    return {each.rank for each in session.processes if each.rank is not None}


#: Identity of a process: address of its target, session and PID.
_Key = tuple[str, str, int]


class Staleness:
    """The stack of each process at the last `update`, and since when that stack has been the same."""

    def __init__(self) -> None:
        self._seen: dict[_Key, tuple[tuple[Frame, ...], float]] = {}
        self._now = 0.0

    def update(self, jobs: Iterable[Job], now: float) -> None:
        """Record the stacks of all processes.

        Args:
            now: seconds of a monotonic clock.
        """
        found: dict[_Key, tuple[tuple[Frame, ...], float]] = {}
        for job in jobs:
            for group in (*job.ranks, *job.others):
                for key in _keys(group):
                    frames, since = self._seen.get(key, (group.frames, now))
                    found[key] = (group.frames, since if frames == group.frames else now)
        self._seen, self._now = found, now

    def seconds(self, group: Group) -> float:
        """Return for how many seconds no stack of the group has changed.

        A stack that changes and changes back between two updates counts as unchanged.
        """
        return self._now - max(
            (self._seen[key][1] for key in _keys(group) if key in self._seen), default=self._now
        )


def _keys(group: Group) -> list[_Key]:
    return [(each.session.address, each.session.id, each.process.pid) for each in group.members]
