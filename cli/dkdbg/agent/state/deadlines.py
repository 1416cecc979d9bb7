"""Time limits that keep running while the program is held: a batch job's, a probe's, a collective's (issue 33).

The agent finds those that its environment and its processes show. `dkdbg attach` sends those that only the host can ask
for, such as a pod's probes (messages.DEADLINES). `now` is in epoch seconds.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import time

from dkdbg.agent import console
from dkdbg.agent.state import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Iterable, List, Mapping, Optional, Tuple

    from dkdbg.agent import contract

#: Maximum deadlines of a session, and characters of their texts: another user may have written them.
MAX_DEADLINES, MAX_CHARACTERS = 20, 300
#: Maximum end in epoch seconds, and maximum span in seconds.
_MAX_S = 1e11
#: Seconds ahead beyond which a deadline is not reported: for a job without a limit, Slurm sets an end in one year.
_LONGEST_HOLD_S = 60 * 86400.0


def _slurm(environ: Mapping[str, str]) -> float:
    return float(environ["SLURM_JOB_END_TIME"])  # Slurm 22.05 or newer


def _torque(environ: Mapping[str, str]) -> float:
    return _start_of_job("PBS_JOBID") + float(environ["PBS_WALLTIME"])  # OpenPBS does not set PBS_WALLTIME


#: A row for each batch system that tells a job its time limit: its name, the job's variable, and the end of the job in
#: epoch seconds. LSF sets no such variable; its target asks bjobs.
#: Source: sbatch(1), OUTPUT ENVIRONMENT VARIABLES; Torque's qsub(1B), ENVIRONMENT VARIABLES.
_ROWS: Tuple[Tuple[str, str, Callable[[Mapping[str, str]], float]], ...] = (
    ("Slurm", "SLURM_JOB_ID", _slurm),
    ("PBS", "PBS_JOBID", _torque),
)
#: The command that gives a job more time; most sites let only operators extend a running one.
_LIFTS = {
    "Slurm": "scontrol update JobId=%s TimeLimit=+60",
    "PBS": "qalter -l walltime=HH:MM:SS %s",
    "LSF": "bmod -W MINUTES %s",
}


def of_job(system: str, job: str, ends: float) -> contract.Deadline:
    """Return the time limit of a job. Agent and host both call this; `merged` drops the second by its equal text."""
    what = "%s ends job %s" % (system, job.partition(".")[0])  # 12 of PBS's 12.server
    return {
        "what": what,
        "ends": ends,
        "after": None,
        "lift": _LIFTS[system] % job if system in _LIFTS else "",
    }


def of_environment(environ: Mapping[str, str]) -> List[contract.Deadline]:
    """Return the deadlines that the agent's own environment contains."""
    found: List[contract.Deadline] = []
    for system, variable, ends in _ROWS:
        with contextlib.suppress(KeyError, ValueError):
            found.append(of_job(system, environ.get(variable, "")[:100], ends(environ)))
    return parse(found)


def of_parents(pids: Iterable[int]) -> List[contract.Deadline]:
    """Return the deadlines of coreutils' `timeout DURATION COMMAND` for the agent, `pids` or one of their parents."""
    seen: Dict[int, float] = {}
    for first in [os.getpid(), *pids]:
        pid = first
        while pid > 1 and pid not in seen:
            seen[pid] = _timeout_of(pid)
            pid = procfs.parent(pid)
    found: List[contract.Deadline] = []
    for pid, seconds in sorted(seen.items()):
        start = start_of(pid)
        if seconds and start is not None:
            what = "timeout (pid %d) ends its command" % pid
            found.append({"what": what, "ends": start + seconds, "after": None, "lift": ""})
    return parse(found)


def _timeout_of(pid: int) -> float:
    """Return the seconds of `timeout DURATION`; 0 for any other command, and for no limit."""
    program, *arguments = procfs.command_line(pid) or [""]
    if os.path.basename(program) != "timeout":
        return 0.0
    while arguments and arguments[0].startswith("-"):
        arguments = (
            arguments[2:] if arguments[0] in ("-k", "-s", "--kill-after", "--signal") else arguments[1:]
        )
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", arguments[0]) if arguments else None
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]] if match else 0.0


