"""Names of processes for an editor: `train.py`, `rank 3`, `DataLoader worker 2 of rank 0`.

Pure: the names derive from what each process has announced. A name states only known facts: an unknown process is named
by its pid.
"""

from __future__ import annotations

import os

from dkdbg.launchers import registry
from dkdbg.launchers.python import interpreted
from dkdbg.launchers.words import whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Sequence

    from dkdbg.agent import contract
    from dkdbg.launchers.launcher import Launcher

_FORKSERVER = "multiprocessing.forkserver"
_NAMELESS = ("--multiprocessing-fork", _FORKSERVER, "exec(eval(sys.stdin.readline()))")
_SPAWN = ("--multiprocessing-fork", "multiprocessing.spawn", _FORKSERVER)


def is_generic(process: contract.Process) -> bool:
    """Tell whether the command line does not name the program, like that of a multiprocessing child.

    Such a process may learn its role later, from its parent (inprocess/parent_lookup.py).
    """
    return not process["origin"] and any(name in word for word in process["argv"] for name in _NAMELESS)


def is_first_rank_of(process: contract.Process, first: contract.Process) -> bool:
    """Tell whether `first`, which announced no rank, is rank 0 of the job of `process`.

    Lightning's rank 0 is the process that the user started; only the ranks that it starts have rank variables.
    """
    by_lightning = process["rank"] is not None and process["rank"] == process["local_rank"] != 0
    same = program(process["argv"]) == program(first["argv"]) and not _launcher_of(first["argv"])
    return (
        by_lightning
        and same
        and not process["origin"]
        and not first["origin"]
        and first["local_rank"] is None
    )


def program(argv: Sequence[str]) -> str:
    """Return the program of a Python command line: `train.py`, `torchrun`, `python -m pkg`, `python -c`, `python`."""
    found = interpreted(argv[1:])
    if found is None:
        return "python -c" if any(word.startswith("-c") for word in argv[1:]) else "python"
    if found.is_module:
        launcher = registry.of_module(found.what)
        return launcher.name if launcher else "python -m %s" % found.what
    return os.path.basename(found.what.rstrip("/")) or found.what


def command(argv: Sequence[str]) -> str:
    """Return the program of any command line, without its arguments: they may hold secrets."""
    first = os.path.basename(argv[0]) if argv else ""
    return program(argv) if first.startswith("python") else first


def describe(process: contract.Process, parent: Optional[contract.Process] = None) -> str:
    """Return the name of a process; `parent` is the registered process that started or forked it, if any."""
    kind, _, detail = process["origin"].partition(":")
    if kind == "dataloader":
        return "DataLoader worker %s of %s" % (detail, _whose(process, parent))
    if kind == "rank":
        if process["rank"] is None or process["rank"] == whole_number(detail):
            return "rank %s" % detail
        return "worker %s of %s" % (
            detail,
            _whose(process, parent),
        )  # its rank variable comes from an outer launcher
    if kind == "xdist":
        return "pytest %s" % detail
    if kind == "multiprocessing":
        return "multiprocessing worker %s of %s" % (detail, _whose(process, parent))
    for fragment, name in registry.helpers():
        if any(fragment in word for word in process["argv"]):
            return "%s of %s" % (name, _whose(process, parent))
    worker = registry.worker(process["argv"], process["pid"], parent["argv"] if parent else ())
    if worker:
        return "%s of %s" % (worker, _whose(process, parent)) if parent else worker
    if is_forkserver(process) and parent is not None and parent["pid"] == process["ppid"]:
        return "multiprocessing forkserver of %s" % _whose(process, parent)
    spawned = any(fragment in word for word in process["argv"] for fragment in _SPAWN)
    forked = kind in ("fork", "worker")
    child = _child_of(process, parent, "fork" if forked else "spawn" if spawned else "again")
    if child:
        nth = whole_number(
            detail if kind == "worker" else detail.rpartition("-")[2] if kind == "spawned" else ""
        )
        return "%s (%d)" % (child, process["pid"]) if nth is None else "%s %d" % (child, nth)
    if kind == "spawned":
        return "multiprocessing worker %s of %s" % (detail, _whose(process, parent))
    if spawned:
        return "multiprocessing worker of %s" % _whose(process, parent)
    what = program(process["argv"])
    if forked:
        return "%s (%d), forked from %d" % (what, process["pid"], process["ppid"])
    if process["rank"] is None:
        return what
    if parent is not None and parent["rank"] == process["rank"]:  # no rank: it inherited the variable
        return "%s (%d) of rank %d" % (what, process["pid"], process["rank"])
    return _rank(process)


def qualified(name: str, process: contract.Process, others: Sequence[str]) -> str:
    """Return the name, made unique if another process has the same."""
    if name not in others:
        return name
    if name == _rank(process) and (more := "%s of %s" % (program(process["argv"]), name)) not in others:
        return more
    return "%s (%d)" % (name, process["pid"])


def _rank(process: contract.Process) -> str:
    """Return `rank 3`, or `rank 3 (local 1)` in a job of several machines."""
    rank, local = process["rank"], process["local_rank"]
    if local is None or (rank == local and not process["spread"]):
        return "rank %s" % rank
    return "rank %s (local %d)" % (rank, local)


def _child_of(process: contract.Process, parent: Optional[contract.Process], how: str) -> str:
    """Return the name for a server's child that runs the app, such as uvicorn's; empty where unknown."""
    launcher = _launcher_of(parent["argv"]) if parent is not None else None
    if parent is None or launcher is None or launcher.child_by != how or parent["origin"]:
        return ""
    if how == "again" and _launcher_of(process["argv"]) is not launcher:
        return ""
    options = launcher.child_options
    asked = not options or any(word.partition("=")[0] in options for word in parent["argv"])
    return launcher.child if asked else ""


def _launcher_of(argv: Sequence[str]) -> Optional[Launcher]:
    found = interpreted(argv[1:])
    if found is None:
        return None
    if found.is_module:
        return registry.of_module(found.what)
    return registry.of_script(found.what) or registry.of_program(found.what)


def is_forkserver(process: contract.Process) -> bool:
    """Tell whether this is a forkserver or was forked from one: both have the same command line."""
    return any(_FORKSERVER in word for word in process["argv"])


def _whose(process: contract.Process, parent: Optional[contract.Process]) -> str:
    if process["rank"] is not None:
        return "rank %d" % process["rank"]
    if parent is not None:
        return "%s (%d)" % (program(parent["argv"]), parent["pid"])
    return str(process["ppid"])
