"""The time for which processes of a session were held, in a file that all of them read.

While a process is held, the clocks of all processes of its session fall behind: they run SLOW times as fast. After it
they run (1 + CATCH_UP) times as fast until they are right again. The agent is the only writer.
"""

from __future__ import annotations

import contextlib
import math
import os
import struct
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple

    #: Seconds behind at a moment, that moment, what each second adds, and until when that is so.
    State = Tuple[float, float, float, float]

#: The file, in the session's folder.
NAME = "held-time"
#: Speed of the clocks during a hold. Not 0: a program that polls until a moment comes would keep a core busy.
SLOW = 0.001
#: Seconds gained each second after a hold. A time limit that is pending then ends by a third too early.
CATCH_UP = 0.5
#: Seconds for which the writer's word holds: it may be killed during a hold.
LEASE_S = 3.0
#: Seconds for which a process takes what it has read last.
FRESH_S = 0.005
_STATE = struct.Struct("<dddd")
_NOT_HELD: State = (0.0, 0.0, 0.0, 0.0)


def seconds_behind(state: State, now: float) -> float:
    """Return the seconds that the clocks are behind at `now`, of the system's monotonic clock."""
    amount, since, rate, until = state
    found = amount + rate * (min(now, until) - since) - CATCH_UP * max(0.0, now - until)
    return max(0.0, found)


class Reader:
    """The file as a process of the program sees it; no descriptor of it stays open.

    Args:
        directory: the session's folder.
    """

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, NAME)
        self._last = _NOT_HELD
        self._read_at = float("-inf")

    def state(self, now: float) -> State:
        """Return what the agent wrote last; `now` is of the system's monotonic clock."""
        if now - self._read_at >= FRESH_S:
            self._read_at = now
            with contextlib.suppress(Exception):  # no agent, no descriptor left, an audit hook
                file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    found = os.read(file, 2 * _STATE.size)
                finally:
                    os.close(file)
                half = found[: _STATE.size]
                if found == 2 * half and all(map(math.isfinite, _STATE.unpack(half))):
                    self._last = _STATE.unpack(half)
        return self._last


class Writer:
    """The file as the agent writes it.

    Args:
        directory: the session's folder.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, directory: str) -> None:
        self._file = os.open(os.path.join(directory, NAME), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._state = _NOT_HELD
        self._write(_NOT_HELD)

    def hold(self) -> None:
        """Let the clocks fall behind, for LEASE_S from now."""
        now = time.monotonic()
        self._write((seconds_behind(self._state, now), now, 1.0 - SLOW, now + LEASE_S))

    def release(self) -> None:
        """Let the clocks catch up."""
        now = time.monotonic()
        self._write((seconds_behind(self._state, now), now, 0.0, now))

    def _write(self, state: State) -> None:
        """Write it twice: what is read in the midst of it has two different halves."""
        self._state = state
        with contextlib.suppress(OSError):  # a full disk is not worth the user's program
            os.pwrite(self._file, 2 * _STATE.pack(*state), 0)
