"""Between the thread that sees events and the one that waits for them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from dkdbg.sync.watch.coalesce import Coalescer

if TYPE_CHECKING:
    from collections.abc import Callable


class Inbox:
    """Where a source puts what it sees; thread-safe.

    Attributes:
        limited: why not all folders can be watched, and what to type against it; empty when they can.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.changed = threading.Condition()
        self.pending = Coalescer()
        self.lost = ""
        self.limited = ""
        self.woken = False

    def settled(self, path: str) -> None:
        """`path` can be read now."""
        with self.changed:
            self.pending.settled(path)
            self.changed.notify()

    def unsettled(self, path: str) -> None:
        """`path` may change again in a moment."""
        with self.changed:
            self.pending.unsettled(path, self.clock())
            self.changed.notify()

    def lose(self, reason: str) -> None:
        """Events were lost."""
        with self.changed:
            self.lost = reason
            self.pending.clear()
            self.changed.notify()
