"""Records when the program's processes are stopped, for the clocks of all of them (inprocess/clocks/clocks.py)."""

from __future__ import annotations

import contextlib
import threading

from dkdbg.agent.inprocess.clocks import held_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Optional, Set

#: Seconds between two writes during a stop; each is valid for held_time.LEASE_S.
INTERVAL_S = 1.0


class StoppedClocks:
    """Records when the clocks of a session stop and continue.

    Args:
        on_hold: called when a stop begins, and every INTERVAL_S during it: processes replace their clocks now.
    """

    def __init__(self, directory: str, on_hold: Callable[[], object]) -> None:
        self._writer: Optional[held_time.Writer] = None
        with contextlib.suppress(OSError):  # a full disk must not stop the user's program
            self._writer = held_time.Writer(directory)
        self._on_hold = on_hold
        self._changed = threading.Condition()
        self._held: Set[int] = set()
        self._renews = False

    def note(self, pid: int, *, is_held: bool) -> None:
        """Record that a process is stopped, or that it runs or has ended."""
        with self._changed:
            if self._writer is None or is_held == (pid in self._held):
                return
            (self._held.add if is_held else self._held.discard)(pid)
            if not self._held:
                self._writer.release()
            elif is_held and len(self._held) == 1:
                self._writer.hold()
                self._changed.notify()
            if self._held and not self._renews:
                self._renews = True
                threading.Thread(target=self._renew, name="dkdbg clocks", daemon=True).start()

    def extend(self) -> None:
        """Stop the clocks for held_time.LEASE_S: a rank of the same job is stopped at another agent."""
        with self._changed:
            if self._writer is not None:
                self._writer.hold()

    def release(self) -> None:
        """Record that no process is stopped: the editor has left."""
        with self._changed:
            pids = list(self._held)
        for pid in pids:
            self.note(pid, is_held=False)

    def _renew(self) -> None:
        """Renew the record while a process is stopped, on one thread: if the agent is killed, the clocks continue."""
        while True:
            with self._changed:
                while not self._held:
                    self._changed.wait()
            with contextlib.suppress(Exception):  # the clocks continue without the next write
                self._on_hold()
            with self._changed:
                self._changed.wait(INTERVAL_S)
                if self._held and self._writer is not None:
                    self._writer.hold()
