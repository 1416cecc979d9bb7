"""Requests to restart the program, and the decision whether an attach makes one because sources have changed."""

from __future__ import annotations

import os
import threading

from dkdbg.agent import contract

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterable, List

#: Seconds before a restart is reported as too slow.
TIMEOUT_S = 25.0
NOT_STARTED = "not started yet: it waits for an editor"
#: Age of a run in seconds beyond which an attach does not restart it: its results so far may be worth keeping.
MAX_RESTART_AGE_S = 3600.0


class Restarts:
    """Passes requests from any thread to the loop that runs the program, and reports back to threads that wait.

    Args:
        wake: wakes that loop.

    Attributes:
        reason: why the program is to be restarted; empty without a request.
        runs: number of starts so far.
        is_up: whether the program runs.
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
        """Request a restart; the first of several reasons is kept."""
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
        """Return and clear the reason. Called by the loop around the program."""
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


def own_files(paths: Iterable[str], record: contract.Record, runtime: str) -> List[str]:
    """Return those of the files that are the user's own: below a mapped folder, or without these the working directory.

    Args:
        paths: absolute paths. runtime: the runtime folder, whose hook and debugpy do not count.
    """
    mapped = [entry["remoteRoot"] for entry in record["mappings"] if entry["exists"]]
    roots = [os.path.realpath(root) for root in mapped or [record["cwd"]]]
    runtime_root = os.path.realpath(runtime)
    return sorted(path for path in set(paths) if _below(path, roots) and not _below(path, [runtime_root]))


def should_restart(changed: List[str], restart: str, age: float, *, is_held: bool) -> bool:
    """Tell whether an attach restarts the program.

    Args:
        changed: the changed files. restart: one of contract.RESTART. age: age of this run, in seconds.
        is_held: whether a process waits for an editor, after a crash or at a `breakpoint()`: a restart would lose what
            the user attaches for.
    """
    return bool(changed) and restart == contract.RESTART_AUTO and age < MAX_RESTART_AGE_S and not is_held


def described(changed: List[str]) -> str:
    """Describe the changed files in one line."""
    more = " and %d more" % (len(changed) - 1) if len(changed) > 1 else ""
    was = "were" if len(changed) > 1 else "was"
    return "%s%s %s changed after the program had been started" % (os.path.relpath(changed[0]), more, was)


def changed_text(changed: List[str], restart: str) -> str:
    """Return the message in the editor that sources have changed and the program was not restarted."""
    how = "Restart in this editor (Ctrl+Shift+F5), the task `dkdbg: restart` or `dkdbg restart`"
    if restart == contract.RESTART_NEVER:
        how = "the task `dkdbg: restart` or `dkdbg restart`"
    text = "%s: the previous code is running, and breakpoints may be missed, or stop on another line. To run what you see: %s"
    return text % (described(changed), how)


def _below(path: str, roots: Iterable[str]) -> bool:
    real = os.path.realpath(path)
    return any(f"{real}/".startswith(root.rstrip("/") + "/") for root in roots if root != "/")
