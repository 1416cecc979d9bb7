"""Ends every process of a run: SIGTERM, then SIGKILL after some seconds. Composes the editor's message about the end.

Signalling a process group is not enough: torchrun puts each rank into a session of its own, and daemons leave their
parent. The processes of a run are found by their parents, by the session's folder in their environment, and by their
announcements to the agent.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from dkdbg.agent import console, contract, settings
from dkdbg.agent.state import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Iterable, List, Optional, Sequence

    from dkdbg.agent.supervisor import child

#: Seconds between SIGTERM and SIGKILL. A process that is paused at a breakpoint runs no Python signal
#: handler.
GRACE_S = 5.0
#: Seconds to wait after SIGKILL; only a process in an uninterruptible system call needs longer.
KILL_TIMEOUT_S = 5.0
#: Seconds that other processes have after the program's end to notice it and end too.
OUTLIVE_S = 0.5
#: Maximum processes to name in a message.
MAX_NAMES = 5
#: Maximum lines of stderr to quote, and characters of each.
MAX_LINES = 12
MAX_LINE_CHARS = 300
_MEANINGS = {
    contract.EXIT_NOT_FOUND: ", as a shell does when it does not find a command",
    contract.EXIT_NOT_EXECUTABLE: ", as a shell does when it may not execute a file",
}


class Ending:
    """The end of one run.

    Args:
        session_dir: the session's folder, which the run's processes carry in their environment.
        running: the command; it may have ended.
        registered: returns the pids of the processes that have announced themselves and not ended.
    """

    def __init__(
        self, session_dir: str, running: child.Child, registered: Callable[[], Iterable[int]]
    ) -> None:
        self._session_dir = session_dir
        self._running = running
        self._registered = registered
        self._found: Dict[int, Optional[int]] = {}

    def run(self, pause: Callable[[float], bool]) -> int:
        """End every process and return how many could not be ended.

        Args:
            pause: called with seconds to wait at most; returns True to send SIGKILL now.
        """
        self._find_processes()
        self._signal(signal.SIGTERM)
        hurry, end = False, time.monotonic() + GRACE_S
        while self._left():
            hurry = pause(0.01 if time.monotonic() < end - GRACE_S + 0.5 else 0.05) or hurry
            if hurry or time.monotonic() > end:
                return self._kill()
        return 0

    def outliving(self, is_wanted: Callable[[int], bool]) -> List[int]:
        """Return the pids of the processes that still run OUTLIVE_S after the program's end.

        Args:
            is_wanted: tells whether a process counts.
        """
        end, before = time.monotonic() + OUTLIVE_S, True
        while True:
            self._find_processes()
            found = sorted(filter(is_wanted, self._found))
            # One scan may miss a daemon that starts while its parent ends, so only two empty scans in a row count.
            if not (found or before) or time.monotonic() > end:
                return found
            before = bool(found)
            time.sleep(0.05)

    def _kill(self) -> int:
        end = time.monotonic() + KILL_TIMEOUT_S
        while self._left() and time.monotonic() < end:
            self._signal(signal.SIGKILL)
            time.sleep(0.01)
        return len(self._found)

    def _left(self) -> bool:
        """Tell whether a process of the run still exists; send newly found ones SIGTERM."""
        self._running.poll()
        self._found = {pid: start for pid, start in self._found.items() if _is_same(pid, start)}
        if self._found:
            return True
        self._find_processes()
        self._signal(signal.SIGTERM)
        # A zombie whose threads are still ending is not alive and cannot be reaped yet.
        return bool(self._found) or self._running.exit_code is None

    def _find_processes(self) -> None:
        """Find the run's processes among all processes of this PID namespace."""
        self._running.poll()
        roots = set(self._registered())  # setproctitle may have overwritten the environment of these
        if self._running.exit_code is None:
            roots.add(self._running.pid)
        parents = procfs.parents()
        for pid in parents:
            environment = procfs.environment(pid) or {}
            if environment.get(settings.ENV_SESSION_DIR) == self._session_dir:
                roots.add(pid)
        found = procfs.below(roots, parents)
        found -= {os.getpid(), 0, 1}
        self._found = {pid: procfs.start_ticks(pid) for pid in found if procfs.alive(pid)}

    def _signal(self, number: int) -> None:
        if self._running.own_group and self._found:
            with contextlib.suppress(OSError):  # the group has ended, or contains processes of another user
                if self._running.exit_code is None or self._has_own_group():
                    os.killpg(self._running.pid, number)
        for pid, start in self._found.items():
            with contextlib.suppress(OSError):
                if _is_same(pid, start):
                    os.kill(pid, number)
                    os.kill(pid, signal.SIGCONT)  # a stopped process does not handle SIGTERM

    def _has_own_group(self) -> bool:
        """Tell whether the command's process group still has a process of this run; otherwise its ID may be reused."""
        return any(_group_of(pid) == self._running.pid for pid in self._found)


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return -1


def _is_same(pid: int, start: Optional[int]) -> bool:
    return procfs.alive(pid) and procfs.start_ticks(pid) == start


def left_text(names: Sequence[str], *, ends_too: bool) -> str:
    """Return the text about processes that outlive the program; empty without any.

    Args:
        ends_too: whether the container, and thus these processes, will end now.
    """
    if not names:
        return ""
    more = ", ..." if len(names) > MAX_NAMES else ""
    how = "end with the container" if ends_too else "are still running, without the debugger"
    return "; %d of its processes %s: %s%s" % (len(names), how, ", ".join(names[:MAX_NAMES]), more)


def end_text(code: int, end: str, stderr_tail: str, name: str = "", left: str = "") -> str:
    """Return the message to the editor about the end of the program.

    Args:
        code: the exit code. end: its description, `exited with code 1`.
        stderr_tail: the last stderr output; empty where unknown.
        name: name of the process that wrote it; empty for the program itself.
        left: see left_text.
    """
    text = headline(code, end) + left
    lines = last_lines(stderr_tail) if code else []
    if not lines:
        return text
    if any(settings.IMAGE_FILES + "/" in line for line in lines):
        lines.append(
            "links to files that only the image has lead to %s: create the linked file in the checkout too"
            % settings.IMAGE_FILES
        )
    return "%s; %s last on stderr:\n%s" % (text, name + " said" if name else "it said", "\n".join(lines))


def headline(code: int, end: str) -> str:
    """Return the first part of the end message: how the program ended, without its stderr."""
    return "the program %s%s" % (end, _MEANINGS.get(code, ""))


def last_lines(stderr_tail: str) -> List[str]:
    """Return the last lines of a program's output, printable and indented."""
    lines = [line.rpartition("\r")[2].rstrip() for line in stderr_tail.replace("\r\n", "\n").split("\n")]
    found = [console.printable(line) for line in lines if line][-MAX_LINES:]
    return ["  " + (line if len(line) <= MAX_LINE_CHARS else line[:MAX_LINE_CHARS] + "...") for line in found]
