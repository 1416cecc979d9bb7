"""Who sits where: which client holds which process, who looks on, who waits to, of the connections of one port. No I/O."""

from __future__ import annotations

import itertools

from dkdbg.agent.dap import messages
from dkdbg.agent.proxy.broker.connection import ROOT
from dkdbg.agent.proxy.broker.rank_barrier import RankBarrier
from dkdbg.agent.proxy.broker.stderr_tail import StderrTail
from dkdbg.agent.proxy.listener import tokens
from dkdbg.agent.state import job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Optional, Sequence, Set

    from dkdbg.agent import contract
    from dkdbg.agent.inprocess import ranks
    from dkdbg.agent.proxy.broker.connection import Action, Connection


class Sessions:
    """Shared by the connections of one port. Not for several threads at a time: the relay has a lock for it.

    Args:
        token: see tokens.py.
        name_of: what a process is, by its pid.
        on_stop: told where a process is held, with an empty text when it runs.
        project: whose attach is meant for this port; empty for anybody's. what_runs: here, for messages.
        look: see `LOOK` in connection.py; None where there is nothing to look at.
        is_chosen: whether a process is one of those that are debugged. choose: debug the ranks of this set, None for those
            that the agent was started with.
        release: lets a process go on that waits at its start for a session, by its pid.
        restart: asks for the program to be started again; None where no editor may.
        processes: what there is, as the session's record has it.
        continues: what continuing one rank does to the others where the editor does not say it; see together.py.
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
        project: str = "",
        what_runs: str = "",
        look: Optional[Callable[[], Set[int]]] = None,
        is_chosen: Callable[[int], bool] = lambda _: True,
        choose: Callable[[Optional[ranks.RankSet]], object] = lambda _: None,
        release: Callable[[int], object] = lambda _: None,
        restart: Optional[Callable[[], None]] = None,
        processes: Callable[[], Sequence[contract.Process]] = list,
        continues: str = "",
    ) -> None:
        self.check = tokens.Check(token)
        self.name_of = name_of
        self.on_stop = on_stop
        self.project = project
        self.what_runs = what_runs
        self.look = look
        self.restart = restart
        self.processes = processes
        self.continues = continues
        self.is_chosen = is_chosen
        self.choose = choose
        self.release = release
        #: Processes that are about to be ended, for the program to be started again.
        self.ending: Set[int] = set()
        self.clock = clock
        self.barrier = RankBarrier(clock, name_of, self._tell_root)
        self.wall = wall
        self._sequence = itertools.count(messages.OWN_SEQUENCE)
        self._editors = itertools.count(1)
        self._controllers: Dict[int, Connection] = {}
        self._observers: Dict[int, List[Connection]] = {}
        self._waiting: Dict[int, List[Connection]] = {}
        self._offered: Set[int] = set()
        #: Editors whose root session was taken over. What they still open of their processes ends at once.
        self.evicted: Set[int] = set()
        self.stderr_tail = StderrTail(name_of)
        #: The pid of the program's first process, 0 before; how it has ended, empty while it runs.
        self.program = 0
        self.end = ""

    def _tell_root(self, event: bytes) -> List[Action]:
        root = self._controllers.get(ROOT)
        return [] if root is None or root.leaving else [root.to_client(event)]

    def next_sequence(self) -> int:
        """Return a number for a request of our own to an adapter or a client."""
        return next(self._sequence)

    def next_editor(self) -> int:
        """Return a number for an editor, by which its child sessions are known."""
        return next(self._editors)

    def controller(self, key: int) -> Optional[Connection]:
        """Return whose attach to this process was passed on and has not ended."""
        return self._controllers.get(key)

    def controllers(self) -> Dict[int, Connection]:
        """Return all of them, by key."""
        return dict(self._controllers)

    def take_control(self, connection: Connection) -> None:
        """Note that this client holds its process; a former one is only finishing."""
        self._controllers[connection.key] = connection
        self._offered.discard(connection.key)

    def release_control(self, connection: Connection) -> bool:
        """Note that it does no longer; False when another one has it already."""
        if self._controllers.get(connection.key) is not connection:
            return False
        del self._controllers[connection.key]
        self.barrier.left(connection.key)
        if connection.key == ROOT:
            self._offered.clear()
        else:
            self.on_stop(connection.key, "")
        return True

    def ranks(self) -> List[contract.Process]:
        """Return the processes that are the ranks of one job, see job.py; one alone may have others elsewhere."""
        return job.ranks(self.processes(), least=1)

    def offer(self, pid: int) -> None:
        """Note that the client of the root session was offered a process, which it is about to attach to."""
        self._offered.add(pid)

    def observable(self) -> List[int]:
        """Return the processes that have a holder, or are about to get one."""
        held = [key for key, one in self._controllers.items() if key != ROOT and not one.leaving]
        return held + sorted(self._offered)

    def observers(self, key: int) -> List[Connection]:
        """Return those who look on, the longest first."""
        return list(self._observers.get(key, ()))

    def observed(self) -> List[int]:
        """Return the keys of the processes that somebody looks on at."""
        return list(self._observers)

    def add_observer(self, connection: Connection) -> None:
        """Add one."""
        _add(self._observers, connection)

    def remove_observer(self, connection: Connection) -> None:
        """Remove one, if it is there."""
        _remove(self._observers, connection)

    def waiting(self, key: int) -> List[Connection]:
        """Return those whose attach waits until there is somebody to look on at."""
        return list(self._waiting.get(key, ()))

    def add_waiting(self, connection: Connection) -> None:
        """Add one."""
        _add(self._waiting, connection)

    def remove_waiting(self, connection: Connection) -> None:
        """Remove one, if it is there."""
        _remove(self._waiting, connection)


def _add(places: Dict[int, List[Connection]], connection: Connection) -> None:
    found = places.setdefault(connection.key, [])
    if connection not in found:
        found.append(connection)


def _remove(places: Dict[int, List[Connection]], connection: Connection) -> None:
    found = places.get(connection.key, [])
    if connection in found:
        found.remove(connection)
    if not found:
        places.pop(connection.key, None)
