"""Which rank has not come to a collective in which the others wait, and which calls another one. Pure.

By the numbers that torch counts in each process group (its flight recorder). Processes are asked one after the other, and
run on meanwhile: what is younger than SETTLED says nothing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dkdbg.core.stacks import Collective, Process, ProcessGroup

#: Seconds that a rank has been in a collective before it is said to wait.
SETTLED = 0.5
#: What torch calls the group of all ranks.
DEFAULT = "default_pg"
#: What each rank calls with tensors of the same sizes.
_ALIKE = (
    "all_reduce",
    "allreduce",
    "broadcast",
    "reduce",
    "barrier",
    "all_gather_into_tensor",
    "_allgather_base",
)


@dataclass(frozen=True, kw_only=True)
class Late:
    """Ranks that have not come to a collective, to which others came.

    Attributes:
        group: of processes, for people. op: such as `all_reduce`. seq: the number of the collective there.
        late, waiting: ranks. age: seconds since the last of those who wait came.
    """

    group: str
    op: str
    seq: int
    late: tuple[int, ...]
    waiting: tuple[int, ...]
    age: float


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """A collective that ranks do not call alike.

    Attributes:
        calls: what is called, such as `all_reduce of Float [4]`, and by which ranks; the rarest first.
    """

    group: str
    seq: int
    calls: tuple[tuple[str, tuple[int, ...]], ...]
    age: float


def findings(processes: Iterable[Process]) -> list[Late | Mismatch]:
    """What is wrong, if anything is: what is not called alike before who waits for whom, the longest wait first.

    Args:
        processes: the ranks of one job.
    """
    ranks = {each.rank: each for each in processes if each.rank is not None and each.threads is not None}
    groups: dict[tuple[str, str], dict[int, ProcessGroup]] = defaultdict(dict)
    for rank, process in ranks.items():
        for group in process.collectives:
            groups[group.name, group.description][rank] = group
    found: list[Late | Mismatch] = []
    for (name, description), members in groups.items():
        last = {rank: group.last[-1].seq for rank, group in members.items()}
        if description == DEFAULT:  # who is in no collective yet is a member all the same
            last = {**dict.fromkeys(ranks, 0), **last}
        label = "of all ranks" if description == DEFAULT else f"of group {description or name}"
        found += [
            each for each in (_mismatch(label, members), _late(label, members, last)) if each is not None
        ]
    return sorted(found, key=lambda each: (isinstance(each, Late), -each.age))


def _late(label: str, members: Mapping[int, ProcessGroup], last: Mapping[int, int]) -> Late | None:
    first = min(last.values()) + 1
    late = tuple(sorted(rank for rank, seq in last.items() if seq < first))
    came = {rank: each for rank, group in members.items() if (each := _numbered(group, first)) is not None}
    waiting = tuple(sorted(rank for rank, seq in last.items() if seq >= first))
    if not came or min(each.age for each in came.values()) < SETTLED:
        return None
    op = came[min(came)].op
    return Late(
        group=label, op=op, seq=first, late=late, waiting=waiting, age=min(each.age for each in came.values())
    )


def _mismatch(label: str, members: Mapping[int, ProcessGroup]) -> Mismatch | None:
    """The first collective on record that is not called alike: some backends let the others go on to the next one."""
    for seq in sorted({each.seq for group in members.values() for each in group.last}):
        called = {
            rank: each for rank, group in members.items() if (each := _numbered(group, seq)) is not None
        }
        calls: dict[str, list[int]] = defaultdict(list)
        for rank, each in sorted(called.items()):
            alike = each.tensors if each.op in _ALIKE else ()
            calls[f"{each.op} of {', '.join(alike)}" if alike else each.op].append(rank)
        age = min(each.age for each in called.values())
        if len(calls) > 1 and age >= SETTLED:
            ordered = sorted(calls.items(), key=lambda each: (len(each[1]), each[1]))
            return Mismatch(
                group=label, seq=seq, calls=tuple((call, tuple(ranks)) for call, ranks in ordered), age=age
            )
    return None


def _numbered(group: ProcessGroup, seq: int) -> Collective | None:
    return next((each for each in group.last if each.seq == seq), None)
