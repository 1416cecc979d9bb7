"""Reports ranks in a collective that began before the attach, which raised timeouts do not reach (issue 33)."""

from __future__ import annotations

import threading
import time

from dkdbg.agent import console

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Tuple

#: Seconds to wait for the other ranks of the same collective.
GATHER_S = 1.0


class PendingCollectives:
    """Merges the reports of several ranks on one collective into one line.

    Args:
        name_of: returns what a process is, by its pid.
        told: called with the line.
    """

    def __init__(self, name_of: Callable[[int], str], told: Callable[[str], None]) -> None:
        self._name_of = name_of
        self._told = told
        self._lock = threading.Lock()
        self._found: Dict[str, List[Tuple[int, float, float]]] = {}
        self._known: Dict[int, float] = {}

    def note(self, pid: int, name: str, age: float, left: float) -> None:
        """Record that a process waits in the collective `name` for `age` seconds, and gives up after `left` seconds."""
        began = time.monotonic() - age
        with self._lock:
            if abs(self._known.get(pid, float("-inf")) - began) < GATHER_S:
                return  # the same one, reported again
            self._known[pid] = began
            is_first = not self._found
            self._found.setdefault(name, []).append((pid, age, left))
        if is_first:
            timer = threading.Timer(GATHER_S, self._tell)
            timer.daemon = True
            timer.start()

    def forget(self) -> None:
        """Report each again: another editor attaches."""
        with self._lock:
            self._known.clear()

    def _tell(self) -> None:
        with self._lock:
            found, self._found = self._found, {}
        for name, waiting in found.items():
            names = sorted({self._name_of(pid) for pid, _, _ in waiting})
            age, left = (
                max(each[1] for each in waiting),
                max(0.0, min(each[2] for each in waiting) - GATHER_S),
            )
            self._told(
                "%s began to wait in %s %.0f s before you attached, with the timeout of that time: in %.0f s it gives up, "
                "also while you hold a rank" % (_listed(names), console.printable(name), age, left)
            )


def _listed(names: List[str]) -> str:
    """Return `rank 1`, `ranks 1, 2, 3` or the names."""
    numbers = [name[5:] for name in names if name.startswith("rank ") and name[5:].isdigit()]
    if len(names) > 1 and len(numbers) == len(names):
        return "ranks " + ", ".join(sorted(numbers, key=int))
    return ", ".join(names)
