"""Sessions of one port: the controller, the observers and the waiting observers of each process. No I/O."""

from __future__ import annotations

import itertools

from dkdbg.agent.dap import messages
from dkdbg.agent.proxy.broker.connection import ROOT
from dkdbg.agent.proxy.broker.rank_barrier import RankBarrier
from dkdbg.agent.proxy.listener import tokens
from dkdbg.agent.state import job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Optional, Set, Tuple

    from dkdbg.agent import contract
    from dkdbg.agent.proxy.broker.agent import Agent
    from dkdbg.agent.proxy.broker.connection import Action, Connection


class Sessions:
    """Sessions of one port, shared by its connections. Not thread-safe: the relay has a lock.

    Args:
        agent: the agent behind the port.
        clock: seconds, monotonic. wall: the time of day as HH:MM.
    """

    def __init__(self, agent: Agent, *, clock: Callable[[], float], wall: Callable[[], str]) -> None:
        self.agent = agent
        self.check = tokens.Check(agent.token)
        #: Processes that are about to be ended because the program is restarted.
        self.ending: Set[int] = set()
        self.clock = clock
        self.barrier = RankBarrier(clock, agent.name_of, self._tell_root)
        self.wall = wall
        #: Functions that return the next sequence number for a request of the broker, and the next editor number,
        #: which the editor's child sessions carry too.
        self.next_sequence = itertools.count(messages.OWN_SEQUENCE).__next__
        self.next_editor = itertools.count(1).__next__
        self._controllers: Dict[int, Connection] = {}
        self._observers: Dict[int, List[Connection]] = {}
        self._waiting: Dict[int, List[Connection]] = {}
        #: Processes that the root session's client was offered, and is about to attach to.
        self.offered: Set[int] = set()
        #: Editors that lost the root session to another one. Child sessions that they still open end at once.
        self.evicted: Set[int] = set()
        self.stderr_tail = StderrTail(agent.name_of)
        #: Pid of the program's first process, 0 before it starts; how the program has ended, empty while it runs.
        self.program = 0
        self.end = ""

    def _tell_root(self, event: bytes) -> List[Action]:
        root = self._controllers.get(ROOT)
        return [] if root is None or root.leaving else [root.to_client(event)]

    def controller(self, key: int) -> Optional[Connection]:
        """Return the controller: the connection whose attach was passed on and has not ended."""
        return self._controllers.get(key)

    def controllers(self) -> Dict[int, Connection]:
        """Return all controllers, by key."""
        return dict(self._controllers)

    def take_control(self, connection: Connection) -> None:
        """Make this client the controller of its process; a former controller is already leaving."""
        self._controllers[connection.key] = connection
        self.offered.discard(connection.key)
        if connection.key == ROOT:
            self.agent.choose(connection.ranks)

    def release_control(self, connection: Connection) -> bool:
        """Remove a controller; return False if another client already controls its process."""
        if self._controllers.get(connection.key) is not connection:
            return False
        del self._controllers[connection.key]
        self.barrier.released(connection)
        if connection.key == ROOT:
            self.offered.clear()
            self.agent.choose(None)  # until the next editor chooses ranks
        else:
            self.agent.on_stop(connection.key, "")
        return True

    def ranks(self) -> List[contract.Process]:
        """Return the processes that are ranks of one job, see job.py; other agents may have more of them."""
        return job.ranks(self.agent.processes(), least=1)

    def observable(self) -> List[int]:
        """Return the processes that have a controller, or are about to get one."""
        keys = [key for key, one in self._controllers.items() if key != ROOT and not one.leaving]
        return keys + sorted(self.offered)

    def observers(self, key: int) -> List[Connection]:
        """Return the observers of a process, the earliest first."""
        return list(self._observers.get(key, ()))

    def observed(self) -> List[int]:
        """Return the keys of the processes that have observers."""
        return list(self._observers)

    def add_observer(self, connection: Connection) -> None:
        """Add an observer of its process, unless it is one already."""
        _add(self._observers, connection)

    def waiting(self, key: int) -> List[Connection]:
        """Return the observers that wait for a controller."""
        return list(self._waiting.get(key, ()))

    def add_waiting(self, connection: Connection) -> None:
        """Add a waiting observer."""
        _add(self._waiting, connection)

    def remove(self, connection: Connection) -> None:
        """Remove an observer, also a waiting one, if present."""
        for lists in (self._observers, self._waiting):
            found = lists.get(connection.key, [])
            if connection in found:
                found.remove(connection)
            if not found:
                lists.pop(connection.key, None)


def _add(places: Dict[int, List[Connection]], connection: Connection) -> None:
    found = places.setdefault(connection.key, [])
    if connection not in found:
        found.append(connection)


#: Maximum stderr characters to keep for one process, and maximum number of processes.
MAX_CHARACTERS = 4000
MAX_PROCESSES = 64
_TRACEBACK = "Traceback (most recent call last):"


class StderrTail:
    """Tail of each process's stderr, received while an editor is attached; `name_of` names a process by its pid."""

    def __init__(self, name_of: Callable[[int], str]) -> None:
        self._name_of = name_of
        self._texts: Dict[int, str] = {}
        #: Names of processes, cached while they live: the name of an ended process cannot be looked up.
        self._names: Dict[int, str] = {}

    def add(self, pid: int, text: object) -> None:
        """Append output of a process."""
        if not isinstance(text, str):
            return
        if pid not in self._names:
            self._names[pid] = self._name_of(pid)
        former = self._texts.pop(pid, "")
        self._texts[pid] = (former + text)[-MAX_CHARACTERS:]
        while len(self._texts) > MAX_PROCESSES:
            oldest = next(iter(self._texts))
            del self._texts[oldest], self._names[oldest]

    def forget(self) -> None:
        """Discard everything: the program restarts."""
        self._texts.clear()
        self._names.clear()

    def of_a_failure(self, pid: int) -> Tuple[str, str]:
        """Return the name and the output of the process that best explains a failure.

        The name is empty for the program's first process, both are empty without any output.

        Args:
            pid: pid of the program. If it is a launcher, its first process that ended with a traceback explains more.
        """
        failed = [each for each, text in self._texts.items() if _TRACEBACK in text and each != pid]
        others = [each for each, text in self._texts.items() if text.strip() and each != pid]
        order = [pid, *failed] if _TRACEBACK in self._texts.get(pid, "") else [*failed, pid]
        for each in [*order, *reversed(others)]:
            if self._texts.get(each, "").strip():
                return "" if each == pid else self._names[each], self._texts[each]
        return "", ""
