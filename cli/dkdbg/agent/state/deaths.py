"""Reports processes of the program that died of a signal: name, signal, stack and the kernel's OOM count.

The agent is not the parent of most of them, so it cannot wait(2) for them. A pidfd reports an end at once, and the
agent reads the exit status from /proc while the process is a zombie. If its parent has reaped it by then, the pidfd has
the status (from Linux 6.15 on). Without pidfds (Linux < 5.3, Python 3.8, macOS) the agent reports only signals that
`faulthandler` has recorded, and that a process has ended while the debugger held it (issue 33).
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import threading

from dkdbg.agent import console, sockets
from dkdbg.agent.inprocess import last_stack
from dkdbg.agent.state import notes, procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Iterator, List, Optional, Set, Tuple

#: Signals of a fault in the process itself: always reported.
_FAULTS = ("SIGILL", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV", "SIGSYS")
#: `faulthandler`'s names for signals.
_NAMES = {
    "Segmentation fault": "SIGSEGV", "Aborted": "SIGABRT", "Bus error": "SIGBUS",
    "Floating point exception": "SIGFPE", "Floating-point exception": "SIGFPE", "Illegal instruction": "SIGILL",
}  # fmt: skip
_FRAME = re.compile(r'  File "(.+)", line (\d+) in (\S+)')
_INSTALLED = ("/lib/python", "/site-packages/", "/dist-packages/", "<frozen")
MAX_STACK_BYTES = 64 * 1024
MAX_FRAMES = 20
#: Maximum characters of a line of a stack: another user's process may have written any.
MAX_LINE_CHARACTERS = 500
#: Maximum processes to follow: each takes a descriptor, and the agent needs some for editors.
MAX_FOLLOWED = 256


class Deaths:
    """Follows processes to their end, on a thread of its own.

    Args:
        path_of: returns the path of a process's file by its pid and the suffix.
        name_of: returns a process's name by its pid.
        held_at: returns where a debugger has stopped a process; empty when it runs.
        report: called with the pid; one line of text; the frames of the stack, innermost first; whether the line says
            more than the signal; whether the program may have killed the process on purpose, as a process pool does
            with SIGKILL.
    """

    def __init__(
        self,
        path_of: Callable[[int, str], str],
        name_of: Callable[[int], str],
        held_at: Callable[[int], str],
        report: Callable[[int, str, List[str], bool, bool], None],
    ) -> None:
        self._path_of = path_of
        self._name_of = name_of
        self._held_at = held_at
        self._report = report
        self._lock = threading.Lock()
        self._pids: Dict[int, int] = {}
        self._over: Set[int] = set()
        self._own: Set[int] = set()
        #: By pid, name and stop position of a process that ended while held and whose wait status is still unknown.
        self._unnamed: Dict[int, Tuple[str, str]] = {}
        self._is_ending = False
        self._out_of_memory = _oom_kills()
        self._poll: Optional[select.epoll] = None
        self._watches = False

    def follow(self, pid: int, ppid: int = 0) -> None:
        """Watch a process that has announced itself."""
        (self._own.add if ppid == os.getpid() else self._own.discard)(pid)
        opened = getattr(os, "pidfd_open", None)
        if opened is None:
            return
        with contextlib.suppress(OSError), self._lock:
            self._over.discard(pid)  # the pid was reused
            self._unnamed.pop(pid, None)
            if pid in self._pids.values() or len(self._pids) >= MAX_FOLLOWED:
                return
            number = opened(pid)
            self._pids[number] = pid
            self._poll = self._poll or select.epoll()
            self._poll.register(number, select.EPOLLIN)
            self._watches = self._watches or sockets.begin(self._watch, self._poll, name="dkdbg deaths")

    def _watch(self, poll: select.epoll) -> None:
        while True:
            for number, _ in poll.poll():
                with contextlib.suppress(Exception):  # the session's folder may be removed at any time
                    self.ended(self._pids[number])  # before the pidfd is closed: it may have the wait status
                with self._lock:
                    del self._pids[number]
                    poll.unregister(number)
                    os.close(number)

    def _status(self, pid: int) -> Optional[int]:
        """Return an ended process's wait status; None if the kernel no longer has it. Call it with the lock held."""
        found = procfs.exit_status(pid)
        if found is None:
            number = next((number for number, each in self._pids.items() if each == pid), -1)
            found = procfs.reaped_status(number)
        return found

    @contextlib.contextmanager
    def ignored(self) -> Iterator[None]:
        """Suppress reports while the agent itself ends the program."""
        self._is_ending = True
        try:
            yield
        finally:
            with self._lock:
                followed = list(self._pids.values())
            for pid in followed:  # otherwise `_watch` may see and report their end after this context
                if not procfs.alive(pid):
                    self.ended(pid)
            self._is_ending = False

    def ended(self, pid: int, status: Optional[int] = None) -> None:
        """Report the death of a process, once.

        Args:
            status: the wait status, if the caller knows it, as for the agent's own child.
        """
        name, frames = _read_stack(self._path_of(pid, last_stack.SUFFIX))
        held = self._held_at(pid)
        with self._lock:
            status = self._status(pid) if status is None else status
            name = _signal_of(status) or name
            # Report the end of a held process even without a wait status. The agent's own child is an exception: its
            # status follows in a later call.
            is_lost = status is None and bool(held) and pid not in self._own
            if pid in self._over:
                return
            if name or is_lost:  # otherwise a later call may bring the status
                self._over.add(pid)
        if self._is_ending:
            return
        former = self._unnamed.pop(pid, None)
        process, held = former or ("%s (pid %d)" % (self._name_of(pid), pid), held)
        if not name and held and not is_lost:
            self._unnamed[pid] = process, held
        if not (name or is_lost) or name == "SIGINT" or (name not in (*_FAULTS, "SIGKILL") and not held):
            return
        why = self._why(name)
        says_more = bool(frames or held or why)
        line = describe(process, name, frames, held, why)
        self._report(pid, line, frames, says_more, name == "SIGKILL" and not says_more)

    def forget(self, pid: int) -> None:
        """Report a process's death, if not yet done, before its files are removed; its pid may be reused afterwards."""
        self.ended(pid)
        with self._lock:
            if pid not in self._pids.values():  # otherwise the thread has yet to see the end
                self._over.discard(pid)

    def _why(self, name: str) -> str:
        if name != "SIGKILL":
            return ""
        kills = _oom_kills()
        more, self._out_of_memory = kills - self._out_of_memory, kills
        return "the kernel's OOM killer ended it (memory.events: oom_kill %d)" % more if more > 0 else ""


