"""For how long ranks are waited for that are to stop together, and what is done then. No I/O, no ranks, only numbers.

An agent decides so about its own ranks (gate.py), the host's door about those of several agents.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Sequence

#: What is done: nothing yet; each that is held passes the line once; all stops are told; the same, without the others.
WAIT, PASS, OPEN, GIVE_UP = "wait", "pass", "open", "give up"

#: Seconds without another rank armed after which the others are not waited for.
ARM_LIMIT = 30.0
#: Seconds from the last rank armed to the first stop: who comes later has passed nothing without breakpoints. On a
#: machine where arming takes long everything does: twice the time that it took, where that is more.
FIRST_LIMIT = 5.0
#: Seconds in which nothing moves before those at the gate pass, each time; the last for all further times. On a
#: slow machine a quarter of the time that arming took.
LONGEST_QUIET = 3.0
QUIET = (0.25, 0.25, 0.5, 1.0)
#: Seconds from the first stop of armed ranks until those that are there stop without the others, or four times that.
GATHER_LIMIT = 10.0
LONGEST_GATHER = 30.0
#: Ranks that are named.
NAMED = 8


class RankTimeouts:
    """One gathering, from now on.

    Args:
        clock: seconds, only forward.
        since: when the ranks were asked to arm; None for now.

    Attributes:
        times: how often those that are held were let pass.
    """

    def __init__(self, clock: Callable[[], float], since: float = -1.0) -> None:
        self._clock = clock
        self._asked = clock() if since < 0 else since
        self._moved = clock()
        self._arming = 0.0
        self._began = -1.0
        self.times = 0

    def armed(self) -> None:
        """One more rank is armed."""
        self._moved = self._clock()
        self._arming = self._moved - self._asked

    def moved(self) -> None:
        """One more rank is held."""
        self._moved = self._clock()

    @property
    def limit(self) -> float:
        """Seconds from the first stop on."""
        return max(GATHER_LIMIT, min(LONGEST_GATHER, 4 * self._arming))

    def verdict(self, unarmed: int, armed: int, held: int) -> str:
        """Return what to do.

        Args:
            unarmed: how many have no breakpoints yet. armed: how many others there are. held: how many of those are held.
        """
        now = self._clock()
        quiet = now - self._moved
        if unarmed:
            return GIVE_UP if quiet > ARM_LIMIT else WAIT
        if held >= armed:
            return OPEN
        if not held:
            return OPEN if quiet > max(FIRST_LIMIT, 2 * self._arming) else WAIT
        if self._began < 0:
            self._began = now
        if now - self._began > self.limit:
            return GIVE_UP
        if quiet <= max(QUIET[min(self.times, len(QUIET) - 1)], min(LONGEST_QUIET, self._arming / 4)):
            return WAIT
        self.times += 1
        self._moved = now
        return PASS


def without_others(missing: Sequence[str], unarmed: int, limit: float) -> str:
    """Return what is said when those that are there stop without the others.

    Args:
        missing: their names. unarmed: how many of them have no breakpoints. limit: see Patience.
    """
    more = "" if len(missing) <= NAMED else " and %d more" % (len(missing) - NAMED)
    what = "not attached to yet" if unarmed else "not at a breakpoint within %.0f s" % limit
    return "stopped without the others: %s%s: %s" % (", ".join(missing[:NAMED]), more, what)
