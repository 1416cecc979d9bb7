"""What processes said last on stderr: why a program failed, for the editor's session that outlives it. No I/O."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Tuple

#: Characters kept of a process, and processes.
LENGTH = 4000
PROCESSES = 64
_TRACEBACK = "Traceback (most recent call last):"


class StderrTail:
    """The end of each process's stderr, as far as an editor was attached.

    Args:
        name_of: what a process is, by its pid.
    """

    def __init__(self, name_of: Callable[[int], str]) -> None:
        self._name_of = name_of
        self._texts: Dict[int, str] = {}
        #: From when a process was there: nobody knows the name of one that has ended.
        self._names: Dict[int, str] = {}

    def note(self, pid: int, text: object) -> None:
        """Take what a process has written."""
        if not isinstance(text, str):
            return
        if pid not in self._names:
            self._names[pid] = self._name_of(pid)
        former = self._texts.pop(pid, "")
        self._texts[pid] = (former + text)[-LENGTH:]
        while len(self._texts) > PROCESSES:
            oldest = next(iter(self._texts))
            del self._texts[oldest], self._names[oldest]

    def forget(self) -> None:
        """Forget all: the program starts anew."""
        self._texts.clear()
        self._names.clear()

    def of_a_failure(self, pid: int) -> Tuple[str, str]:
        """Return the words that tell best why the program failed, after the name of the process that said them.

        The name is empty where it is the program's first process, both where nobody said anything.

        Args:
            pid: the program's. A launcher says less than the first of its processes that ended with a traceback.
        """
        failed = [each for each, text in self._texts.items() if _TRACEBACK in text and each != pid]
        others = [each for each, text in self._texts.items() if text.strip() and each != pid]
        order = [pid, *failed] if _TRACEBACK in self._texts.get(pid, "") else [*failed, pid]
        for each in [*order, *reversed(others)]:
            if self._texts.get(each, "").strip():
                return "" if each == pid else self._names[each], self._texts[each]
        return "", ""
