"""The table of Python processes below the agent; asks them to join the adapter.

Each process announces itself through the hook with `PID.json` and a socket `PID.sock` in one private folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import threading
import time

from dkdbg.agent import sockets
from dkdbg.agent.inprocess import choosing, join, last_stack, ranks
from dkdbg.agent.state import announced, deaths, job, naming, notes, procfs
from dkdbg.launchers import registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Set, Tuple

    from dkdbg.agent import contract

#: Seconds to wait for an answer: a first import of debugpy from a slow disk takes 3, and a process that waits
#: for its breakpoints at start answers after that.
ANSWER_TIMEOUT_S = 30.0
#: Seconds that a process may need to notice that the adapter has ended.
ORPHANED_TIMEOUT_S = 5.0
#: Seconds between two scans of the folder.
INTERVAL_S = 0.5
#: Maximum processes to ask at the same time: each imports debugpy, about 0.2 s of CPU.
MAX_PARALLEL = 8
#: Seconds that an attach waits for processes to report changed sources; they need milliseconds.
CHANGED_TIMEOUT_S = 3.0
#: Maximum scans in which a process with a generic command line is asked for its identity.
MAX_SCANS = 40
#: Maximum different reasons for refusing to join to report.
MAX_REASONS = 20
#: Maximum bytes of one process's answer to `ask_all`.
_MAX_ANSWER_BYTES = 1 << 20
#: Answers of processes that did not join for a reason that a user need not know.
_HARMLESS = ("already joined", join.NO_EDITOR, "the program has ended")


class ProcessTable:
    """Table of the processes in the folder, kept current by its own thread.

    Args:
        folders: where processes announce themselves.
        attached: tells whether an editor is attached now, so that a process can join.
        on_change: called with the processes, by pid, on every change.
        on_refusal: called once per reason why a process cannot be debugged, with one line.
        choice: returns the ranks to debug.
        on_absent: called with the pid of each process that did not join when asked, or that has ended.
        on_clocks: called with the answer of each process that was asked about its timeouts: its pid, and which of its
            clocks still run although the debugger holds it (inprocess/clocks).
        on_pending: called with the answer of each process that was asked about its timeouts: its pid, the name of the
            collective that it waits in with a timeout that could not be raised (empty for none), the seconds that it
            has waited, and the seconds until the timeout.
        on_raised: called whenever a process has raised the timeouts of its torch process groups, with the former
            timeout in seconds.
        before_scan: called before each scan of the folder.
        on_death: called for each process that died of a signal; see deaths.py.
    """

    def __init__(
        self,
        folders: announced.Folders,
        *,
        attached: Callable[[], bool],
        on_change: Callable[[List[contract.Process]], None],
        on_refusal: Callable[[str], None],
        choice: Callable[[], ranks.RankSet] = lambda: ranks.EVERYONE,
        on_absent: Callable[[int], None] = lambda _: None,
        on_raised: Callable[[float], object] = lambda _: None,
        on_clocks: Callable[[int, List[str]], object] = lambda *_: None,
        on_pending: Callable[[int, str, float, float], object] = lambda *_: None,
        before_scan: Callable[[], object] = lambda: None,
        on_death: Callable[[int, str, List[str], bool, bool], None] = lambda *_: None,
    ) -> None:
        self._folders = folders
        self._path = folders.path
        self._attached = attached
        self._on_change = on_change
        self._on_refusal = on_refusal
        self._choice = choice
        self._on_raised = on_raised
        self._on_pending = on_pending
        self._on_clocks = on_clocks
        self._before_scan = before_scan
        self._belongs: Dict[int, Optional[int]] = {}
        self._unclear: Dict[int, int] = {}
        self._watching: Set[int] = set()
        self._names: Dict[int, Tuple[float, str]] = {}
        self._on_absent = on_absent
        self._reasons: Set[str] = set()
        self._known: Dict[int, contract.Process] = {}
        self._asked: Set[int] = set()
        self._asked_for_timeouts: Set[int] = set()
        self._asking = 0
        self._joined: Dict[int, float] = {}
        self._died = float("-inf")
        self._stops: Dict[int, str] = {}
        self.deaths = deaths.Deaths(self._path, self.name_of, lambda pid: self._stops.get(pid, ""), on_death)
        self._lock = threading.Lock()
        self._reporting = threading.Lock()
        self._slots = threading.BoundedSemaphore(MAX_PARALLEL)
        self._wake = threading.Event()
        self._has_new_stops = threading.Event()
        self._stopped = False

    def start(self) -> None:
        """Start the threads that scan the folder, and that report where processes are stopped."""
        threading.Thread(target=self._watch, name="dkdbg processes", daemon=True).start()
        threading.Thread(target=self._report_stops, name="dkdbg stops", daemon=True).start()

    def stop(self) -> None:
        """Stop scanning and reporting."""
        self._stopped = True
        self._wake.set()
        self._has_new_stops.set()

    def scan_now(self) -> None:
        """Scan at once instead of at the next interval."""
        self._wake.set()

    def ask_again(self) -> None:
        """Ask every process to join again: an editor has left, or a new adapter has taken over."""
        with self._lock:
            self._asked.clear()
            self._asked_for_timeouts.clear()
            self._asking += 1
            for process in self._known.values():
                process["joined"] = False
        self._wake.set()

    def follow_timeouts(self) -> None:
        """Make all processes raise their torch process groups' timeouts if an editor is attached, else restore them.

        Each process itself checks whether an editor is attached. Ranks that are not debugged are asked too, because
        they wait in collectives for ranks that are stopped.
        """
        with self._lock:
            pids = list(self._known)
        for pid in pids:
            self.ask_timeouts(pid)

    def tell_of_holds(self) -> None:
        """Tell each process, once per attach, that some process is stopped; see inprocess/clocks/clocks.py."""
        with self._lock:
            pids = [pid for pid in self._known if pid not in self._asked_for_timeouts]
            self._asked_for_timeouts.update(pids)
        for pid in pids:
            self.ask_timeouts(pid)

    def ask_timeouts(self, pid: int) -> None:
        """Have a process raise its timeouts if an editor is attached, else restore them, on a thread of its own."""
        path = self._path(pid, ".sock")

        def ask_one() -> None:
            # A process that is joining answers only after that.
            answer, *clocks = ask(path, "timeouts").split("\t")
            self._on_clocks(pid, clocks)
            fields = answer.split()
            with contextlib.suppress(ValueError, IndexError):
                if fields[:1] == ["raised"] and fields[1] != "0":
                    self._on_raised(float(fields[2]))
                waits = fields[4:] if fields[3:4] == ["waits"] and len(fields) == 7 else ("", "0", "0")
                self._on_pending(pid, waits[0], float(waits[1]), float(waits[2]))

        sockets.begin(ask_one, name="dkdbg ask")

    def leave_out(self) -> Set[int]:
        """Exclude the present processes from joining, because they are about to be ended. Returns their pids."""
        with self._lock:
            self._asked.update(self._known)
            return set(self._known)

    def changed_files(self) -> List[str]:
        """Return source files that a process has loaded and that have changed since its start.

        Ask only the oldest MAX_PARALLEL processes, in parallel: the others of a run have loaded the same files.
        """
        with self._lock:
            oldest = sorted(self._known.values(), key=lambda process: process["started"])[:MAX_PARALLEL]
        paths = {process["pid"]: self._path(process["pid"], ".sock") for process in oldest}
        found: Set[str] = set()
        for answer in ask_all(paths, "changed", CHANGED_TIMEOUT_S).values():
            with contextlib.suppress(ValueError, TypeError):
                listed = json.loads(answer)
                found.update(each for each in listed if isinstance(each, str))
        return sorted(found)

    def adapter_died(self) -> None:
        """Treat every process as disconnected, even if it answers `already joined`: it notices only after up to 1 s."""
        self._died = time.monotonic()
        self.ask_again()

    def name_of(self, pid: int) -> str:
        """Return the name of a process, even if it has only just announced itself."""
        with self._lock:
            process = self._known.get(pid)
        if process is None:
            self.scan_now()  # the process may die before the next scan
            process = _read(self._path(pid, ".json"))
        if process is None:
            return "process %d" % pid
        with self._lock:
            started, name = self._names.get(pid, (0.0, ""))
        if name and started == process["started"]:
            return name
        name = naming.describe(process, self._parent_of(process))
        with self._lock:
            others = [
                each for other, (_, each) in self._names.items() if other != pid and procfs.alive(other)
            ]
            name = naming.qualified(name, process, others)
            self._names[pid] = process["started"], name
        return name

    def is_chosen(self, pid: int) -> bool:
        """Tell whether a process is selected for debugging: by its rank, or by its crash if `failing` is selected."""
        choice = self._choice()
        if choice.everyone:
            return True
        if (
            choice.failing
            and self.rank_of(pid) is not None
            and notes.read(self._path(pid, ".note"))[0] == "post-mortem"
        ):
            return True
        return choice.contains(self.rank_of(pid))

    def rank_of(self, pid: int) -> Optional[int]:
        """Return a process's rank, which a rank's worker process inherits; None without one."""
        with self._lock:
            process = self._known.get(pid)
            if process is not None and pid in self._belongs:
                return self._belongs[pid]
        read = _announced(self._path(pid, ".json"))
        if read is None:
            return None
        itself, environment = read
        parent = self._parent_of(itself)
        found = itself["rank"]
        if found is None:
            found = choosing.rank_of(
                environment,
                itself["argv"],
                itself["origin"],
                below=parent is not None,
                parents=None if parent is None else self.rank_of(parent["pid"]),
            )
        if process is not None:
            with self._lock:
                self._belongs[pid] = found
        return found

    def ranks(self) -> List[int]:
        """Return the present ranks in order."""
        with self._lock:
            known = list(self._known)
        return sorted({rank for rank in map(self.rank_of, known) if rank is not None})

    def ranks_to_gather(self) -> List[contract.Process]:
        """Return the selected ranks, even a single one, that an attach stops at the rank barrier.

        Empty if one of them already waits for the editor, as at a breakpoint(): it has to stay where it is.
        """
        found = [each for each in self._ranks_now(1) if self.is_chosen(each["pid"])]
        return [] if any(notes.read(self._path(each["pid"], ".note"))[0] for each in found) else found

    def ranks_now(self) -> List[int]:
        """Return the pids of the living ranks; empty when there is only one."""
        return [each["pid"] for each in self._ranks_now(2)]

    def _ranks_now(self, least: int) -> List[contract.Process]:
        """Return the ranks, read from the folder: the table may be half a second behind."""
        found = []
        for pid in self.announced():
            process = _read(self._path(pid, ".json"))
            if process is not None and procfs.alive(pid):
                found.append(process)
        return job.ranks(found, least)

    def release(self, pid: int) -> None:
        """Let a process that waits at its start for an editor's session run: the client will not open one."""
        with self._lock:
            known = pid in self._known
        if known or _read(self._path(pid, ".json")):
            with contextlib.suppress(OSError):  # links are not followed: the folder may be another user's
                os.close(
                    os.open(
                        self._path(pid, join.NO_EDITOR_SUFFIX), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644
                    )
                )

    def set_stopped(self, pid: int, where: str) -> None:
        """Note where a debugger has stopped a process; empty when it runs.

        Another thread writes the record, which takes a millisecond, while the editor waits for this stop.
        """
        with self._lock:
            # When a held process dies, its debugger leaves without having resumed it: keep the position.
            if self._stops.get(pid, "") == where or (not where and procfs.is_ending(pid)):
                return
            self._stops[pid] = where
        self._has_new_stops.set()

    def announced(self) -> List[int]:
        """Return the pids of the announced processes in order."""
        return self._folders.pids()

    def _parent_of(self, process: contract.Process) -> Optional[contract.Process]:
        pid = process["ppid"]
        for _ in range(2):  # skip a forkserver in between, even one that has not announced itself
            with self._lock:
                parent = self._known.get(pid)
            parent = parent or _read(self._path(pid, ".json"))
            if not naming.is_forkserver(process):
                return parent
            if parent is not None and not naming.is_forkserver(parent):
                return parent
            pid = procfs.parent(pid)
        return None

    def _watch(self) -> None:
        while not self._stopped:
            for step in (self._before_scan, self._scan):
                # The folder may be removed at any time; that must not end the thread.
                with contextlib.suppress(Exception):
                    step()
            self._wake.wait(INTERVAL_S)
            self._wake.clear()

    def _scan(self) -> None:
        changed = False
        new: List[int] = []
        for pid in self.announced():
            if not procfs.alive(pid):
                self._forget(pid)
                changed = True
                continue
            process = _read(self._path(pid, ".json"))
            if process is None:
                continue
            with self._lock:
                known = self._known.get(pid)
                if known is None or known["started"] != process["started"]:  # new, or the pid was reused
                    self._known[pid] = process
                    new.append(pid)
                    self._asked.discard(pid)
                    self._belongs.pop(pid, None)
                    changed = True
        for pid in new:
            process = self._known[pid]
            self.deaths.follow(pid, process["ppid"])
            if naming.is_generic(process):
                self._unclear.setdefault(pid, MAX_SCANS)
            first = self._known.get(process["ppid"])
            if first is not None and naming.is_first_rank_of(process, first):
                self._unclear.setdefault(first["pid"], 1)
            name = self.name_of(pid)
            with self._lock:
                if pid in self._known:
                    self._known[pid]["name"] = name
        self._ask_who()
        changed = self._read_notes() or changed
        if self._attached():
            self._ask_new()
        if changed:
            self._report()

    def _ask_who(self) -> None:
        """Ask processes that could not tell their role at their start to announce themselves again."""
        for pid, tries in list(self._unclear.items()):
            process = self._known.get(pid)
            if tries <= 0 or process is None or process["origin"]:
                self._unclear.pop(pid)
                continue
            self._unclear[pid] = tries - 1
            path = self._path(pid, ".sock")
            sockets.begin(ask, path, "who", name="dkdbg ask")

    def _read_notes(self) -> bool:
        changed = False
        with self._lock:
            for pid, process in self._known.items():
                state, detail, expires = notes.read(self._path(pid, ".note"))
                if state != process["state"] or detail != process["detail"]:
                    process["state"], process["detail"], process["expires"] = state, detail, expires
                    changed = True
        return changed

    def _ask_new(self) -> None:
        with self._lock:
            found = [pid for pid in self._known if pid not in self._asked]
        new = [pid for pid in found if self.is_chosen(pid)]
        if self._choice().failing:
            self._watch_failing([pid for pid in found if pid not in new and self.rank_of(pid) is not None])
        with self._lock:
            self._asked.update(new)
        first = [pid for _, pid in sorted(self._crashes(new))]
        rest = [pid for pid in new if pid not in first]

        def ask_in_order() -> None:
            # In this order, because an editor shows the first stop: that should be the process that crashed first.
            for pid in first:
                self._ask(pid)
            unasked = [pid for pid in rest if not sockets.begin(self._ask, pid, name="dkdbg ask")]
            with self._lock:
                self._asked.difference_update(unasked)

        if not first:
            ask_in_order()
        elif not sockets.begin(ask_in_order, name="dkdbg ask"):
            with self._lock:
                self._asked.difference_update(new)

    def _crashes(self, pids: List[int]) -> Iterator[Tuple[float, int]]:
        """Yield, for each process held after a crash, the end of its wait in epoch seconds, and its pid."""
        for pid in pids:
            state, _, expires = notes.read(self._path(pid, ".note"))
            if state == notes.POST_MORTEM and expires is not None:
                yield expires, pid

    def _watch_failing(self, free: List[int]) -> None:
        """Make ranks that are not debugged stop if they crash.

        Processes that started after the choice of `failing` do so already.
        """
        for pid in free:
            if pid not in self._watching:
                path = self._path(pid, ".sock")
                if sockets.begin(ask, path, "failing", name="dkdbg ask"):
                    self._watching.add(pid)

    def _ask(self, pid: int) -> None:
        path = self._path(pid, ".sock")
        with self._slots:
            asking = self._asking
            answer, since = self._ask_once(path)
            while answer == "already joined" and self._is_orphaned(pid):
                time.sleep(0.05)
                answer, since = self._ask_once(path)
        if answer.startswith("joined"):
            self._joined[pid] = since
        elif asking != self._asking:  # `ask_again` was called meanwhile: the answer is about a former adapter
            with self._lock:
                self._asked.discard(pid)
            return
        elif answer and not answer.startswith(_HARMLESS):
            self._refused(pid, answer)
        elif answer in ("", join.NO_EDITOR) and (reason := self._folders.why_no_access(pid)):
            self._refused(pid, reason)  # it has changed its user, and can no longer read the session's files
        with self._lock:
            process = self._known.get(pid)
            if process is not None:
                process["joined"] = answer.startswith(("joined", "already joined"))
            if answer == join.NO_EDITOR:  # the editor has left since the scan; the next one gets this process
                self._asked.discard(pid)
        if not answer.startswith(("joined", "already joined", join.NO_EDITOR)):
            self._on_absent(pid)
        self._report()

    def _refused(self, pid: int, reason: str) -> None:
        with self._lock:
            known = reason in self._reasons or len(self._reasons) >= MAX_REASONS
            self._reasons.add(reason)
        if not known:
            self._on_refusal("%s cannot be debugged: %s" % (self.name_of(pid), reason))

    def _ask_once(self, path: str) -> Tuple[str, float]:
        since = time.monotonic()
        return ask(path, "join"), since

    def _is_orphaned(self, pid: int) -> bool:
        before = self._joined.get(pid, float("-inf")) < self._died
        return before and time.monotonic() < self._died + ORPHANED_TIMEOUT_S

    def _forget(self, pid: int) -> None:
        self.deaths.forget(pid)
        for suffix in (".json", ".sock", ".note", ".pdb", join.NO_EDITOR_SUFFIX, last_stack.SUFFIX):
            for folder in self._folders.all():
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(folder, "%d%s" % (pid, suffix)))
        with self._lock:
            self._known.pop(pid, None)
            self._stops.pop(pid, None)
            self._joined.pop(pid, None)
            self._belongs.pop(pid, None)
            self._names.pop(pid, None)
            self._unclear.pop(pid, None)
            self._asked.discard(pid)
            self._watching.discard(pid)
        self._on_absent(pid)

    def _report_stops(self) -> None:
        while self._has_new_stops.wait() and not self._stopped:
            self._has_new_stops.clear()
            with contextlib.suppress(Exception):  # as in `_watch`
                self._report()

    def _report(self) -> None:
        # One report at a time: a slow thread would overwrite a newer report with an older one.
        with self._reporting:
            with self._lock:
                for pid, process in self._known.items():
                    process["stopped"] = self._stops.get(pid, "")
                processes = [self._known[pid].copy() for pid in sorted(self._known)]
            self._on_change(processes)


