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
#: Seconds after the last armed rank in which the barrier waits for a first stop before it opens: a later stop is
#: in every rank's next round, as no rank passed the line before it had breakpoints. Twice the time that arming
#: took, if that is more.
FIRST_STOP_TIMEOUT_S = 5.0
#: Seconds without progress before the stopped ranks are let pass: QUIET_S has a value for each time, the last one
#: for all further times. A quarter of the time that arming took if that is more, at most MAX_QUIET_S.
MAX_QUIET_S = 3.0
QUIET_S = (0.25, 0.25, 0.25, 0.5, 1.0)
#: Seconds from the first stop until the barrier gives up; four times the time that arming took if that is more,
#: up to the maximum.
GATHER_TIMEOUT_S = 10.0
MAX_GATHER_TIMEOUT_S = 30.0
#: Rounds with the same number of stopped ranks before the barrier gives up: the line is not for the other ranks
#: (`if rank == 0:`). With more rounds, ranks whose collectives come every few rounds would still meet, but the
#: stop of a slow loop would be withheld for longer.
SAME_ROUNDS = 2
#: Maximum ranks named in a message.
MAX_NAMED = 8


class RankTimeouts:
    """Timeouts of one closed barrier.

    Args:
        clock: seconds, monotonic.
        since: when the ranks were asked to arm; negative for now.

    Attributes:
        times: how often the stopped ranks were let pass.
    """

    def __init__(self, clock: Callable[[], float], since: float = -1.0) -> None:
        self._clock = clock
        self._asked = clock() if since < 0 else since
        self._moved = clock()
        self._arming = 0.0
        self._began = -1.0
        self._held = 0
        self._same = 0
        self.times = 0

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
        if not held:
            return OPEN if quiet > max(FIRST_STOP_TIMEOUT_S, 2 * self._arming) else WAIT
        if self._began < 0:
            self._began = now
        if now - self._began > self.limit:
            return GIVE_UP
        if quiet <= max(QUIET_S[min(self.times, len(QUIET_S) - 1)], min(MAX_QUIET_S, self._arming / 4)):
            return WAIT
        self._same = self._same + 1 if held == self._held else 1
        self._held = held
        if self._same >= SAME_ROUNDS:
            return GIVE_UP
        self.times += 1
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
