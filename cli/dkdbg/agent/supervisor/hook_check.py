"""Detects Python processes of the program that have not loaded the agent's hook: breakpoints never stop them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time

from dkdbg.agent import console, settings
from dkdbg.agent.inprocess import choosing, entered
from dkdbg.agent.state import naming, notes, procfs
from dkdbg.launchers.lines import wrappers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Callable, Collection, Dict, List, Optional, Sequence, Set

    from dkdbg.agent.state import announced

#: Seconds from the program's start to a report: even a slow program has announced itself by then.
TIMEOUT_S = 10.0
#: Seconds that a Python has after its start to announce itself; seconds between two checks.
ANNOUNCE_TIMEOUT_S, INTERVAL_S = 3.0, 1.0
#: Messages about a program, and about one of its processes.
NOT_LOADED = (
    "no Python process of the program has loaded the agent so far; breakpoints stop only processes that have"
)
PROCESS_NOT_LOADED = "%s (pid %d) has not loaded the agent, so no breakpoint stops it: %s"
PROCESS_REFUSED = "%s (pid %d) cannot be debugged: it %s (a sandbox, seccomp?)"
#: Maximum characters of the reason that a process has written to PID.failed.
_MAX_REASON = 200
#: Advice after NOT_LOADED: for a binary that may hold a Python, and for any other program.
_NO_PYTHON = "if %s is a frozen or embedded Python, run the program from its source"
_USUAL = "if one has started: python -S keeps the agent out; outside of containers -I, -E and another PYTHONPATH do too"
_PYTHON = re.compile(r"(python|pypy|graalpy)[0-9.]*$")
#: Arguments that name a Python or a script, also within a command line: `script -c "python train.py"`.
_NAMES_PYTHON = re.compile(r"(^|[\s/])python[0-9.]*(\s|$)|\.py(\s|$)")
_SHELLS = ("sh", "ash", "bash", "busybox", "dash", "fish", "zsh")
#: Part of a forkserver's command line; a forkserver never joins a session, its forked children do.
_FORKSERVER = "multiprocessing.forkserver"


class HookCheck:
    """Reports that the hook was not loaded: once for the program, and once for each name of a process.

    Args:
        folders: where processes announce themselves.

    Attributes:
        hook: the hook's folder, as written in PYTHONPATH; empty before the program's first start.
    """

    def __init__(self, folders: announced.Folders) -> None:
        self.hook = ""
        self._folders = folders
        self._before: Dict[str, int] = {}
        self._is_reported = False
        self._command: Sequence[str] = ()
        self._checked_at = 0.0
        self._since: Dict[int, float] = {}
        self._reported: Set[str] = set()
        self._functions: Optional[ModuleType] = None

    def begin(self, command: Sequence[str]) -> None:
        """Record that the program is about to start, with this command."""
        self._command = command
        self._before, self._is_reported = self._changed(), False
        self._since, self._reported = {}, set()

    def message(self) -> str:
        """Return, once, the message that no process of the program has announced itself; empty if one has."""
        if (
            self._is_reported
            or self._reported
            or any(changed != self._before.get(folder, 0) for folder, changed in self._changed().items())
        ):
            return ""
        self._is_reported = True
        foreign = _foreign(self._command)
        return "%s; %s" % (NOT_LOADED, _NO_PYTHON % foreign if foreign else _USUAL)

    def check(self, program: int, announced: Collection[int], *, attached: bool) -> List[str]:
        """Return messages about Pythons below the pid `program` that have not announced themselves.

        Args:
            attached: whether an editor is attached; /proc is not searched until INTERVAL_S after the attach.
        """
        now = time.monotonic()
        if not attached:
            self._checked_at = now
        if now < self._checked_at + INTERVAL_S:
            return []
        self._checked_at = now
        parents = procfs.parents()
        silent = procfs.below([program], parents).difference(announced)
        lines = self._refused(silent)
        found = unhooked(silent, parents, announced, self._folders, self._leaves_out)
        if found:
            self._command = ()
        self._since = {pid: self._since.get(pid, now) for pid in found}
        for pid, argv in found.items():
            name = naming.program(argv)
            if now >= self._since[pid] + ANNOUNCE_TIMEOUT_S and name not in self._reported:
                self._reported.add(name)
                reason = self._folders.why_no_access(pid) or why(pid, argv, self.hook)
                lines.append(PROCESS_NOT_LOADED % (name, pid, reason))
        return lines

    def _refused(self, pids: Collection[int]) -> List[str]:
        """Return messages about processes that have loaded the hook but could not announce themselves (a sandbox)."""
        lines = []
        for pid in pids:
            with contextlib.suppress(OSError, ValueError), notes.opened(
                self._folders.path(pid, ".failed")
            ) as source:
                name = naming.command(procfs.command_line(pid))
                if name not in self._reported:
                    self._reported.add(name)
                    lines.append(PROCESS_REFUSED % (name, pid, console.printable(source.read(_MAX_REASON))))
        return lines

    def runs_program(self, pid: int) -> bool:
        """Tell whether a process is a Python that runs a user's program."""
        return python_words(pid, self._leaves_out) is not None

    def _leaves_out(self, argv: List[str]) -> bool:
        if self._functions is None:  # compiled only where a Python has not announced itself
            self._functions = entered.hook_functions(os.path.dirname(self.hook))
        return bool(self._functions._is_housekeeping(argv))

    def _changed(self) -> Dict[str, int]:
        """Return the folders' modification times in nanoseconds: each announcement creates a file in one."""
        found: Dict[str, int] = {}
        for folder in self._folders.all():
            with contextlib.suppress(OSError):
                found[folder] = os.stat(folder).st_mtime_ns
        return found


