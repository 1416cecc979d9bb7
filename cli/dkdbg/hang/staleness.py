"""Measure how long processes have been at the same place, while they are watched. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dkdbg.core.stacks import Frame
    from dkdbg.hang.hang_map import Group, Job

#: Identity of a process: address of its target, session and PID.
_Key = tuple[str, str, int]


class Staleness:
    """The stacks seen at the last look, and since when."""

    def __init__(self) -> None:
        self._seen: dict[_Key, tuple[tuple[Frame, ...], float]] = {}
        self._now = 0.0

    def look(self, jobs: Iterable[Job], now: float) -> None:
        """Record where all processes are.

        Args:
            now: seconds of a monotonic clock.
        """
        found: dict[_Key, tuple[tuple[Frame, ...], float]] = {}
        for job in jobs:
            for group in (*job.ranks, *job.others):
                for key in _keys(group):
                    frames, since = self._seen.get(key, (group.frames, now))
                    found[key] = (group.frames, since if frames == group.frames else now)
        self._seen, self._now = found, now

    def seconds(self, group: Group) -> float:
        """Return how long the whole group has been at its place, unless it moved and came back between two looks."""
        return self._now - max(
            (self._seen[key][1] for key in _keys(group) if key in self._seen), default=self._now
        )


def _keys(group: Group) -> list[_Key]:
    return [(each.session.address, each.session.id, each.process.pid) for each in group.members]
