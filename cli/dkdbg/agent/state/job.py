"""Finds the processes that are the ranks of one job: the debugger stops and continues them together. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import FrozenSet, Iterable, List

    from dkdbg.agent import contract


class Share:
    """One agent's share of a job.

    Args:
        world: number of ranks of the whole job, 0 where unknown. ranks: those on this agent.
    """

    def __init__(self, world: int, ranks: Iterable[int]) -> None:
        self.world = world
        self.ranks: FrozenSet[int] = frozenset(ranks)

    def belongs_to(self, other: Share) -> bool:
        """Tell whether two shares belong to one job: the job sizes are equal, and no rank is in both.

        Two different jobs of the same size have ranks in common.
        """
        return self.world > 1 and self.world == other.world and not self.ranks & other.ranks


def share(processes: Iterable[contract.Process]) -> Share:
    """Return the share of a job that consists of these processes, which are ranks."""
    found = list(processes)
    worlds = {each["world_size"] or 0 for each in found}
    numbers = [each["rank"] for each in found if each["rank"] is not None]
    return Share(worlds.pop() if len(worlds) == 1 else 0, numbers)


def own(processes: Iterable[contract.Process]) -> List[contract.Process]:
    """Return the processes that are ranks, without their child processes, which inherit the rank variable."""
    known = {process["pid"]: process for process in processes}

    def inherits(process: contract.Process) -> bool:
        parent = known.get(process["ppid"])
        return parent is not None and parent["rank"] == process["rank"]

    above = {each["ppid"] for each in known.values() if _is_started_as_rank(each)}
    return [
        each
        for pid, each in known.items()
        if each["rank"] is not None and pid not in above and (_is_started_as_rank(each) or not inherits(each))
    ]


def ranks(processes: Iterable[contract.Process], least: int = 2) -> List[contract.Process]:
    """Return the ranks of a job in order; empty when there are fewer than `least`."""
    found = [each for each in own(processes) if each["world_size"] != 1]
    is_job = len({each["rank"] for each in found}) >= least
    return sorted(found, key=lambda each: (each["rank"] or 0, each["pid"])) if is_job else []


def _is_started_as_rank(process: contract.Process) -> bool:
    """Tell whether torch.multiprocessing started this process as a rank.

    Its parent may count as rank 0, like a job's first process.
    """
    return process["origin"].startswith("rank:")
