"""Registry of the cluster's workers and of which have a client; updated by polling the dashboard."""

from __future__ import annotations

import threading
import time

from dkdbg.agent.ray import guard
from dkdbg.agent.ray.dashboard import DashboardError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Optional, Set

    from dkdbg.agent.ray.child_proxy import ChildProxy
    from dkdbg.agent.ray.dashboard import Dashboard, Worker

#: First number for workers, which editors take for a pid; larger than any pid, and unique unlike the pids of two nodes.
_FIRST_NUMBER = 1 << 22
#: Seconds between two polls while an editor is attached, and while none is.
WATCHED_INTERVAL_S, IDLE_INTERVAL_S = 0.25, 2.0
#: Seconds to wait for the name of a worker's task before the worker is announced without it.
NAMED_WITHIN_S = 10.0
#: Maximum child processes of a worker to list; further ones run without a session.
MAX_FORKED = 256
#: Seconds to wait for a worker's entry in its driver's file (guard.runs), which the driver updates every 0.3 s.
_RECORD_TIMEOUT_S = 10.0


class WorkerEntry:
    """One worker, or a process that it has started, and its client.

    Args:
        called: name of the process that the worker has started.

    Attributes:
        number: its `subProcessId` for editors. guarded: whether its port has dkdbg's guard, so that an editor can
            attach while it runs.
        forked: pid of the process that the worker has started, reached through the worker's port; 0 for the worker
            itself.
        stopped: where an editor holds it; empty while it runs. proxy: proxy of its session, None without one.
    """

    def __init__(self, number: int, worker: Worker, forked: int = 0, called: str = "") -> None:
        self.number = number
        self.worker = worker
        self.forked, self._called = forked, called
        self.is_taken = False
        self.stopped = ""
        self.proxy: Optional[ChildProxy] = None
        self.guarded = bool(forked)
        self._since = time.monotonic()

    @property
    def key(self) -> str:
        """Return its key in the registry."""
        return "%s %d" % (self.worker.id, self.forked) if self.forked else self.worker.id

    @property
    def name(self) -> str:
        """Return the display name."""
        return (
            "%s: %s (%d)" % (self.worker.name, self._called, self.forked) if self.forked else self.worker.name
        )

    @property
    def is_free(self) -> bool:
        """Return whether to announce it to editors: it has no client, and waits for one or accepts one at any time."""
        if self.is_taken or not (self.worker.paused or self.guarded):
            return False
        # Ray reports a worker's task about a second after its start.
        return self.worker.is_named or time.monotonic() - self._since > NAMED_WITHIN_S


class WorkerRegistry:
    """Polls the cluster's dashboard for the Ray proxy on `port`. Thread-safe.

    Args:
        changed: called on the registry's thread after each poll with the entries, and with the error, if any.
    """

    def __init__(self, dashboard: Dashboard, changed: Callable[[List[WorkerEntry], str], None]) -> None:
        self.port = 0
        self._dashboard = dashboard
        self._changed = changed
        self._entries: Dict[str, WorkerEntry] = {}
        self._next = _FIRST_NUMBER
        self._lock = threading.Lock()
        self._bell = threading.Event()
        self._over = False
        self.is_watched: Callable[[], bool] = lambda: False

    def run(self) -> None:
        """Poll until `stop`."""
        while not self._over:
            self._bell.clear()
            why = ""
            try:
                self._update(self._dashboard.workers(self._known()))
            except DashboardError as error:
                why = str(error)
            with self._lock:
                entries = list(self._entries.values())
            self._changed(entries, why)
            self._bell.wait(WATCHED_INTERVAL_S if self.is_watched() else IDLE_INTERVAL_S)

    def stop(self) -> None:
        """Stop polling."""
        self._over = True
        self._bell.set()

    def wake(self) -> None:
        """Poll now."""
        self._bell.set()

    def take(self, number: int) -> Optional[WorkerEntry]:
        """Reserve a worker for a client and return it; None if it is gone or taken."""
        with self._lock:
            for entry in self._entries.values():
                if entry.number == number and not entry.is_taken:
                    entry.is_taken = True
                    return entry
        return None

    def connected(self, entry: WorkerEntry, run: str) -> None:
        """Record that a worker's debugger has answered, and wait for the driver to record the worker's code paths.

        Args:
            run: id of the run whose guard has accepted the connection; empty if there is no guard.
        """
        entry.guarded = bool(run)
        end = time.monotonic() + _RECORD_TIMEOUT_S
        while run and time.monotonic() < end:
            worker, known = entry.worker, [each for each in guard.runs() if each.id == run]
            if not known or worker.id in known[0].workers:
                for each in known:
                    worker.unpacked = each.unpacked[worker.id] or worker.unpacked
                    worker.main, worker.source, worker.modules = (
                        each.main,
                        each.source,
                        each.modules[worker.id],
                    )
                return
            time.sleep(0.05)

    def add_forked(self, entry: WorkerEntry, pid: int, called: str) -> int:
        """Add a process that a worker, or one of its child processes, has started, and that waits for a client.

        Returns:
            Its number, new or existing; 0 if the worker has too many.
        """
        forked = WorkerEntry(0, entry.worker, pid, called)
        with self._lock:
            known = self._entries.get(forked.key)
            if known is not None and not known.is_taken:
                return known.number  # a taken one's process has called exec, and its session is ending
            of_worker = [each for each in self._entries.values() if each.worker.id == entry.worker.id]
            if len(of_worker) > MAX_FORKED:
                return 0
            self._next += 1
            forked.number = self._next
            self._entries[forked.key] = forked
        self.wake()
        return forked.number

    def leave(self, entry: WorkerEntry) -> None:
        """Release a worker whose client has left."""
        if not entry.forked:
            time.sleep(WATCHED_INTERVAL_S)  # until Ray reports whether it waits again
        with self._lock:
            entry.is_taken, entry.stopped, entry.proxy = False, "", None
            if entry.forked and self._entries.get(entry.key) is entry:
                del self._entries[entry.key]
        self.wake()

    def tell_held(self) -> None:
        """Stop the clocks of the attached workers for some seconds, because a process of the same client is held."""
        with self._lock:
            proxies = [
                each.proxy for each in self._entries.values() if each.proxy is not None and each.guarded
            ]
        for proxy in proxies:
            proxy.tell_held()

    def _known(self) -> Set[str]:
        """Return the ids of workers that have a guard, so need not wait for a client; some may have ended."""
        found = {worker for run in guard.runs() for worker in run.workers}
        with self._lock:
            return found | {each for each, entry in self._entries.items() if entry.guarded}

    def _update(self, workers: List[Worker]) -> None:
        runs = guard.runs()
        joinable = {worker: name for run in runs for worker, name in run.workers.items()}
        folders = {worker: (folder, run) for run in runs for worker, folder in run.unpacked.items()}
        with self._lock:
            existing = {each.id for each in workers}
            for gone in [
                each
                for each, entry in self._entries.items()
                if entry.worker.id not in existing and not entry.is_taken
            ]:
                del self._entries[gone]
            for each in workers:
                entry = self._entries.get(each.id)
                if entry is None:
                    self._next += 1
                    entry = self._entries[each.id] = WorkerEntry(self._next, each)
                former = entry.worker
                folder, run = folders.get(each.id) or (former.unpacked, former)
                if not each.unpacked:  # Ray reports a worker's task about a second after its start
                    each.unpacked, each.main = folder, run.main
                each.source = run.source
                entry.worker = each
                entry.guarded = entry.guarded or each.id in joinable
                each.called = joinable.get(each.id, "")
