"""The time for which a session's processes were stopped, in a file that all of them read.

While a process is stopped, the clocks of all processes of its session fall behind: they run at SLOW speed.
After it they run (1 + CATCH_UP) times as fast until they are right again. The agent is the only writer.
"""

from __future__ import annotations

import math
import os
import struct
import time

from .untraced import Suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple

    #: Seconds behind at a moment, that moment, the seconds that each second adds, and until when it does.
    State = Tuple[float, float, float, float]

#: The file, in the session's folder.
NAME = "held-time"
#: Speed of the clocks during a stop. Not 0: a program that polls for a moment would keep a core busy.
SLOW = 0.001
#: Seconds gained per second after a stop. A timeout that is pending then ends by a third too early.
CATCH_UP = 0.5
#: Seconds for which a record is valid: the writer may be killed during a stop.
LEASE_S = 3.0
#: Seconds for which a process reuses its last reading.
FRESH_S = 0.005
_STATE = struct.Struct("<dddd")
_NOT_HELD: State = (0.0, 0.0, 0.0, 0.0)


def seconds_behind(state: State, now: float) -> float:
    """Return the seconds that the clocks are behind at `now`, on the system's monotonic clock."""
    amount, since, rate, until = state
    found = amount + rate * (min(now, until) - since) - CATCH_UP * max(0.0, now - until)
    return max(0.0, found)


class Reader:
    """The file for a process of the program; it keeps no descriptor open.

    Args:
        directory: the session's folder.
    """

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, NAME)
        self._last = _NOT_HELD
        self._read_at = float("-inf")

    def state(self, now: float) -> State:
        """Return the agent's latest record; `now` is on the system's monotonic clock."""
        if now - self._read_at >= FRESH_S:
            self._read_at = now
            with Suppress(Exception):  # no agent, no free descriptor, an audit hook
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
    """The file for the agent.

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
        """Write the record twice: a reader detects a partial write by different halves."""
        self._state = state
        with Suppress(OSError):  # a full disk must not stop the user's program
            os.pwrite(self._file, 2 * _STATE.pack(*state), 0)
