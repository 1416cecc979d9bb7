"""Timeouts of a rank barrier, and the decision after each. No I/O; gets only the counts of ranks.

An agent applies them to its own ranks (rank_barrier.py), the attach proxy to those of several agents.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Sequence

#: Verdicts: wait; let each stopped rank pass the line once; report all stops; report them without the missing ranks.
WAIT, PASS, OPEN, GIVE_UP = "wait", "pass", "open", "give up"

#: Seconds without another armed rank until the barrier gives up.
ARM_TIMEOUT_S = 30.0
#: Seconds without progress, once all ranks are armed, until the barrier opens or lets the stopped ranks pass. A quarter
#: of the time that arming took if that is more, at most MAX_QUIET_S.
QUIET_S, MAX_QUIET_S = 0.25, 3.0
#: Seconds from the first stop until the barrier gives up; four times the time that arming took if that is more,
#: up to the maximum.
GATHER_TIMEOUT_S = 10.0
MAX_GATHER_TIMEOUT_S = 30.0
#: Maximum ranks named in a message.
MAX_NAMED = 8


class RankTimeouts:
    """Timeouts of one closed barrier.

    Args:
        clock: seconds, monotonic.
        since: when the ranks were asked to arm; negative for now.

    Attributes:
        has_passed: whether the stopped ranks were let pass; that happens once.
    """

    def __init__(self, clock: Callable[[], float], since: float = -1.0) -> None:
        self._clock = clock
        self._asked = clock() if since < 0 else since
        self._moved = clock()
        self._arming = 0.0
        self._began = -1.0
        self.has_passed = False

    def armed(self) -> None:
        """Note one more armed rank."""
        self._moved = self._clock()
        self._arming = self._moved - self._asked

    def moved(self) -> None:
        """Note one more stopped rank."""
        self._moved = self._clock()

    @property
    def waited(self) -> float:
        """Return the seconds since the first stop."""
        return max(0.0, self._clock() - self._began) if self._began >= 0 else 0.0

    @property
    def limit(self) -> float:
        """Return the maximum seconds from the first stop until the barrier gives up."""
        return max(GATHER_TIMEOUT_S, min(MAX_GATHER_TIMEOUT_S, 4 * self._arming))

    def verdict(self, unarmed: int, armed: int, held: int) -> str:
        """Return what the barrier has to do now: WAIT, PASS, OPEN or GIVE_UP.

        Args:
            unarmed: ranks without breakpoints. armed: ranks with breakpoints. held: armed ranks that are stopped.
        """
        now = self._clock()
        quiet = now - self._moved
        if unarmed:
            return GIVE_UP if quiet > ARM_TIMEOUT_S else WAIT
        if held >= armed:
            return OPEN
        if held and self._began < 0:
            self._began = now
        if held and now - self._began > self.limit:
            return GIVE_UP
        if quiet <= max(QUIET_S, min(MAX_QUIET_S, self._arming / 4)):
            return WAIT
        if not held:
            return OPEN  # all ranks have their breakpoints, so they reach a later stop in the same iteration
        if self.has_passed:
            return GIVE_UP
        self.has_passed = True
        self._moved = now
        return PASS


def without_others(missing: Sequence[str], unarmed: int, waited: float) -> str:
    """Return the message for stops that are reported without the missing ranks.

    Args:
        missing: their names. unarmed: how many of them have no breakpoints. waited: see RankTimeouts.
    """
    more = "" if len(missing) <= MAX_NAMED else " and %d more" % (len(missing) - MAX_NAMED)
    what = "not attached to yet" if unarmed else "not at a breakpoint within %.1f s" % waited
    return "stopped without the others: %s%s: %s" % (", ".join(missing[:MAX_NAMED]), more, what)
