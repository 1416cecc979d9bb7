"""Decides when a changed path is due: at once, or after a moment of quiet. No threads, no clock of its own."""

from __future__ import annotations

#: Seconds without another event after which an open or missing file is checked; and the maximum wait.
QUIET_S, MAX_WAIT_S = 0.05, 1.0


class Coalescer:
    """Changed paths, each once, with the time of the next check.

    A file that was closed, moved here or had its mode changed is due at once. A file that was only written to
    is probably still open: it waits for quiet. So does one that vanished: editors and git remove a file just
    before they put the new one in its place, and the other side should not see the gap.
    """

    def __init__(self, *, quiet: float = QUIET_S, longest: float = MAX_WAIT_S) -> None:
        self._quiet, self._longest = quiet, longest
        self._ready: dict[str, None] = {}
        self._waiting: dict[str, tuple[float, float]] = {}

    def settled(self, path: str) -> None:
        """Make `path`, which is complete, due at once."""
        self._waiting.pop(path, None)
        self._ready[path] = None

    def unsettled(self, path: str, now: float) -> None:
        """Make `path`, which may change again, due later; `now` is in seconds of a monotonic clock."""
        if path in self._ready:
            return
        first = self._waiting[path][0] if path in self._waiting else now
        self._waiting[path] = (first, min(now + self._quiet, first + self._longest))

    def due(self) -> float | None:
        """Return when `take` will have something; 0 for now, None when nothing is waiting."""
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
