"""Time limits of a program that the debugger holds: stops its own clocks where possible, and reports all other limits.

See inprocess/clocks/clocks.py and state/deadlines.py. Among the other limits is the timeout of a collective that began
before the attach: it cannot be raised any more (issue 33).
"""

from __future__ import annotations

import contextlib
import threading
import time

from dkdbg.agent import console, sockets
from dkdbg.agent.inprocess import duration
from dkdbg.agent.inprocess.clocks import held_time
from dkdbg.agent.state import deadlines, procfs
from dkdbg.launchers.words import whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Collection, Dict, List, Optional, Set, Tuple

    from dkdbg.agent import contract

#: Minimum seconds between two reports at stops: while the user steps, each step ends in a stop.
REPEAT_S = 60.0
#: Seconds after a stop at which the processes are asked again: some begin to wait for the stopped one only later.
ASK_AGAIN_S = (4.0, 15.0)
#: Seconds before a deadline at which it is reported again during a stop.
WARN_AT_S = (600.0, 300.0, 60.0)
#: Maximum processes to name.
MAX_NAMES = 3
#: Seconds that processes have for an answer.
ANSWER_S = 0.5
#: Seconds between two writes to the file of stopped time (held_time.py); each is valid for held_time.LEASE_S.
INTERVAL_S = 1.0
#: Seconds after which a rank is asked again: a collective of a running job is over by then.
QUERY_AGAIN_S = 2.0
#: Seconds to wait for reports of other ranks on the same collective.
GATHER_S = 1.0


class StoppedClocks:
    """Records when the clocks of a session stop and continue.

    Args:
        directory: the session's folder.
        on_hold: called when a stop begins, and every INTERVAL_S during it; with True while the clocks run despite the
            stop, else with False, which makes the processes use their stoppable clocks.
        evaluates: takes a pid and a monotonic time; tells whether this stopped process evaluates an expression for the
            editor, begun after that time. The evaluation may wait for another process, so the clocks run meanwhile,
            unless a process stops after it began.
    """

    def __init__(
        self, directory: str, on_hold: Callable[[bool], object], evaluates: Callable[[int, float], bool]
    ) -> None:
        self._writer: Optional[held_time.Writer] = None
        with contextlib.suppress(OSError):  # a full disk must not stop the user's program
            self._writer = held_time.Writer(directory)
        self._on_hold, self._evaluates = on_hold, evaluates
        self._changed = threading.Condition()
        #: Time of the stop of each stopped process.
        self._held: Dict[int, float] = {}
        self._renews = False

    def update(self, pid: int, *, is_held: bool) -> None:
        """Record that a process is stopped, or that it runs or has ended."""
        with self._changed:
            if self._writer is None or is_held == (pid in self._held):
                return
            if is_held:
                self._held[pid] = time.monotonic()
            else:
                del self._held[pid]
            if not self._held:
                self._writer.release()
            elif is_held and len(self._held) == 1:
                self._writer.hold()
                self._changed.notify()
            if self._held and not self._renews:
                self._renews = sockets.begin(self._renew, name="dkdbg clocks")

    def extend(self) -> None:
        """Stop the clocks for held_time.LEASE_S, because a rank of the same job is stopped at another agent."""
        with self._changed:
            if self._writer is not None:
                self._writer.hold()

    def release(self) -> None:
        """Record that no process is stopped: the editor has left."""
        with self._changed:
            pids = list(self._held)
        for pid in pids:
            self.update(pid, is_held=False)

    def _renew(self) -> None:
        """Renew the stop, on a thread, while a process is stopped: if the agent is killed, the clocks continue."""
        while True:
            with self._changed:
                while not self._held:
                    self._changed.wait()
                held = dict(self._held)
            go_on = False
            with contextlib.suppress(Exception):  # the clocks continue without the next write
                go_on = any(self._evaluates(pid, max(held.values())) for pid in held)
                self._on_hold(go_on)
            with self._changed:
                if self._held and self._writer is not None:
                    (self._writer.release if go_on else self._writer.hold)()
                self._changed.wait(INTERVAL_S)


