"""Rules for which processes a set of ranks selects, shared by the agent and the processes themselves.

A process that is not selected runs free: it does not join, nothing is traced, and `breakpoint()` does not
stop. A process belongs to the rank that its launcher gave it, or to the one by its process number in
torch.multiprocessing (parent_lookup.py). A forked process without rank variables, like a DataLoader worker,
belongs to its parent's rank. The first Python of a job belongs to rank 0, unless it is a launcher. All others have
no rank.
"""

from __future__ import annotations

import itertools
import os

from . import site_entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping, Optional, Sequence, Tuple

    from .hook.sitecustomize import _Member as Member
    from .ranks import RankSet

#: File in the session's folder with the selected set in text form; absent while all ranks are selected.
NAME = "ranks"
#: Variables in which launchers pass a process its rank, the most reliable first; a test compares them with
#: dkdbg.launchers.
VARIABLES = (
    "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "HOROVOD_RANK", "SLURM_PROCID", "PADDLE_TRAINER_ID",
)  # fmt: skip
#: Programs and modules that start ranks without being one. Copied from dkdbg.launchers, which this process cannot
#: import; a test compares them.
LAUNCHERS = frozenset((
    "torchrun", "torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic", "mpirun", "mpiexec",
    "orterun", "mpiexec.hydra", "horovodrun", "horovod.runner.launch", "fleetrun", "paddle.distributed.launch", "lightning",
    "fabric", "accelerate", "accelerate-launch", "accelerate.commands.launch", "accelerate.commands.accelerate_cli",
    "deepspeed", "ds", "deepspeed.launcher.runner", "deepspeed.launcher.launch", "composer", "composer.cli.launcher",
    "colossalai",
))  # fmt: skip


def whole_number(text: str) -> Optional[int]:
    """Return up to 18 ASCII digits as a number, None for any other text. A copy of the one in dkdbg.launchers.words."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def rank_of(
    environment: Mapping[str, str], argv: Sequence[str], origin: str, *, below: bool, parents: Optional[int]
) -> Optional[int]:
    """Return the rank that a process belongs to, None if it has no rank.

    Args:
        environment: its environment variables, at least those of launchers. argv: its command line.
        origin: how it was created, see `origin` in contract.py.
        below: whether it descends from another Python process of the job.
        parents: the parent's rank; for a rank of torch.multiprocessing, its own.
    """
    for name in VARIABLES:
        found = whole_number(environment.get(name, ""))
        if found is not None:
            return found
    local = whole_number(environment.get("LOCAL_RANK", ""))
    if local is not None and environment.get("NODE_RANK", "") == "0":
        return local  # Lightning
    if origin == "fork" or origin.startswith(("dataloader:", "rank:", "spawned:")):
        return parents
    if below or origin or "--multiprocessing-fork" in argv:
        return None
    return None if is_launcher(argv) else 0


def is_launcher(argv: Sequence[str]) -> bool:
    """Tell whether a Python command line is that of a launcher."""
    return program(argv) in LAUNCHERS


def program(argv: Sequence[str]) -> str:
    """Return the program of a Python command line: the script's name, the module's, or `python`."""
    _, kind, name = what_runs(argv)
    return os.path.basename(name) if kind == "file" else name or "python"


def what_runs(argv: Sequence[str]) -> Tuple[str, str, str]:
    """Return the option letters of a Python command line, the kind of program that it runs, and the program's name.

    The kind is `file`, `module`, `code` (without a name), or empty for an interactive session or standard input.
    """
    flags, rest = "", list(argv[1:])
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            return flags, "file", word
        if word == "-":
            break
        if word == "--check-hash-based-pycs":
            rest[:1] = []
        for position, letter in enumerate("" if word.startswith("--") else word[1:], 2):
            if letter == "c":
                return flags, "code", ""
            if letter == "m":
                return flags, "module", word[position:] or "".join(rest[:1])
            if letter in "WX":  # with a value
                if not word[position:]:
                    rest[:1] = []
                break
            flags += letter
    return flags, "", ""


def choice(directory: str) -> Optional[RankSet]:
    """Return the selected ranks, None if all are selected; `directory` is the session's folder."""
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
    """Record which rank this process belongs to and whether it runs free; return the selected ranks, None for all."""
    chosen = choice(member.directory)
    if chosen is None:
        member.free = False
        return None
    member.belongs = own_rank(member)
    member.free = not chosen.contains(member.belongs)
    return chosen


def runs_free(directory: str) -> bool:
    """Tell whether this process is not selected; the selection may have changed since its start."""
    if not os.path.exists(directory + "/" + NAME):
        return False
    from . import session

    found = session.member()
    if found is None or found.joined:  # a joined process does not run free, whatever its rank
        return False
    chosen = choice(directory)
    return chosen is not None and not chosen.contains(own_rank(found))


def own_rank(member: Member) -> Optional[int]:
    """Return the rank that this process belongs to. Compute it anew: at its start there may have been no selection."""
    below = bool(member.origin) or _is_below(member.directory)
    parents = member.belongs if member.rank is None else member.rank
    return rank_of(os.environ, member.argv, member.origin, below=below, parents=parents)


def _is_below(directory: str) -> bool:
    """Tell whether this process descends from a Python process of the session."""
    parents = itertools.islice(site_entry.above(), 32)
    return any(pid > 1 and os.path.exists("%s/p/%d.json" % (directory, pid)) for pid in parents)
