"""File that tells the processes of a session how far their clocks are behind. The agent writes it, all processes read.

While a process is stopped, the clocks of all processes of its session run at SLOW speed, and so fall behind. After the
stop they run (1 + CATCH_UP) times as fast until they are right again.
"""

from __future__ import annotations

import math
import os
import struct
import time

from .untraced import Suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Tuple

    #: In monotonic seconds: how far the clocks are behind at a start time; that time; how much further they fall behind
    #: per second from then on; the time at which that ends.
    State = Tuple[float, float, float, float]

#: The file, in the session's folder.
NAME = "held-time"
#: Speed of the clocks during a stop. Not 0: a program that polls its clock until a deadline would keep a core busy.
SLOW = 0.001
#: Seconds that the clocks gain per second after a stop: a timeout that begins and ends in that time is a third shorter.
CATCH_UP = 0.5
#: Seconds for which a record of a stop is valid: if the agent is killed, the clocks continue after that.
LEASE_S = 3.0
#: Seconds for which a process trusts its last check that its clocks are right.
FRESH_S = 0.005
_STATE = struct.Struct("<dddd")
_PROT_READ = _MAP_SHARED = 1  # on Linux and macOS
#: Session's folder -> identity (device and inode) of its file, and the reader of that file.
_readers: Dict[str, Tuple[Tuple[int, int], Reader]] = {}
_NOT_HELD: State = (0.0, 0.0, 0.0, 0.0)


def seconds_behind(state: State, now: float) -> float:
    """Return the seconds that the clocks are behind at `now`, on the system's monotonic clock."""
    amount, since, rate, until = state
    found = amount + rate * (min(now, until) - since) - CATCH_UP * max(0.0, now - until)
    return max(0.0, found)


class Reader:
    """Reader of the file through a memory mapping: a read makes no call that the program's audit hooks or mocks notice.

    It keeps no descriptor open, which the program could close.
    """

    def __init__(self, directory: str) -> None:
        self._last = _NOT_HELD
        self._mapped: Any = None
        with Suppress(OSError):  # no agent
            self._mapped = _mapped(os.path.join(directory, NAME))

    def state(self) -> State:
        """Return the agent's latest record."""
        if self._mapped is not None:
            found = self._mapped.raw
            half = found[: _STATE.size]
            if found == 2 * half:
                values = _STATE.unpack(half)
                if all(map(math.isfinite, values)):
                    self._last = values
        return self._last


def reader(directory: str) -> Reader:
    """Return the reader of this session's current file, from a cache because mappings are never released."""
    found = _readers.get(directory)
    try:
        info = os.stat(os.path.join(directory, NAME))
        identity = info.st_dev, info.st_ino
    except OSError:
        return Reader(directory)
    if found is None or found[0] != identity:
        found = _readers[directory] = identity, Reader(directory)
    return found[1]


def _mapped(path: str) -> Any:  # noqa: ANN401 - an array of ctypes
    """Map a file into memory, and return it as a ctypes array; None if it is too small. Raises OSError."""
    import ctypes

    size = 2 * _STATE.size
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if os.fstat(file).st_size < size:
            return None
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        # The module `mmap` would keep a descriptor, whose number a program may close and reuse for its own file.
        address = libc.mmap(None, size, _PROT_READ, _MAP_SHARED, file, 0)
    finally:
        os.close(file)
    return (
        None if address in (None, ctypes.c_void_p(-1).value) else (ctypes.c_char * size).from_address(address)
    )


class Writer:
    """Writer of the file, for the agent. Raises OSError: the file cannot be written."""

    def __init__(self, directory: str) -> None:
        self._file = os.open(os.path.join(directory, NAME), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._state = _NOT_HELD
        self._write(_NOT_HELD)

    def hold(self) -> None:
        """Make the clocks fall behind for LEASE_S from now, unless called again."""
        now = time.clock_gettime(time.CLOCK_MONOTONIC)
        self._write((seconds_behind(self._state, now), now, 1.0 - SLOW, now + LEASE_S))

    def release(self) -> None:
        """Make the clocks catch up from now on."""
        now = time.clock_gettime(time.CLOCK_MONOTONIC)
        self._write((seconds_behind(self._state, now), now, 0.0, now))

    def _write(self, state: State) -> None:
        """Write the record twice in a row: a reader recognises a partial write by two different halves."""
        self._state = state
        with Suppress(OSError):  # a full disk must not stop the user's program
            os.pwrite(self._file, 2 * _STATE.pack(*state), 0)
