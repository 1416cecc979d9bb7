"""Schedules paths that need another check without an event. Pure: the caller passes the time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

#: Seconds until a path is checked again: after a write during reading, after a failure (both doubled each
#: time, up to MAX_DELAY_S), and after a change too recent for a reliable stamp (ADR 10).
CHANGED_S, FAILED_S, RACY_S, MAX_DELAY_S = 0.05, 5.0, 1.0, 60.0
#: Attempts after which a constantly written file is sent as it is, again and again. Between two times it
#: rests for this multiple of the duration, and at least these seconds.
OFTEN, REST_FACTOR, MIN_REST_S = 3, 10, 2.0


class Retries:
    """Due times by path, in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self._times: dict[str, int] = {}
        self._changed: set[str] = set()
        self._rest: dict[str, float] = {}

    @property
    def changed(self) -> Collection[str]:
        """Return paths that were written while they were read, and wait to be read again."""
        return self._changed

    @property
    def often(self) -> Collection[str]:
        """Return paths that failed `OFTEN` times."""
        return {path for path, count in self._times.items() if count >= OFTEN}

    def note(
        self, *, changed: Collection[str], failed: Collection[str], racy: Collection[str], now: float,
        grew: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        """Record the results of the last attempt.

        A path in none of them, and not waiting, is fine and forgotten.

        Args:
            grew: seconds that it took to send files that grew meanwhile.
        """
        waiting = {*changed, *failed, *(grew or ()), *self._due}
        self._times = {path: count for path, count in self._times.items() if path in waiting}
        for path, seconds in (grew or {}).items():
            self._due[path] = self._rest[path] = now + min(
                max(REST_FACTOR * seconds, MIN_REST_S), MAX_DELAY_S
            )
            self._times[path] = OFTEN
            self._changed.discard(path)
        self._changed |= set(changed)
        for paths, delay in ((changed, CHANGED_S), (failed, FAILED_S)):
            for path in paths:
                if path not in self._due:
                    count = self._times.get(path, 0)
                    self._due[path] = now + min(delay * 2**count, MAX_DELAY_S)
                    self._times[path] = count + 1
        for path in racy:
            self._due.setdefault(path, now + RACY_S)

    def put_off(self, paths: Collection[str], now: float, *, also: Collection[str] = ()) -> set[str]:
        """Return those of `paths` that need no rest; the others, and those in `also`, are due later."""
        ready = set()
        for path in paths:
            until = self._rest.get(path, now + MIN_REST_S if path in also else now)
            if until > now:
                self._due.setdefault(path, until)
            else:
                ready.add(path)
        return ready

    def take(self, now: float) -> set[str]:
        """Return the due paths, and forget them."""
        ready = {path for path, at in self._due.items() if at <= now}
        for path in ready:
            del self._due[path]
            self._rest.pop(path, None)
        self._changed -= ready
        return ready

    def take_changed(self) -> set[str]:
        """Return the paths that were written while they were read, due or not, and forget them."""
        taken, self._changed = self._changed, set()
        for path in taken:
            self._due.pop(path, None)
        return taken

    def next(self, latest: float) -> float:
        """Return the first due time, at most `latest`."""
        return min(latest, min(self._due.values(), default=latest))
