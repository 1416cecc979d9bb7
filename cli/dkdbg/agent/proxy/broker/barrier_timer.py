"""Checks the rank barrier periodically while it withholds stops, on its own thread."""

from __future__ import annotations

import threading
import time

from dkdbg.agent.dap import messages
from dkdbg.agent.proxy.broker.connection import ROOT
from dkdbg.agent.state import job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, List

    from dkdbg.agent import contract
    from dkdbg.agent.proxy.broker.connection import Action
    from dkdbg.agent.proxy.broker.sessions import Sessions

#: Seconds between two checks.
INTERVAL_S = 0.05


class BarrierTimer:
    """Makes the ranks of a running job stop together; see rank_barrier.py.

    Args:
        sessions: those of the port, with the barrier. lock: guards them.
        act: carries out actions, without the lock.
    """

    def __init__(
        self, sessions: Sessions, lock: threading.Condition, act: Callable[[List[Action]], None]
    ) -> None:
        self._sessions = sessions
        self._lock = lock
        self._act = act
        self._thread = False

    def begin(self, ranks: List[contract.Process]) -> None:
        """Withhold the stops of these ranks until all of them are stopped, with those of other agents."""
        pids, actions = [each["pid"] for each in ranks], []
        with self._lock:
            root, barrier = self._sessions.controller(ROOT), self._sessions.barrier
            if root is None or not messages.opens_sessions(root.client_info):
                return  # such a client attaches to ranks one by one, or never
            if root.arguments.get(messages.LEADS_BARRIER) is True:
                actions = barrier.close_for_job(pids, job.share(ranks))
            else:
                barrier.close(pids)
            starts = barrier.is_closed and not self._thread
            self._thread = self._thread or starts
        self._act(actions)
        if starts:
            threading.Thread(target=self._watch, name="dkdbg barrier", daemon=True).start()

    def without(self, pid: int) -> None:
        """Stop waiting for a rank."""
        with self._lock:
            self._sessions.barrier.left(pid)

    def _watch(self) -> None:
        while True:
            with self._lock:
                actions = self._sessions.barrier.settle()
                if not self._sessions.barrier.is_closed:
                    self._thread = False
                over = not self._thread
            self._act(actions)
            if over:
                return
            time.sleep(INTERVAL_S)