class HeldDeadlines:
    """The deadlines of a session, and when to report them.

    Args:
        own: deadlines found in the agent's environment.
        waits: returns those of ranks that wait in a collective.
        ask: asks the processes for `waits` and their clocks. name_of: returns a process's name by its pid.
        pids: returns the processes of the program.
        report: called with a line for the user.
        changed: called when `current` changes.
    """

    def __init__(
        self,
        own: List[contract.Deadline],
        *,
        waits: Callable[[], List[contract.Deadline]],
        ask: Callable[[], object],
        name_of: Callable[[int], str],
        pids: Callable[[], List[int]],
        report: Callable[[str], None],
        changed: Callable[[List[contract.Deadline]], None],
    ) -> None:
        self._own, self._added = own, []  # type: List[contract.Deadline], List[contract.Deadline]
        self._host: List[contract.Deadline] = []
        self._waits, self._ask, self._name_of, self._pids = waits, ask, name_of, pids
        self._parents: List[contract.Deadline] = []
        self._report, self._changed = report, changed
        self._clocks: Dict[int, List[str]] = {}
        self._lock = threading.Lock()
        self._reported_at = float("-inf")
        self._tells_at: Optional[float] = None
        self._asks_at: List[float] = []
        #: Texts of running clocks that have been reported.
        self._told: Set[str] = set()
        self._soonest = float("inf")

    def take(self, said: object) -> None:
        """Store the valid ones of the deadlines that `dkdbg attach` has sent."""
        self._host = deadlines.parse(said)

    def set_running_clocks(self, pid: int, found: List[str]) -> None:
        """Record which clocks of a held process still run; see inprocess/clocks/running_clocks.py."""
        self._clocks[pid] = found

    def add(self, deadline: contract.Deadline) -> None:
        """Report one more deadline, now and at each stop, until another editor attaches."""
        self._added = deadlines.merged(self._added, deadlines.parse([deadline]))
        self._changed(self.current())
        self._tell(deadlines.parse([deadline]))

    def current(self) -> List[contract.Deadline]:
        """Return all deadlines."""
        running = self._running()
        return deadlines.parse(
            deadlines.merged(self._waits(), self._host, self._own, self._added, self._parents, running)
        )

    def _running(self, but: Collection[str] = ()) -> List[contract.Deadline]:
        """Return the clocks that still run as deadlines, without those whose texts are in `but`."""
        names: Dict[str, List[str]] = {}
        for pid, found in sorted(self._clocks.items()):
            for text in found if procfs.alive(pid) else ():
                if text not in but:
                    names.setdefault(text, []).append(self._name_of(pid))
        return [
            {"what": "%s (%s)" % (text, _listed(of)), "ends": None, "after": None, "lift": ""}
            for text, of in names.items()
        ]

    def attached(self) -> None:
        """Report the deadlines to a new editor, before its first stop."""
        self._added = []
        self._changed(self.current())
        self._tell(self._host)
        self._reported_at = float("-inf")
        self._told.clear()

    def stopped(self) -> None:
        """Query the processes after a stop, and make `held` report the deadlines unless it did within REPEAT_S."""
        with self._lock:
            now = time.monotonic()
            self._asks_at = [now + each for each in ASK_AGAIN_S]
            if now < self._reported_at + REPEAT_S or self._tells_at is not None:
                return
            self._tells_at = now + ANSWER_S
        self._ask()

    def held(self) -> None:
        """Report the deadlines when due; called every second while the program is held."""
        now = time.monotonic()
        soonest = self._left()
        with self._lock:
            if self._tells_at is not None:
                is_due = now >= self._tells_at
            else:
                is_due = any(soonest <= each < self._soonest for each in WARN_AT_S)
            asks = now >= min(self._asks_at, default=float("inf"))
            self._asks_at = [each for each in self._asks_at if each > now]
            if is_due:
                self._reported_at, self._tells_at = now, None
        if asks:
            self._ask()  # the answers are there at the next call
        if is_due:
            # Not in `stopped`: this reads /proc, and the editor is waiting for the stop there.
            self._parents = deadlines.of_parents(self._pids())
            self._soonest, new = self._left(), self.current()
        else:
            new = deadlines.parse(self._running(but=self._told))
        if is_due or new:
            self._told.update(text for texts in list(self._clocks.values()) for text in texts)
            self._changed(self.current())  # before the line: a user who reads it may look at the record
            self._tell(new)

    def _left(self) -> float:
        now = time.time()
        found = [left for each in self.current() for left in [deadlines.left(each, now)] if left is not None]
        return min((each for each in found if each > 0.0), default=float("inf"))

    def _tell(self, found: List[contract.Deadline]) -> None:
        line = deadlines.line(found, time.time())
        if line:
            self._report(line)


