"""Requests to restart the program (from `restart`, an editor, a changed file) and their waiting senders."""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

#: Seconds before a restart is reported as too slow.
TIMEOUT_S = 25.0
NOT_STARTED = "not started yet: it waits for an editor"


class Restarts:
    """Connects the threads that request a restart with the loop around the program, which `wake` wakes.

    Attributes:
        reason: why the program is to be restarted; empty without a request.
        runs: number of starts.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self.reason = ""
        self.runs = 0
        self.is_up = False
        self._wake = wake
        self._changed = threading.Condition()
        self._end = ""
        self._ends = 0
        self._is_over = False

    def request(self, reason: str) -> None:
        """Request a restart."""
        with self._changed:
            self.reason = self.reason or reason
        self._wake()

    def ask(self) -> str:
        """Request a restart and wait for it; return a line that begins with `restarted`, or the reason why not."""
        with self._changed:
            before, last = self.runs, self._ends + self.is_up
        if not before:
            return NOT_STARTED
        self.request("asked to")
        with self._changed:
            # A second end, after the present run's, means that the next run could not be started.
            self._changed.wait_for(
                lambda: self.runs > before or self._ends > last or self._is_over, TIMEOUT_S
            )
            if self.runs == before:
                return "not restarted: %s" % (self._end or "it takes too long")
            return "restarted, run %d" % self.runs

    def take(self) -> str:
        """Return and clear the reason. Called by the loop."""
        with self._changed:
            reason, self.reason = self.reason, ""
        return reason

    def started(self) -> None:
        """Record that the program runs."""
        with self._changed:
            self.runs += 1
            self.is_up = True
            self._changed.notify_all()

    def ended(self, end: str) -> None:
        """Record that the program has ended, and how."""
        with self._changed:
            self._end, self._ends = end, self._ends + 1
            self.is_up = False
            self._changed.notify_all()

    def over(self) -> None:
        """Record that the program will not be restarted."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
