"""A sync: watches and scans the local root, sends the differences, follows changes, and reconnects."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from dkdbg.errors import DkdbgError
from dkdbg.sync.remote.contact import IS_IT_RUNNING, Contact, refuse_overlap, refuse_same_folder
from dkdbg.sync.remote.flight import Counts
from dkdbg.sync.remote.replica import Replica
from dkdbg.sync.remote.stream import QUIET_S, StreamEndedError
from dkdbg.sync.report import event
from dkdbg.sync.tree.entries import FOLDER
from dkdbg.sync.tree.scan import Scanner

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from dkdbg.core.target import Executor
    from dkdbg.sync.plan import Step
    from dkdbg.sync.report import Event
    from dkdbg.sync.roots import Roots
    from dkdbg.sync.tree.entries import Index, Skip
    from dkdbg.sync.watch.watcher import Watcher

#: First and maximum seconds between two attempts to reach a target that disappeared.
_BACKOFF_S, _MAX_BACKOFF_S = 0.2, 5.0
#: For `once`: maximum attempts to reach the target, and maximum checks of files that are being written.
_MAX_ONCE_ATTEMPTS, _MAX_ONCE_CHECKS = 8, 8
_PING_S, _PONG_TIMEOUT_S = 20.0, 60.0
#: Seconds until a path is checked again. CHANGED_S: after a write during reading. FAILED_S: after a failure. Both are
#: doubled each time, up to MAX_DELAY_S. RACY_S: after a change that is too recent for a reliable stamp (ADR 10).
CHANGED_S, FAILED_S, RACY_S, MAX_DELAY_S = 0.05, 5.0, 1.0, 60.0
#: A constantly written file is sent with its present content after OFTEN attempts. It is sent again after REST_FACTOR
#: times the seconds that sending took, at least MIN_REST_S.
OFTEN, REST_FACTOR, MIN_REST_S = 3, 10, 2.0


class Session:
    """Keeps one remote root equal to one local root.

    Args:
        resolve: returns the present target; called before each connection, because containers get new names.
        report: takes each event, on the calling thread.
        contact: contact to the same remote root; it may have been started already, to save time.

    Attributes:
        files: number of files in sync.
        failed: path -> (reason, hint) of each path that could not be synced.
    """

    def __init__(
        self, roots: Roots, resolve: Callable[[], Executor], *, report: Callable[[Event], None],
        contact: Contact | None = None,
    ) -> None:  # fmt: skip
        self._roots = roots
        self._resolve = resolve
        self._report = report
        self._contact = contact or Contact(roots.remote, roots.local, pythons=roots.pythons)
        self._contact.quiet = lambda: report(event("quiet", seconds=QUIET_S))
        self._reported: dict[str, Skip] = {}
        self._retries = Retries()
        self._index: Index | None = None
        self._lost_events, self._reason, self._began = "", "", 0.0
        self._polled = False
        self._ending = threading.Event()
        self._watcher: Watcher | None = None
        self.failed: dict[str, tuple[str, str]] = {}

    @property
    def files(self) -> int:  # noqa: D102 - see the class
        entries = self._index.entries.items() if self._index else ()
        missing = {*self.failed, *self._retries.changed}
        return sum(1 for path, entry in entries if entry.kind == "f" and path not in missing)

    def once(self) -> None:
        """Make both sides equal and return.

        Raises:
            DkdbgError: the target cannot be reached, or disconnects repeatedly.
        """
        scanner = Scanner(self._roots.local, rules=self._roots.rules)
        for attempt in range(_MAX_ONCE_ATTEMPTS):
            try:
                with self._connected(scanner) as replica:
                    self._converge(replica)
                    self._quieten(replica, scanner)
                return
            except (StreamEndedError, _NotYetError) as error:  # noqa: PERF203
                if self._index is None or attempt == _MAX_ONCE_ATTEMPTS - 1:
                    raise self._unreachable(error) from None
                self._lost(str(error), attempt)

    def follow(self) -> None:
        """Make both sides equal, and keep them equal across lost streams, until KeyboardInterrupt or `stop`.

        Raises:
            DkdbgError: the target could not be reached at the start, the local root is gone, the receiver
                gave up.
        """
        from dkdbg.sync.watch.watcher import Watcher

        self._watcher = watcher = Watcher(os.path.realpath(self._roots.local))
        try:
            scanner = Scanner(
                self._roots.local,
                rules=self._roots.rules,
                enter=watcher.watch,
                linked=watcher.source.watch_linked,
            )
            attempt = 0
            while not self._ending.is_set():
                try:
                    with self._connected(scanner, watcher) as replica:
                        self._converge(replica)
                        attempt = 0
                        self._steady(replica, scanner, watcher)
                except (StreamEndedError, _NotYetError) as error:  # noqa: PERF203
                    if self._index is None:
                        raise self._unreachable(error) from None
                    self._lost(str(error), attempt)
                    attempt += 1
        finally:
            watcher.close()

    def stop(self) -> None:
        """Make `follow` sync all changes so far, then return; call this from another thread."""
        self._ending.set()
        if self._watcher is not None:
            self._watcher.wake()

    @contextmanager
    def _connected(self, scanner: Scanner, watcher: Watcher | None = None) -> Iterator[Replica]:
        """Connect to the present target and yield its replica. The local tree is scanned while the receiver starts."""
        self._began = time.monotonic()
        try:
            with self._temporary_errors():
                if not self._contact.started:
                    self._contact.start(self._resolve())
            if watcher:
                self._contact.ring(watcher.wake)
            index = self._scan(scanner, watcher)
            with self._temporary_errors():
                stream, ready = self._contact.ready()
        finally:
            self._contact.stop()
        try:
            refuse_same_folder(scanner.root, ready)
            if ready.empty:  # the receiver may have just created it, inside the local tree
                index = self._scan(scanner, watcher)
            folders = [path for path, entry in index.entries.items() if entry.kind == FOLDER]
            refuse_overlap(scanner.root, folders, ready, self._contact)
            facts = {
                "local": scanner.root,
                "root": ready.root,
                "user": ready.user,
                "python": ready.python,
                "former": ready.former,
            }
            self._report(event("connected", target=self._contact.label, **facts))
            self._reason = ""
            self._index = index
            self._tell(index.skipped)
            replica = Replica(stream, ready, scanner.root, report=self._report)
            if watcher:
                replica.staying = watcher.source.watch_leaving
                replica.sender.pause = partial(self._urgent, replica, scanner, watcher)
            replica.sender.failed = self.failed
            replica.learn(index.entries)
            yield replica
        finally:
            stream.close()

    @contextmanager
    def _temporary_errors(self) -> Iterator[None]:
        """Treat errors as temporary if there was a connection before."""
        try:
            yield
        except DkdbgError as error:
            if self._index is None:
                raise
            raise _NotYetError(error.message) from error

    def _lost(self, reason: str, attempt: int) -> None:
        """Report why the target is missing, once, then wait, longer each time. After `stop`, return at once."""
        if reason != self._reason and not self._ending.is_set():
            self._report(event("lost", reason=reason))
            self._reason = reason
        self._ending.wait(min(_BACKOFF_S * 2**attempt, _MAX_BACKOFF_S))

    def _unreachable(self, error: Exception) -> DkdbgError:
        return DkdbgError(f"cannot sync to {self._contact.label}: {error}", hint=IS_IT_RUNNING)

    def _scan(self, scanner: Scanner, watcher: Watcher | None) -> Index:
        index = scanner.scan()
        self._lost_events = ""
        if watcher:
            self._watch_rules(scanner, watcher)
        return index

    def _watch_rules(self, scanner: Scanner, watcher: Watcher) -> None:
        """Watch new rule files (the scanner watches folders), and report once why folders have to be polled."""
        new = [path for path in scanner.rules.files if watcher.source.watch_file(path)]
        if new:
            self._retries.update(changed=(), failed=(), racy=new, now=time.monotonic())
        if watcher.limited and not self._polled:
            self._polled = True
            self._report(event("polled", reason=watcher.limited))

    def _converge(self, replica: Replica) -> None:
        counts = replica.converge(self._local_index)
        self._schedule_retries(replica)
        seconds = round(time.monotonic() - self._began, 3)
        self._report(
            event("in_sync", files=self.files, failed=len(self.failed), seconds=seconds, did=str(counts))
        )

    def _quieten(self, replica: Replica, scanner: Scanner) -> None:
        """Read again, at most _MAX_ONCE_CHECKS times, the files that were written during reading."""
        paths: set[str] = set()
        for attempt in range(_MAX_ONCE_CHECKS):
            paths = self._retries.take_changed()
            if not paths:
                return
            time.sleep(CHANGED_S)
            self._local_index.apply(scanner.rescan(self._local_index, paths))
            replica.sender.growing = paths if attempt >= OFTEN else ()
            replica.perform(replica.steps(self._local_index, paths))
            self._schedule_retries(replica)
        for path in paths:
            why = "it is written constantly, and could not be read in one piece"
            replica.sender.fail(
                path, why, "sync again later, or leave it out with [sync] ignore in dkdbg.toml"
            )

    def _steady(self, replica: Replica, scanner: Scanner, watcher: Watcher) -> None:
        """Follow changes until the stream ends, or until `stop`."""
        sender = replica.sender
        pinged = 0.0
        while not self._ending.is_set():
            now = time.monotonic()
            batch = watcher.batch(max(self._retries.next(now + _PING_S) - now, 0.0))
            sender.hear()
            now = time.monotonic()
            dirty = self._retries.take(now)
            if batch:
                dirty |= self._retries.put_off(batch.paths, now)
                self._lost_events = batch.lost or self._lost_events
            if self._lost_events:
                self._report(event("rescan", reason=self._lost_events))
                self._rescan_all(replica, scanner, watcher)
            elif dirty:
                self._rescan(dirty, replica, scanner, watcher)
            elif now - max(sender.heard, pinged) >= _PING_S:
                sender.ping()
                pinged = now
            if pinged > sender.heard and now - sender.heard > _PONG_TIMEOUT_S:
                raise StreamEndedError(f"no answer for {_PONG_TIMEOUT_S:g} s", code=None, answered=True)
        self._rescan_all(replica, scanner, watcher)  # the last changes may not be reported yet

    def _rescan_all(self, replica: Replica, scanner: Scanner, watcher: Watcher) -> None:
        self._began = time.monotonic()
        self._index = self._scan(scanner, watcher)
        self._tell(self._local_index.skipped)
        self._converge(replica)

    def _rescan(self, dirty: set[str], replica: Replica, scanner: Scanner, watcher: Watcher) -> None:
        began = time.monotonic()
        steps = self._steps(dirty, replica, scanner, watcher)
        replica.sender.growing = self._retries.often
        counts = replica.perform(steps) if steps else Counts()
        self._schedule_retries(replica)
        if counts.visible:
            last = next((step.path for step in reversed(steps) if step.operation != "mkdir"), steps[-1].path)
            seconds = round(time.monotonic() - began, 4)
            facts = {"paths": len(steps), "last": last, "seconds": seconds, "did": str(counts)}
            self._report(event("changed", files=self.files, failed=len(self.failed), **facts))

    def _steps(self, dirty: set[str], replica: Replica, scanner: Scanner, watcher: Watcher) -> list[Step]:
        changes = scanner.rescan(self._local_index, dirty)
        self._local_index.apply(changes)
        for path in changes.cleared:
            self._reported.pop(path, None)
        self._tell(changes.skipped)
        self._watch_rules(scanner, watcher)
        paths = {*changes.written, *changes.removed, *changes.skipped, *dirty}
        return replica.steps(self._local_index, paths, changes.scanned)

    def _urgent(self, replica: Replica, scanner: Scanner, watcher: Watcher) -> list[Step]:
        """Return steps for changes while a large file is in transfer."""
        batch = watcher.batch(0)
        if batch is None or self._lost_events:
            return []
        if batch.lost:
            self._lost_events = batch.lost
            return []
        paths = self._retries.put_off(batch.paths, time.monotonic(), also=replica.sender.growing)
        return self._steps(paths, replica, scanner, watcher)

    @property
    def _local_index(self) -> Index:
        assert self._index is not None  # noqa: S101 - set before anything is sent
        return self._index

    def _schedule_retries(self, replica: Replica) -> None:
        """Schedule another check of paths that changed during reading, failed, or were read too soon after a change."""
        sender = replica.sender
        self._retries.update(
            changed=sender.changed,
            failed=sender.failed,
            racy=sender.racy,
            now=time.monotonic(),
            grew=sender.grew,
        )
        sender.changed.clear()
        sender.grew.clear()
        sender.racy.clear()

    def _tell(self, skipped: dict[str, Skip]) -> None:
        for path, skip in skipped.items():
            if self._reported.get(path) != skip:
                self._reported[path] = skip
                self._report(event("skipped", path=path, reason=skip.reason))


class _NotYetError(Exception):
    """The target was reachable before, and is not now."""


class Retries:
    """Due times by path, in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self._times: dict[str, int] = {}
        self._changed: set[str] = set()
        self._rest: dict[str, float] = {}

    @property
    def changed(self) -> Collection[str]:
        """Return paths that were written while they were read, and wait to be read again."""
        return self._changed

    @property
    def often(self) -> Collection[str]:
        """Return paths that failed `OFTEN` times."""
        return {path for path, count in self._times.items() if count >= OFTEN}

    def update(
        self, *, changed: Collection[str], failed: Collection[str], racy: Collection[str], now: float,
        grew: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        """Record the results of the last attempt.

        A path that is in none of these collections and has no due time counts as in sync, and is forgotten.

        Args:
            grew: growing files, with the seconds that it took to send them.
        """
        waiting = {*changed, *failed, *(grew or ()), *self._due}
        self._times = {path: count for path, count in self._times.items() if path in waiting}
        for path, seconds in (grew or {}).items():
            self._due[path] = self._rest[path] = now + min(
                max(REST_FACTOR * seconds, MIN_REST_S), MAX_DELAY_S
            )
            self._times[path] = OFTEN
            self._changed.discard(path)
        self._changed |= set(changed)
        for paths, delay in ((changed, CHANGED_S), (failed, FAILED_S)):
            for path in paths:
                if path not in self._due:
                    count = self._times.get(path, 0)
                    self._due[path] = now + min(delay * 2**count, MAX_DELAY_S)
                    self._times[path] = count + 1
        for path in racy:
            self._due.setdefault(path, now + RACY_S)

    def put_off(self, paths: Collection[str], now: float, *, also: Collection[str] = ()) -> set[str]:
        """Return the `paths` to send now. Schedule the others for later: those sent recently, and those in `also`."""
        ready = set()
        for path in paths:
            until = self._rest.get(path, now + MIN_REST_S if path in also else now)
            if until > now:
                self._due.setdefault(path, until)
            else:
                ready.add(path)
        return ready

    def take(self, now: float) -> set[str]:
        """Return the due paths, and forget them."""
        ready = {path for path, at in self._due.items() if at <= now}
        for path in ready:
            del self._due[path]
            self._rest.pop(path, None)
        self._changed -= ready
        return ready

    def take_changed(self) -> set[str]:
        """Return the paths that were written while they were read, due or not, and forget them."""
        taken, self._changed = self._changed, set()
        for path in taken:
            self._due.pop(path, None)
        return taken

    def next(self, latest: float) -> float:
        """Return the first due time, at most `latest`."""
        return min(latest, min(self._due.values(), default=latest))