def describe(process: str, name: str, frames: List[str], held: str, why: str) -> str:
    """Return one line about a death.

    Args:
        process: its name and pid, such as `rank 2 (pid 812)`. name: name of the signal, "" if unknown.
        frames: its stack, innermost first.
        held: position where a debugger held it, or the reason of the stop if no editor has asked for the stack; empty
            if it ran. why: what sent the signal, if known.
    """
    own = next((each for each in frames if not any(folder in each for folder in _INSTALLED)), "")
    where = " in %s" % (own or frames[0]) if frames else ""
    text = "%s died of %s%s," % (process, name, where) if name else "%s ended" % process
    position = ("at %s" if ":" in held else "(%s)") % held
    text = "%s while you held it %s" % (text, position) if held else text.rstrip(",")
    return "%s: %s" % (text, why) if why else text


def _read_stack(path: str) -> Tuple[str, List[str]]:
    """Return the signal's name and the frames (`FUNCTION, FILE:LINE`, innermost first) that faulthandler wrote."""
    try:
        with notes.opened(path) as source:
            text = source.read(MAX_STACK_BYTES)
    except (OSError, ValueError):
        return "", []
    first, *lines = [line[:MAX_LINE_CHARACTERS] for line in text.split("\n")]
    found = [match.groups() for match in map(_FRAME.fullmatch, lines) if match]
    frames = [
        console.printable("%s, %s:%s" % (function, file, line)) for file, line, function in found[:MAX_FRAMES]
    ]
    first = first.rpartition("Fatal Python error: ")[2].strip()
    return _NAMES.get(first, ""), frames


def _signal_of(status: Optional[int]) -> str:
    """Return the name of the signal in a wait status; empty for none."""
    number = (status or 0) & 0x7F
    if not number:
        return ""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number


def _oom_kills() -> int:
    """Return how often the kernel's OOM killer has ended a process of this cgroup; 0 with cgroups v1."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open("/proc/self/cgroup") as source:
            path = next((line.split(":", 2)[2].strip() for line in source if line.startswith("0::")), "")
        with open("/sys/fs/cgroup%s/memory.events" % path.rstrip("/")) as source:
            return sum(int(line.split()[1]) for line in source if line.startswith("oom_kill "))
    return 0
