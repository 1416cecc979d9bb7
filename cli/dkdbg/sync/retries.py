"""Which paths have to be looked at again although no event will say so, and when. Pure: the clock is handed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

#: Seconds until a path is looked at again: one that was written while it was read, one that failed (both doubled each
#: time, up to LONGEST), one that was read too soon after a change for its stamp to say anything (ADR 10).
CHANGED, FAILED, RACY, LONGEST = 0.05, 5.0, 1.0, 60.0


class Retries:
    """Times, in seconds of a monotonic clock, by path."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self._times: dict[str, int] = {}
        self._changed: set[str] = set()

    def note(
        self, *, changed: Collection[str], failed: Collection[str], racy: Collection[str], now: float
    ) -> None:
        """Take in how the last attempt went; a path that is in none of them is well and forgotten."""
        self._times = {
            path: count for path, count in self._times.items() if path in changed or path in failed
        }
        self._changed |= set(changed)
        for paths, delay in ((changed, CHANGED), (failed, FAILED)):
            for path in paths:
                if path not in self._due:
                    count = self._times.get(path, 0)
                    self._due[path] = now + min(delay * 2**count, LONGEST)
                    self._times[path] = count + 1
        for path in racy:
            self._due.setdefault(path, now + RACY)

    def take(self, now: float) -> set[str]:
        """The paths whose time has come, and forget them."""
        ready = {path for path, at in self._due.items() if at <= now}
        for path in ready:
            del self._due[path]
        self._changed -= ready
        return ready

    def take_changed(self) -> set[str]:
        """The paths that were written while they were read, whatever the time, and forget them."""
        taken, self._changed = self._changed, set()
        for path in taken:
            self._due.pop(path, None)
        return taken

    def next(self, latest: float) -> float:
        """When the first is due, `latest` at the latest."""
        return min(latest, min(self._due.values(), default=latest))
