"""What a process is, in the words that an editor shows: `train.py`, `rank 3 (train.py)`, `DataLoader worker 2 of rank 0`.

Pure, from what the hook has written about a process. Only what is known is said: a process that nothing is known of
keeps its pid as its name.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional, Sequence

    from dkdbg.agent import contract

#: Options of the interpreter that take the next word.
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_FORKSERVER = "multiprocessing.forkserver"
#: Processes that serve others, by a word of their command line; hidden unless asked for (DKDBG_HOUSEKEEPING).
_SERVING = (
    ("multiprocessing.resource_tracker", "multiprocessing resource tracker"),
    ("multiprocessing.semaphore_tracker", "multiprocessing semaphore tracker"),
    ("torch/_inductor/compile_worker", "torch compile worker"),
    ("torch._inductor.compile_worker", "torch compile worker"),
    ("ray/dashboard/", "Ray dashboard"),
    ("ray/autoscaler/", "Ray autoscaler"),
    ("ray/_private/log_monitor.py", "Ray log monitor"),
    ("ray/_private/runtime_env/agent", "Ray runtime environment agent"),
)
_SPAWN = ("--multiprocessing-fork", "multiprocessing.spawn", _FORKSERVER)


def program(argv: Sequence[str]) -> str:
    """Return what a Python command line runs: `train.py`, `python -m pkg`, `python -c`, `python`."""
    words: List[str] = list(argv[1:])
    while words:
        word = words.pop(0)
        if word == "-m" and words:
            return "python -m %s" % words[0]
        if word.startswith("-m") and len(word) > 2 and not word.startswith("--"):
            return "python -m %s" % word[2:]
        if word.startswith("-c"):
            return "python -c"
        if word in _WITH_VALUE and words:
            words.pop(0)
        elif not word.startswith("-"):
            return os.path.basename(word.rstrip("/")) or word
    return "python"


def command(argv: Sequence[str]) -> str:
    """Return what any command line runs, without its arguments: they may hold secrets."""
    first = os.path.basename(argv[0]) if argv else ""
    return program(argv) if first.startswith("python") else first


def describe(process: contract.Process, parent: Optional[contract.Process] = None) -> str:
    """Return the name of a process.

    Args:
        parent: the registered process that it was started by or forked from, if there is one.
    """
    kind, _, detail = process["origin"].partition(":")
    if kind == "dataloader":
        return "DataLoader worker %s of %s" % (detail, _whose(process, parent))
    if kind == "multiprocessing":
        return "multiprocessing worker %s of %s" % (detail, _whose(process, parent))
    for mark, name in _SERVING:
        if any(mark in word for word in process["argv"]):
            return "%s of %s" % (name, _whose(process, parent))
    if is_forkserver(process) and parent is not None and parent["pid"] == process["ppid"]:
        return "multiprocessing forkserver of %s" % _whose(process, parent)
    if any(mark in word for word in process["argv"] for mark in _SPAWN):
        return "multiprocessing worker of %s" % _whose(process, parent)
    what = program(process["argv"])
    if kind == "fork":
        return "%s (%d), forked from %d" % (what, process["pid"], process["ppid"])
    if process["rank"] is None:
        return what
    if parent is not None and parent["rank"] == process["rank"]:  # the variable is inherited
        return "%s (%d) of rank %d" % (what, process["pid"], process["rank"])
    return "rank %d (%s)" % (process["rank"], what)


def is_forkserver(process: contract.Process) -> bool:
    """Tell whether it is a forkserver or was forked from one: they have one command line."""
    return any(_FORKSERVER in word for word in process["argv"])


def _whose(process: contract.Process, parent: Optional[contract.Process]) -> str:
    if process["rank"] is not None:
        return "rank %d" % process["rank"]
    if parent is not None:
        return "%s (%d)" % (program(parent["argv"]), parent["pid"])
    return str(process["ppid"])
