"""Connects the thread that receives events with the one that waits for them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from dkdbg.sync.watch.coalesce import Coalescer

if TYPE_CHECKING:
    from collections.abc import Callable


class Inbox:
    """Takes events from a source; thread-safe.

    Attributes:
        limited: why not all folders can be watched, and the command against it; empty when they can.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.changed = threading.Condition()
        self.pending = Coalescer()
        self.lost = ""
        self.limited = ""
        self.woken = False

    def settled(self, path: str) -> None:
        """Record that `path` can be read now."""
        with self.changed:
            self.pending.settled(path)
            self.changed.notify()

    def unsettled(self, path: str) -> None:
        """Record that `path` may change again in a moment."""
        with self.changed:
            self.pending.unsettled(path, self.clock())
            self.changed.notify()

    def lose(self, reason: str) -> None:
        """Record that events were lost."""
        with self.changed:
            self.lost = reason
            self.pending.clear()
            self.changed.notify()
