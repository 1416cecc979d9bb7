"""The port of a single process, and the wait for that process."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from dkdbg.attach.actions import Process


class Slot:
    """One port and its current process.

    Args:
        is_known: tells whether the target still has a process.
        refusal: returns why the targets announce no processes, in one line; empty while they do or may.

    Attributes:
        label: name of the expected process.
        clients: number of clients on the port.
    """

    def __init__(
        self, label: str, port: int, *, is_known: Callable[[Process], bool], refusal: Callable[[], str]
    ) -> None:
        self.label = label
        self.clients = 0
        self.refusal = refusal
        self.port = port
        self._is_known = is_known
        self._changed = threading.Condition()
        self._process: Process | None = None

    def put(self, process: Process) -> None:
        """Put another process on the port."""
        with self._changed:
            self._process, self.label = process, process.name
            self._changed.notify_all()

    def gone(self, process: Process) -> None:
        """Remove an ended process: the next client waits for another one."""
        with self._changed:
            if self._process is process:
                self._process = None

    def wait(self, seconds: float) -> Process | None:
        """Wait for the process; None after the timeout."""
        with self._changed:
            if self._process is not None and not self._is_known(self._process):
                self._process = None
            self._changed.wait_for(lambda: self._process is not None, seconds)
            return self._process
