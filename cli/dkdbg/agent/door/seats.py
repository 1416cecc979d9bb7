"""What the doors of one port share: who holds which process, who looks on, which token is asked for. No I/O."""

from __future__ import annotations

import itertools

from dkdbg.agent.dap import messages
from dkdbg.agent.front import tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Optional, Set

    from dkdbg.agent.door.door import Door

#: The key of the root session; every other process has its pid as key.
ROOT = 0


class Hall:
    """Shared by the doors of one port. Not for several threads at a time: the front has a lock for it.

    Args:
        token: see tokens.py.
        name_of: what a process is, by its pid.
        on_stop: told where a process is held, with an empty text when it runs.
        clock: seconds, only forward. wall: the time of day as HH:MM.
    """

    def __init__(
        self,
        token: str = "",
        *,
        name_of: Callable[[int], str],
        on_stop: Callable[[int, str], None],
        clock: Callable[[], float],
        wall: Callable[[], str],
    ) -> None:
        self.check = tokens.Check(token)
        self.name_of = name_of
        self.on_stop = on_stop
        self.clock = clock
        self.wall = wall
        self._sequence = itertools.count(messages.OWN_SEQUENCE)
        self._editors = itertools.count(1)
        self._holders: Dict[int, Door] = {}
        self._onlookers: Dict[int, List[Door]] = {}
        #: Editors whose root session was taken over. What they still open of their processes ends at once.
        self.evicted: Set[int] = set()

    def next_sequence(self) -> int:
        """Return a number for a request of our own to an adapter or a client."""
        return next(self._sequence)

    def next_editor(self) -> int:
        """Return a number for an editor, by which its child sessions are known."""
        return next(self._editors)

    def holder(self, key: int) -> Optional[Door]:
        """Return whose attach to this process was passed on and has not ended."""
        return self._holders.get(key)

    def holders(self) -> Dict[int, Door]:
        """Return all of them, by key."""
        return dict(self._holders)

    def hold(self, key: int, door: Door) -> None:
        """Note that this door's client holds the process; a former one is only finishing."""
        self._holders[key] = door

    def let_go(self, key: int, door: Door) -> bool:
        """Note that it does no longer; False when another one has it already."""
        if self._holders.get(key) is not door:
            return False
        del self._holders[key]
        if key != ROOT:
            self.on_stop(key, "")
        return True

    def onlookers(self, key: int) -> List[Door]:
        """Return those who look on."""
        return list(self._onlookers.get(key, ()))

    def looked_at(self) -> List[int]:
        """Return the keys of the processes that somebody looks on at."""
        return list(self._onlookers)

    def look_on(self, key: int, door: Door) -> None:
        """Add one."""
        self._onlookers.setdefault(key, []).append(door)

    def look_away(self, key: int, door: Door) -> None:
        """Remove one, if it is there."""
        doors = self._onlookers.get(key, [])
        if door in doors:
            doors.remove(door)
        if not doors:
            self._onlookers.pop(key, None)
