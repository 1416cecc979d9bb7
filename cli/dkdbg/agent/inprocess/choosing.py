"""Which processes are debugged when a set of ranks was chosen; the agent and the process itself decide by these rules.

A process that was not chosen runs free: it does not join, nothing is traced, `breakpoint()` goes on. A process belongs
to the rank that its launcher gave it, or torch.multiprocessing as the number of its process (parent_lookup.py). One that says nothing of itself and was forked belongs to the rank of its parent,
as a worker of a DataLoader does; the first Python of a job is rank 0, unless it is a launcher; all others have no rank.
"""

from __future__ import annotations

import itertools
import os

from . import site_entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping, Optional, Sequence

    from .member import Member
    from .ranks import RankSet

#: In the session's folder, while not all are chosen: the set, as it is written.
NAME = "ranks"
#: By which launchers tell a process its rank, best first; a test compares them with dkdbg.launchers.
VARIABLES = (
    "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "HOROVOD_RANK", "SLURM_PROCID", "PADDLE_TRAINER_ID",
)  # fmt: skip
#: What starts ranks and is none: programs and modules, of dkdbg.launchers as well.
LAUNCHERS = frozenset((
    "torchrun", "torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic", "mpirun", "mpiexec",
    "orterun", "mpiexec.hydra", "horovodrun", "horovod.runner.launch", "fleetrun", "paddle.distributed.launch", "lightning",
    "fabric", "accelerate", "accelerate-launch", "accelerate.commands.launch", "accelerate.commands.accelerate_cli",
    "deepspeed", "ds", "deepspeed.launcher.runner", "deepspeed.launcher.launch", "composer", "composer.cli.launcher",
    "colossalai",
))  # fmt: skip


def rank_of(
    environment: Mapping[str, str], argv: Sequence[str], origin: str, *, below: bool, parents: Optional[int]
) -> Optional[int]:
    """Return the rank that a process belongs to, None for none.

    Args:
        environment: its variables, at least those of launchers. argv: its command line.
        origin: how it came to be, see `origin` in contract.py.
        below: another Python process of the job has started it.
        parents: the rank of that one; of a process that torch.multiprocessing has started its own.
    """
    for name in VARIABLES:
        if environment.get(name, "").isdigit():
            return int(environment[name])
    if environment.get("LOCAL_RANK", "").isdigit() and environment.get("NODE_RANK", "") == "0":
        return int(environment["LOCAL_RANK"])  # Lightning
    if origin == "fork" or origin.startswith(("dataloader:", "rank:", "spawned:")):
        return parents
    if below or origin or "--multiprocessing-fork" in argv:
        return None
    return None if is_launcher(argv) else 0


def is_launcher(argv: Sequence[str]) -> bool:
    """Tell whether a Python command line is that of a launcher."""
    for position, word in enumerate(argv[1:], 1):
        if word == "-m":
            return any(name in LAUNCHERS for name in argv[position + 1 : position + 2])
        if not word.startswith("-"):
            return os.path.basename(word) in LAUNCHERS
    return False


def choice(directory: str) -> Optional[RankSet]:
    """Return the set that was chosen, None for all; `directory` is the session's folder."""
    try:
        with open(directory + "/" + NAME) as source:
            text = source.read()
    except OSError:
        return None
    from . import ranks

    try:
        return ranks.parse(text)
    except ranks.RankSetError:
        return None


def settle(member: Member) -> Optional[RankSet]:
    """Note which rank this process belongs to and whether it runs free; return the set, None for all."""
    chosen = choice(member.directory)
    if chosen is None:
        member.free = False
        return None
    member.rank = own_rank(member)
    member.free = not chosen.contains(member.rank)
    return chosen


def runs_free(directory: str) -> bool:
    """Tell whether this process is none of those that were chosen; the choice may have changed since its start."""
    if not os.path.exists(directory + "/" + NAME):
        return False
    from . import member

    found = member.of_this_process()
    if found is None or found.joined:  # the agent has asked it to join
        return False
    chosen = choice(directory)
    return chosen is not None and not chosen.contains(own_rank(found))


def own_rank(member: Member) -> Optional[int]:
    """Return the rank that this process belongs to; nobody may have asked for it at its start."""
    below = bool(member.origin) or _is_below(member.directory)
    return rank_of(os.environ, member.words, member.origin, below=below, parents=member.rank)


def _is_below(directory: str) -> bool:
    """Whether a Python process of the session is above this one."""
    parents = itertools.islice(site_entry.above(), 32)
    return any(pid > 1 and os.path.exists("%s/p/%d.json" % (directory, pid)) for pid in parents)