def parse(said: object) -> List[contract.Deadline]:
    """Return the valid deadlines of an untrusted list, with printable texts."""
    found: List[contract.Deadline] = []
    for each in said[:MAX_DEADLINES] if isinstance(said, list) else ():
        with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
            ends, after = _number(each["ends"]), _number(each["after"])
            what, lift = (console.printable(str(each[key]))[:MAX_CHARACTERS] for key in ("what", "lift"))
            if what and (ends is None or after is None):
                found.append({"what": what, "ends": ends, "after": after, "lift": lift})
    return found


def merged(*lists: Iterable[contract.Deadline]) -> List[contract.Deadline]:
    """Return all deadlines, but only the first of those with the same text."""
    found: Dict[str, contract.Deadline] = {}
    for each in [one for some in lists for one in some]:
        found.setdefault(each["what"], each)
    return list(found.values())


def left(deadline: contract.Deadline, now: float) -> Optional[float]:
    """Return the seconds until a deadline, negative after it; None if it depends on the hold's length or is unknown."""
    return None if deadline["ends"] is None else deadline["ends"] - now


def as_json(found: Iterable[contract.Deadline], now: float) -> List[Dict[str, object]]:
    """Return deadlines for `--json`: `what`, `lift`, `left_s` (seconds from now) or `after_s` (from a hold's start)."""
    return [
        {
            "what": each["what"],
            "left_s": None if rest is None else round(rest, 1),
            "after_s": each["after"],
            "lift": each["lift"],
        }
        for each in found
        for rest in [left(each, now)]
    ]


def soonest(found: Iterable[contract.Deadline], now: float) -> str:
    """Return the time until the next deadline, such as `52 min`; empty where none is known."""
    known = [rest for each in _coming(found, now) for rest in [left(each, now)] if rest is not None]
    return span(min(known)) if known else ""


def described(deadline: contract.Deadline, now: float) -> str:
    """Return one deadline as text, `Slurm ends job 12 in 52 min (more time: scontrol ...)`."""
    rest, when = left(deadline, now), ""
    if rest is not None:
        when = " in %s" % span(rest)
    elif deadline["after"] is not None:
        when = " after %s without an answer" % span(deadline["after"])
    more = " (more time: %s)" % deadline["lift"] if deadline["lift"] else ""
    return "%s%s%s" % (deadline["what"], when, more)


def line(deadlines: Iterable[contract.Deadline], now: float) -> str:
    """Return a line that lists the deadlines which a stop in the debugger may exceed; empty if none is known."""
    found = [described(each, now) for each in _coming(deadlines, now)]
    return "keeps running while you hold the program: %s" % "; ".join(found) if found else ""


def _coming(deadlines: Iterable[contract.Deadline], now: float) -> List[contract.Deadline]:
    """Return the deadlines that a stop may reach: those neither past nor more than _LONGEST_HOLD_S ahead."""
    return [each for each in deadlines if 0.0 <= (left(each, now) or 0.0) < _LONGEST_HOLD_S]


def span(seconds: float) -> str:
    """Return a duration as `90 s`, `52 min` or `30 h`, rounded down."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return "%d %s" % (seconds // size, unit)
    return "%d s" % max(0.0, seconds)


def _number(value: object) -> Optional[float]:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(value)
    if not math.isfinite(value) or not 0.0 <= value < _MAX_S:
        raise ValueError(value)
    return float(value)


def _start_of_job(variable: str) -> float:
    """Return the start, in epoch seconds, of the job's script: the outermost parent process with this variable.

    Raises:
        ValueError: the start is unknown.
    """
    pid, first = os.getpid(), 0
    while pid > 1 and variable in (procfs.environment(pid) or ()):
        first, pid = pid, procfs.parent(pid)
    start = start_of(first)
    if start is None:
        raise ValueError("no start")
    return start


def start_of(pid: int) -> Optional[float]:
    """Return a process's start in epoch seconds; None when it is gone, or /proc is missing."""
    ticks, uptime = procfs.start_ticks(pid), procfs.uptime()
    return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK") if uptime and ticks is not None else None
