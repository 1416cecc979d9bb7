"""Reports ranks in a collective that began before the attach, which raised timeouts do not reach (issue 33)."""

from __future__ import annotations

import threading
import time

from dkdbg.agent import console
from dkdbg.agent.inprocess import duration
from dkdbg.agent.state import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Set, Tuple

    from dkdbg.agent import contract

#: Seconds after which a rank is asked again: a collective of a running job is over by then.
LOOK_AGAIN_S = 2.0
#: Seconds to wait for the other ranks of the same collective.
GATHER_S = 1.0


class PendingCollectives:
    """Merges the reports of several ranks on one collective into one line.

    Args:
        name_of: returns what a process is, by its pid.
        ask: asks a process again, by its pid; it answers with `note`.
        told: called with the line.
    """

    def __init__(
        self, name_of: Callable[[int], str], ask: Callable[[int], object], told: Callable[[str], None]
    ) -> None:
        self._name_of = name_of
        self._ask = ask
        self._told = told
        self._lock = threading.Lock()
        self._began: Dict[int, float] = {}
        self._reported: Set[int] = set()
        self._found: Dict[str, List[Tuple[int, float, float]]] = {}
        self._waiting: Dict[int, Tuple[str, float]] = {}

    def note(self, pid: int, name: str, age: float, left: float) -> None:
        """Record that a process waits in the collective `name` for `age` seconds, and gives up after `left` seconds.

        Args:
            name: empty where it waits in none, or in one that has a raised timeout.
        """
        began = time.monotonic() - age
        with self._lock:
            if not name:
                self._waiting.pop(pid, None)
                return
            if pid in self._reported:
                self._waiting[pid] = name, time.time() + left
            if pid not in self._began:
                self._began[pid] = began
                duration.later(LOOK_AGAIN_S, lambda: self._ask(pid))
                return
            if pid in self._reported or abs(self._began[pid] - began) > GATHER_S:
                return
            self._reported.add(pid)
            self._waiting[pid] = name, time.time() + left
            is_first = not self._found
            self._found.setdefault(name, []).append((pid, age, left))
        if is_first:
            duration.later(GATHER_S, self._tell)

    def forget(self) -> None:
        """Report each again: another editor attaches."""
        with self._lock:
            self._began.clear()
            self._reported.clear()
            self._waiting.clear()

    def deadlines(self) -> List[contract.Deadline]:
        """Return when the reported processes give up, by collective."""
        with self._lock:
            waiting = {pid: each for pid, each in self._waiting.items() if procfs.alive(pid)}
        found: List[contract.Deadline] = []
        for name in sorted({name for name, _ in waiting.values()}):
            pids = [pid for pid in waiting if waiting[pid][0] == name]
            who = listed(sorted({self._name_of(pid) for pid in pids}))
            what = "%s: giving up in %s" % (who, console.printable(name))
            found.append(
                {"what": what, "ends": min(waiting[pid][1] for pid in pids), "after": None, "lift": ""}
            )
        return found

    def _tell(self) -> None:
        with self._lock:
            found, self._found = self._found, {}
        for name, waiting in found.items():
            names = sorted({self._name_of(pid) for pid, _, _ in waiting})
            age = GATHER_S + max(each[1] for each in waiting)
            left = max(0.0, min(each[2] for each in waiting) - GATHER_S)
            self._told(
                "waiting in %s since %.0f s, from before you attached: %s; with the timeout of that time it gives up in "
                "%.0f s, also while you hold a rank" % (console.printable(name), age, listed(names), left)
            )


def listed(names: List[str]) -> str:
    """Return `rank 1`, `ranks 1, 2, 3` or the names."""
    numbers = [name[5:] for name in names if name.startswith("rank ") and name[5:].isdigit()]
    if len(names) > 1 and len(numbers) == len(names):
        return "ranks " + ", ".join(sorted(numbers, key=int))
    return ", ".join(names)