def ask(path: str, command: str, limit: float = ANSWER_TIMEOUT_S) -> str:
    """Send one command to a process's socket; return its one-line answer, empty without one in `limit` seconds."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.settimeout(limit)
        sock.connect(path)
        with sockets.ask(sock, command.encode()) as connection:
            connection.settimeout(limit)
            return connection.makefile("r").readline().strip()
    return ""


def sockets_in(folders: announced.Folders, processes: Iterable[contract.Process]) -> Dict[int, str]:
    """Return the sockets of processes that announce themselves in these folders, by pid."""
    return {each["pid"]: folders.path(each["pid"], ".sock") for each in processes}


def ask_all(paths: Dict[int, str], command: str, limit: float) -> Dict[int, str]:
    """Send one command to these sockets, by pid; return the answers within `limit` seconds, even partial ones."""
    with selectors.DefaultSelector() as waiting:
        for pid, path in paths.items():
            connection = _asked(path, command)
            if connection is not None:
                waiting.register(connection, selectors.EVENT_READ, (pid, bytearray()))
        answers: Dict[int, str] = {}
        end = time.monotonic() + limit
        while waiting.get_map() and time.monotonic() < end:
            for key, _ in waiting.select(max(0.0, end - time.monotonic())):
                connection, (pid, received) = key.fileobj, key.data  # type: ignore[assignment]  # as registered
                if _receive(connection, received):  # type: ignore[arg-type]
                    continue
                answers[pid] = received.decode("utf-8", "replace")
                waiting.unregister(connection)  # type: ignore[arg-type]
                connection.close()  # type: ignore[union-attr]
        for key in list(waiting.get_map().values()):
            answers[key.data[0]] = key.data[1].decode("utf-8", "replace")
            key.fileobj.close()  # type: ignore[union-attr]
        return answers


def _asked(path: str, command: str) -> Optional[socket.socket]:
    """Send a command; return the connection on which the answer will come, None if the process no longer listens."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)  # a stopped process's queue takes only a few queries
        sock.connect(path)
        connection = sockets.ask(sock, os.fsencode(command))  # a command may contain a path
        connection.setblocking(False)
        return connection
    return None


