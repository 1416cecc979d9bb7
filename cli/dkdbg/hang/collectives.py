"""Find ranks that are late for a collective, or call a different one than the others. Pure.

Compare the sequence numbers that torch's flight recorder keeps for each process group. Running processes are queried
one after the other, so a collective younger than SETTLED_S proves nothing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dkdbg.core.stacks import Collective, Process, ProcessGroup

#: Minimum seconds in a collective after which a rank counts as waiting.
SETTLED_S = 0.5
#: Torch's name for the group of all ranks.
DEFAULT = "default_pg"
#: Collectives that every rank calls with tensors of equal sizes.
_SYMMETRIC = (
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
    """Ranks that are missing from a collective that others have reached.

    Attributes:
        group: label of the process group, for messages.
        op: operation, such as `all_reduce`.
        seq: sequence number of the collective in the group.
        late, waiting: ranks that have not reached the collective, and ranks that have.
        age: seconds since the last of the waiting ranks arrived.
    """

    group: str
    op: str
    seq: int
    late: tuple[int, ...]
    waiting: tuple[int, ...]
    age: float


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """A collective that ranks call differently.

    Attributes:
        calls: each call, such as `all_reduce of Float [4]`, with its ranks; the rarest first.
    """

    group: str
    seq: int
    calls: tuple[tuple[str, tuple[int, ...]], ...]
    age: float


def findings(processes: Iterable[Process]) -> list[Late | Mismatch]:
    """Return mismatches, then late ranks; in both, the longest wait comes first.

    Args:
        processes: the ranks of one job. Ranks whose collectives are unknown count as neither late nor waiting.
    """
    ranks = {
        each.rank: each.collectives
        for each in processes
        if each.rank is not None and each.threads is not None and each.collectives is not None
    }
    groups: dict[tuple[str, str], dict[int, ProcessGroup]] = defaultdict(dict)
    for rank, collectives in ranks.items():
        for group in collectives:
            groups[group.name, group.description][rank] = group
    found: list[Late | Mismatch] = []
    for (name, description), members in groups.items():
        last = {rank: group.last[-1].seq for rank, group in members.items()}
        if description == DEFAULT:  # includes ranks that have not called a collective yet
            last = {**dict.fromkeys(ranks, 0), **last}
        label = "of all ranks" if description == DEFAULT else f"of group {description or name}"
        found += [
            each for each in (_mismatch(label, members), _late(label, members, last)) if each is not None
        ]
    return sorted(found, key=lambda each: (isinstance(each, Late), -each.age))


def _late(label: str, members: Mapping[int, ProcessGroup], last: Mapping[int, int]) -> Late | None:
    first = min(last.values()) + 1
    late = tuple(sorted(rank for rank, seq in last.items() if seq < first))
    arrived = {rank: each for rank, group in members.items() if (each := _numbered(group, first)) is not None}
    waiting = tuple(sorted(rank for rank, seq in last.items() if seq >= first))
    if not arrived or min(each.age for each in arrived.values()) < SETTLED_S:
        return None
    op = arrived[min(arrived)].op
    return Late(
        group=label,
        op=op,
        seq=first,
        late=late,
        waiting=waiting,
        age=min(each.age for each in arrived.values()),
    )


def _mismatch(label: str, members: Mapping[int, ProcessGroup]) -> Mismatch | None:
    """Return the earliest recorded collective that ranks call differently; None if all calls agree.

    All recorded collectives are compared, because some backends let the other ranks continue past a mismatch.
    """
    for seq in sorted({each.seq for group in members.values() for each in group.last}):
        called = {
            rank: each for rank, group in members.items() if (each := _numbered(group, seq)) is not None
        }
        calls: dict[str, list[int]] = defaultdict(list)
        for rank, each in sorted(called.items()):
            alike = each.tensors if each.op in _SYMMETRIC else ()
            calls[f"{each.op} of {', '.join(alike)}" if alike else each.op].append(rank)
        age = min(each.age for each in called.values())
        if len(calls) > 1 and age >= SETTLED_S:
            ordered = sorted(calls.items(), key=lambda each: (len(each[1]), each[1]))
            return Mismatch(
                group=label, seq=seq, calls=tuple((call, tuple(ranks)) for call, ranks in ordered), age=age
            )
    return None


def _numbered(group: ProcessGroup, seq: int) -> Collective | None:
    return next((each for each in group.last if each.seq == seq), None)
