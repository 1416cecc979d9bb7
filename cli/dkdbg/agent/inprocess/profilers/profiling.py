"""Profiles the processes of the program that were selected by name or rank, from their first line on.

nsys has to start the process that it profiles. So the process executes (exec) nsys, which keeps pid, parent and exit
code, and nsys starts the same command line again with the same interpreter. py-spy profiles from outside, torch's
profiler from inside. Each process, profiled or not, adds a note to a file in the session's folder, for the agent's
report at the end.
"""

# ruff: noqa: ANN401

from __future__ import annotations

import json
import os
import re
import sys

from .. import choosing, ranks
from . import tools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence

#: The agent's request as JSON: `folder` for the files, and `tools`, each with its `tool`, `patterns` and
#: `ranks`, the `path` of its program and further `options`.
ENV = "DKDBG_PROFILE"
#: Variable that is set in a profiled process, so that its children are not profiled. Its value is `nsys` from the exec
#: of nsys until the process has started the other profilers, then `all`.
ENV_PROFILED = "DKDBG_PROFILED"
#: Variable that is set for drivers of Ray, see ray/driver.py.
RAY = "DKDBG_RAY_WORKERS"
#: File in the session's folder with the notes: a line of JSON for each process that could have been profiled.
NAME = "profiled"
ENDINGS = {"nsys": ".nsys-rep", "py-spy": ".speedscope.json", "torch": ".trace.json"}
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def names(argv: Sequence[str], environment: Any, rank: Optional[int]) -> List[str]:
    """Return the names that a pattern may match for this command line; the first is used in file names and reports."""
    what = choosing.program(argv)
    stem = what[:-3] if what.endswith(".py") else what
    worker = stem if rank is None else "%s-rank%d" % (stem, rank)
    own = ["rank%d" % rank] if rank is not None else []
    return [worker, stem, what, *own, environment.get("ROLE_NAME", "")]  # torchrun's --role


def begin(directory: str, argv: List[str]) -> None:
    """Start the profilers of this process; with nsys this does not return. `directory` is the session's folder."""
    state = os.environ.get(ENV_PROFILED, "")
    if state not in ("", "nsys") or choosing.is_launcher(argv) or "--multiprocessing-fork" in argv:
        return
    wanted: Dict[str, Any] = json.loads(os.environ[ENV])
    below = choosing._is_below(directory)
    rank = choosing.rank_of(os.environ, argv, "", below=below, parents=None)
    given = choosing.rank_of(
        os.environ, argv, "", below=True, parents=None
    )  # only a rank from a launcher: a single process is rank 0, but its name does not say so
    # Patterns do not apply to a Ray driver itself: they are for its actors (ray_profile.py).
    known = names(argv, os.environ, given)
    worker = _UNSAFE.sub("_", known[0]) or "python"
    known = [] if RAY in os.environ else known
    found = {
        each["tool"]: (each, why) for each in wanted["tools"] for why in [reason(each, known, rank)] if why
    }
    if not found and not state:
        append(directory, {"pid": os.getpid(), "worker": worker})
        return
    base = os.path.join(wanted["folder"], "%s_%s" % (worker, os.getpid()))
    if "nsys" in found and not state:
        tool, why = found["nsys"]
        base = os.path.join(wanted["folder"], worker)
        _tell(directory, "nsys", (worker, why), "%s_%d%s" % (base, os.getpid(), ENDINGS["nsys"]), base=base)
        os.environ[ENV_PROFILED] = "nsys"
        sys.stderr.flush()
        nsys_argv = [*tools.nsys_line(tool, base), sys.executable, *argv[1:]]
        os.execv(nsys_argv[0], nsys_argv)  # noqa: S606
    os.environ[ENV_PROFILED] = "all"
    for name, (tool, why) in found.items():
        path = tools.free(base, ENDINGS[name])
        if name == "py-spy":
            _tell(
                directory,
                name,
                (worker, why),
                path,
                by=tools.start_py_spy(tool["path"], tool["options"], path),
            )
        elif name == "torch":
            _tell(directory, name, (worker, why), path)
            from . import torch_profile

            torch_profile.follow(path, tool["steps"])


def reason(tool: Dict[str, Any], known: Sequence[str], rank: Optional[int]) -> str:
    """Return why a tool is to profile a process; empty if it is not."""
    pattern = tools.matched(known, tool["patterns"])
    if pattern:
        return "matched pattern '%s'" % pattern
    if tool["ranks"] and rank is not None and ranks.parse(tool["ranks"]).contains(rank):
        return "rank %d" % rank
    return ""


def _tell(directory: str, tool: str, who: Sequence[str], path: str, *, base: str = "", by: int = 0) -> None:
    worker, why = who
    sys.stderr.write("dkdbg: %s profiling enabled for worker '%s' (%s)\n" % (tool, worker, why))
    line = {
        "pid": os.getpid(),
        "worker": worker,
        "tool": tool,
        "why": why,
        "path": path,
        "base": base,
        "by": by,
    }
    append(directory, line)


def append(directory: str, entry: Dict[str, Any]) -> None:
    """Append a note to the file NAME with a single write, so that lines of several processes do not mix."""
    file = os.open(
        os.path.join(directory, NAME), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
    )
    try:
        os.write(file, json.dumps(entry).encode() + b"\n")
    finally:
        os.close(file)