def _foreign(command: Sequence[str]) -> str:
    """Return the name of a command's program if it is a binary that may hold a Python.

    Empty for a shell, and for a command that names a Python or a script.
    """
    argv = wrappers.unwrapped(list(command)) or [""]
    name = os.path.basename(argv[0])
    if name in _SHELLS or any(_NAMES_PYTHON.search(word) for word in argv):
        return ""
    try:
        with open(shutil.which(argv[0]) or "", "rb") as source:
            return name if source.read(4) == b"\x7fELF" else ""
    except OSError:
        return ""


def why(pid: int, argv: Sequence[str], hook: str) -> str:
    """Return the likely reason why a Python has not loaded the hook, from its command line and environment."""
    name, (flags, _, _) = os.path.basename(argv[0]), choosing.what_runs(argv)
    if not name.startswith("python"):
        return "%s is not CPython 3.8 or newer" % name
    if "S" in flags:
        return "python -S loads nothing from site folders"
    environment = procfs.environment(pid)
    if environment is None:
        return "it runs as uid %d, whose processes the agent cannot inspect" % procfs.owner(pid)
    if settings.ENV_SESSION_DIR not in environment:
        return "its environment has been emptied (env -i, sudo, tox)"
    if {"I", "E"} & set(flags):
        return "python -%s ignores PYTHONPATH" % ("I" if "I" in flags else "E")
    path = environment.get("PYTHONPATH", "")
    if hook and hook not in path.split(os.pathsep):
        return "its PYTHONPATH is %s" % (path or "empty")
    return "it is not CPython 3.8 or newer, or ends before it has loaded its site folders"


def unhooked(
    pids: Collection[int],
    parents: Dict[int, int],
    hooked: Collection[int],
    folders: announced.Folders,
    leaves_out: Callable[[List[str]], bool],
) -> Dict[int, List[str]]:
    """Return the command lines, by pid, of those processes that are Pythons and have not announced themselves.

    Leave out forked children (with their parent's command line), which announce themselves late, but not those that
    have changed their user and so cannot.
    """
    found = {}
    for pid in pids:
        argv, above = python_words(pid, leaves_out), parents.get(pid, 0)
        is_fork = above in hooked and argv == python_words(above, leaves_out)
        if argv and pid not in hooked and (not is_fork or folders.why_no_access(pid)):
            found[pid] = argv
    return found


def python_words(pid: int, leaves_out: Callable[[List[str]], bool]) -> Optional[List[str]]:
    """Return the command line of a Python that runs a user's program; None for any other process."""
    argv = procfs.command_line(pid)
    is_python = bool(argv) and _PYTHON.match(os.path.basename(argv[0]))
    return argv if is_python and not leaves_out(argv) and _FORKSERVER not in " ".join(argv) else None
