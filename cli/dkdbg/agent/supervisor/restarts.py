"""Wishes to start the program again: from `restart`, from an editor, from a changed file; and who waits for it to be done."""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

#: Seconds until it is said that a restart takes too long.
LIMIT = 25.0
NOT_STARTED = "not started yet: it waits for an editor"


class Restarts:
    """Between those who ask, in any thread, and the loop around the program.

    Args:
        wake: makes the loop look.

    Attributes:
        reason: why the program is to be started again; empty while nobody asks.
        runs: how often it was started.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self.reason = ""
        self.runs = 0
        self.is_up = False
        self._wake = wake
        self._changed = threading.Condition()
        self._end = ""
        self._is_over = False

    def request(self, reason: str) -> None:
        """Ask for a restart."""
        with self._changed:
            self.reason = self.reason or reason
        self._wake()

    def ask(self) -> str:
        """Ask for a restart and wait for it; returns one line, which begins with `restarted`, or says why not."""
        with self._changed:
            before = self.runs
        if not before:
            return NOT_STARTED
        self.request("asked to")
        with self._changed:
            self._changed.wait_for(lambda: self.runs > before or self._is_over, LIMIT)
            if self.runs == before:
                return "not restarted: %s" % (self._end or "it takes too long")
            return "restarted, run %d" % self.runs

    def take(self) -> str:
        """Return the reason; from now on there is none. By the loop."""
        with self._changed:
            reason, self.reason = self.reason, ""
        return reason

    def started(self) -> None:
        """Note that the program runs."""
        with self._changed:
            self.runs += 1
            self.is_up = True
            self._changed.notify_all()

    def ended(self, end: str) -> None:
        """Note that it does not any more, and how it ended."""
        with self._changed:
            self._end = end
            self.is_up = False
            self._changed.notify_all()

    def over(self) -> None:
        """Note that it will not be started again."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
