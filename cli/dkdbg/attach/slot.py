"""A port for one process, and the wait for that process."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from dkdbg.attach.actions import Process


class Slot:
    """One port and the process that is on it now.

    Args:
        is_known: whether a process is there still, as far as its target says.
        refusal: why the targets announce no process to us, in one line; empty while they do or may.

    Attributes:
        label: what is expected there.
        clients: how many are on the port.
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
        """Another process is there from now on."""
        with self._changed:
            self._process, self.label = process, process.name
            self._changed.notify_all()

    def gone(self, process: Process) -> None:
        """The process was not there any more: the next client waits for another one."""
        with self._changed:
            if self._process is process:
                self._process = None

    def wait(self, seconds: float) -> Process | None:
        """Return the process as soon as there is one, None when there is none in time."""
        with self._changed:
            if self._process is not None and not self._is_known(self._process):
                self._process = None
            self._changed.wait_for(lambda: self._process is not None, seconds)
            return self._process
