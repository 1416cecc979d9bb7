"""Tails of the processes' stderr: show why a program failed, in the editor's session that outlives it. No I/O."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Tuple

#: Maximum characters of a process, and processes.
MAX_CHARACTERS = 4000
MAX_PROCESSES = 64
_TRACEBACK = "Traceback (most recent call last):"


class StderrTail:
    """Tail of each process's stderr, as far as an editor was attached.

    Args:
        name_of: returns the name of a process.
    """

    def __init__(self, name_of: Callable[[int], str]) -> None:
        self._name_of = name_of
        self._texts: Dict[int, str] = {}
        #: Looked up while a process lives: the name of an ended one is unknown.
        self._names: Dict[int, str] = {}

    def note(self, pid: int, text: object) -> None:
        """Append output of a process."""
        if not isinstance(text, str):
            return
        if pid not in self._names:
            self._names[pid] = self._name_of(pid)
        former = self._texts.pop(pid, "")
        self._texts[pid] = (former + text)[-MAX_CHARACTERS:]
        while len(self._texts) > MAX_PROCESSES:
            oldest = next(iter(self._texts))
            del self._texts[oldest], self._names[oldest]

    def forget(self) -> None:
        """Discard everything: the program restarts."""
        self._texts.clear()
        self._names.clear()

    def of_a_failure(self, pid: int) -> Tuple[str, str]:
        """Return the name and the output of the process that best explains a failure.

        The name is empty for the program's first process, both are empty without any output.

        Args:
            pid: the program's. A launcher explains less than the first of its processes that ended with a traceback.
        """
        failed = [each for each, text in self._texts.items() if _TRACEBACK in text and each != pid]
        others = [each for each, text in self._texts.items() if text.strip() and each != pid]
        order = [pid, *failed] if _TRACEBACK in self._texts.get(pid, "") else [*failed, pid]
        for each in [*order, *reversed(others)]:
            if self._texts.get(each, "").strip():
                return "" if each == pid else self._names[each], self._texts[each]
        return "", ""