def _listed(names: List[str]) -> str:
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (" and %d more" % more if more > 0 else "")


class PendingCollectives:
    """Merges the reports of several ranks on one collective into one line.

    Args:
        name_of: returns a process's name by its pid.
        ask: asks a process again, by its pid; its answer goes to `update`.
        report: called with the line.
    """

    def __init__(
        self, name_of: Callable[[int], str], ask: Callable[[int], object], report: Callable[[str], None]
    ) -> None:
        self._name_of = name_of
        self._ask = ask
        self._report = report
        self._lock = threading.Lock()
        self._began: Dict[int, float] = {}
        self._reported: Set[int] = set()
        self._found: Dict[str, List[Tuple[int, float, float]]] = {}
        self._waiting: Dict[int, Tuple[str, float]] = {}

    def update(self, pid: int, name: str, age: float, left: float) -> None:
        """Record that a process has waited `age` seconds in the collective `name`, and gives up in `left` seconds.

        Args:
            name: empty if the process waits in no collective, or in one with a raised timeout.
        """
        began = time.monotonic() - age
        with self._lock:
            if not name:
                self._waiting.pop(pid, None)
                return
            if pid in self._reported:
                self._waiting[pid] = name, time.time() + left
            if pid not in self._began:
                self._began[pid] = began
                duration.later(QUERY_AGAIN_S, lambda: self._ask(pid))
                return
            if pid in self._reported or abs(self._began[pid] - began) > GATHER_S:
                return
            self._reported.add(pid)
            self._waiting[pid] = name, time.time() + left
            is_first = not self._found
            self._found.setdefault(name, []).append((pid, age, left))
        if is_first:
            duration.later(GATHER_S, self._tell)

    def forget(self) -> None:
        """Forget all reports: another editor attaches, and has not seen them."""
        with self._lock:
            self._began.clear()
            self._reported.clear()
            self._waiting.clear()

    def deadlines(self) -> List[contract.Deadline]:
        """Return one deadline for each collective that reported processes wait in: when the first gives up."""
        with self._lock:
            waiting = {pid: each for pid, each in self._waiting.items() if procfs.alive(pid)}
        found: List[contract.Deadline] = []
        for name in sorted({name for name, _ in waiting.values()}):
            pids = [pid for pid in waiting if waiting[pid][0] == name]
            who = listed_ranks(sorted({self._name_of(pid) for pid in pids}))
            what = "%s: giving up in %s" % (who, console.printable(name))
            found.append(
                {"what": what, "ends": min(waiting[pid][1] for pid in pids), "after": None, "lift": ""}
            )
        return found

    def _tell(self) -> None:
        with self._lock:
            found, self._found = self._found, {}
        for name, waiting in found.items():
            names = sorted({self._name_of(pid) for pid, _, _ in waiting})
            age = GATHER_S + max(each[1] for each in waiting)
            left = max(0.0, min(each[2] for each in waiting) - GATHER_S)
            self._report(
                "waiting in %s for %.0f s (since before you attached): %s; its timeout was not raised, so it gives up in "
                "%.0f s, even while you hold a rank"
                % (console.printable(name), age, listed_ranks(names), left)
            )


def listed_ranks(names: List[str]) -> str:
    """Return `rank 1`, `ranks 1, 2, 3` or the names."""
    ranks = [whole_number(name[5:]) for name in names if name.startswith("rank ")]
    numbers = sorted(rank for rank in ranks if rank is not None)
    if len(names) > 1 and len(numbers) == len(names):
        return "ranks " + ", ".join(map(str, numbers))
    return ", ".join(names)