def _receive(connection: socket.socket, received: bytearray) -> bool:
    """Append what can be read now to `received`; return False at the end of the answer."""
    try:
        data = connection.recv(1 << 16)
    except BlockingIOError:
        return True
    except OSError:
        return False
    received += data
    return bool(data) and len(received) < _MAX_ANSWER_BYTES


def read(folders: announced.Folders, pid: int) -> Optional[contract.Process]:
    """Return a process as it announced itself in these folders, with its name; None if it has not announced itself."""
    process = _read(folders.path(pid, ".json"))
    if process is not None:
        process["name"] = naming.describe(process, _read(folders.path(process["ppid"], ".json")))
    return process


def _read(path: str) -> Optional[contract.Process]:
    found = _announced(path)
    return None if found is None else found[0]


def _announced(path: str) -> Optional[Tuple[contract.Process, Dict[str, str]]]:
    """Return a process as it announced itself in this file, and the rank variables of its environment."""
    try:
        with notes.opened(path) as source:
            raw: Dict[str, Any] = json.load(source)
        found = of_announcement(raw)
        if found is None or os.path.basename(path) != "%d.json" % found["pid"]:
            return None
        return found, {str(name): str(value) for name, value in raw["env"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # another user's file may hold anything


def of_announcement(raw: Any) -> Optional[contract.Process]:  # noqa: ANN401 - as another process writes it
    """Parse a process's announcement; return None if it is malformed."""
    try:
        rank, local_rank, world_size = registry.ranks(raw["env"])
        process: contract.Process = {
            "pid": int(raw["pid"]),
            "ppid": int(raw["ppid"]),
            "argv": [str(word) for word in raw["argv"]][:16],
            "started": float(raw["started"]),
            "origin": str(raw.get("origin", "")),
            "name": "",
            "stopped": "",
            "rank": rank,
            "local_rank": local_rank,
            "world_size": world_size,
            "spread": registry.is_spread(raw["env"]),
            "joined": False,
            "state": "",
            "detail": "",
            "expires": None,
        }
        known = raw.get("rank")  # a rank that the process knows from another source than its environment
        if isinstance(known, int) and rank is None:
            process["rank"] = known
        return process
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
