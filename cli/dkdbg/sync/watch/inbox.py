"""Passes events from the thread that receives them to the thread that waits for them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


#: Seconds without further events before an open or missing file is checked, and the maximum wait.
QUIET_S, MAX_WAIT_S = 0.05, 1.0


class Coalescer:
    """Changed paths, each once, with the time of the next check.

    A file that was closed after writing, moved to this path, or had its mode changed is due at once. A file that was
    only written to is probably still open, and is due after QUIET_S without further events. So is a missing file,
    because editors and git remove a file just before they put the new one in its place: the target should not see the
    gap.
    """

    def __init__(self) -> None:
        self._ready: dict[str, None] = {}
        self._waiting: dict[str, tuple[float, float]] = {}

    def settled(self, path: str) -> None:
        """Make `path`, which is complete, due now."""
        self._waiting.pop(path, None)
        self._ready[path] = None

    def unsettled(self, path: str, now: float) -> None:
        """Schedule `path`, which may change again, for later; `now` is in seconds of a monotonic clock."""
        if path in self._ready:
            return
        first = self._waiting[path][0] if path in self._waiting else now
        self._waiting[path] = (first, min(now + QUIET_S, first + MAX_WAIT_S))

    def due(self) -> float | None:
        """Return the time at which the next path is due; 0 for now, None without one."""
        if self._ready:
            return 0.0
        return min((at for _, at in self._waiting.values()), default=None)

    def take(self, now: float) -> frozenset[str]:
        """Return the paths that are due at `now`, and forget them."""
        late = [path for path, (_, at) in self._waiting.items() if at <= now]
        for path in late:
            del self._waiting[path]
        taken = frozenset((*self._ready, *late))
        self._ready.clear()
        return taken

    def clear(self) -> None:
        """Forget everything: a rescan is coming."""
        self._ready.clear()
        self._waiting.clear()


class Inbox:
    """Takes events from a source; thread-safe.

    Attributes:
        limited: why not all folders can be watched, and the command that changes it; empty if all can be.
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


class Source:
    """Source of events: inotify on Linux, FSEvents on a Mac. By default, one watch covers the whole root."""

    def watch(self, folder: str) -> bool:  # noqa: ARG002
        """Watch the folder, relative to the root; return False if it has to be polled."""
        return True

    def watch_file(self, path: str) -> bool:
        """Report changes of the file at this absolute path, which may not exist; used for `Rules.files`.

        Return True if it was not watched before: it may have changed after it was read, and has to be checked again.
        """
        raise NotImplementedError

    def watch_leaving(self, paths: Iterable[str]) -> None:
        """Report when one of these relative paths is deleted; their excluded folders have no watch yet."""

    def watch_linked(self, path: str) -> None:
        """Report writes to a hard-linked file, through any of its names. Made for `Scanner(linked=...)`."""

    def forget(self) -> None:
        """Drop all watches of folders."""

    def close(self) -> None:
        """End the source."""
        raise NotImplementedError
