"""Which of the processes are the ranks of one job: those that stop, go on and wait for each other together. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import FrozenSet, Iterable, List

    from dkdbg.agent import contract


class Share:
    """What one agent has of a job.

    Args:
        world: how many ranks the whole job has, 0 where nothing says it. ranks: which of them are here.
    """

    def __init__(self, world: int, ranks: Iterable[int]) -> None:
        self.world = world
        self.ranks: FrozenSet[int] = frozenset(ranks)

    def belongs_to(self, other: Share) -> bool:
        """Tell whether both are of one job: as large, and no rank is in both.

        Two jobs of one size that run beside each other have the same numbers.
        """
        return self.world > 1 and self.world == other.world and not self.ranks & other.ranks


def share(processes: Iterable[contract.Process]) -> Share:
    """Return what these ranks are of their job."""
    found = list(processes)
    worlds = {each["world_size"] or 0 for each in found}
    numbers = [each["rank"] for each in found if each["rank"] is not None]
    return Share(worlds.pop() if len(worlds) == 1 else 0, numbers)


def own(processes: Iterable[contract.Process]) -> List[contract.Process]:
    """Return those that are ranks themselves: what a rank has started (a DataLoader's worker) inherits its number."""
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
    """Return the ranks, by number; none when there are fewer than `least`."""
    found = [each for each in own(processes) if each["world_size"] != 1]
    is_job = len({each["rank"] for each in found}) >= least
    return sorted(found, key=lambda each: (each["rank"] or 0, each["pid"])) if is_job else []


def _is_started_as_rank(process: contract.Process) -> bool:
    """By torch.multiprocessing: what has started it may count as rank 0, as the first process of a job does."""
    return process["origin"].startswith("rank:")
