"""One session around a program: the listener, the adapter, the record and the wait for an editor."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import signal
import threading
import time

from dkdbg.agent import console, contract, settings, sockets
from dkdbg.agent.inprocess import bundle, duration
from dkdbg.agent.inprocess.clocks import timeouts
from dkdbg.agent.proxy.adapter import backend, root_stub
from dkdbg.agent.proxy.broker import broadcast_query, relay
from dkdbg.agent.proxy.broker.agent import Agent
from dkdbg.agent.proxy.listener import listener, local_users, peers, tokens
from dkdbg.agent.state import choice, deadlines, naming, notes, processes, procfs, records, runtime_dir
from dkdbg.agent.supervisor import (
    child,
    control,
    ending,
    held_deadlines,
    hook_check,
    hook_folder,
    image_files,
    original_service,
    own_client,
    profiles,
    restarts,
    reverse,
    site_folders,
    unhit,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

    from dkdbg.agent.inprocess import ranks
    from dkdbg.agent.supervisor.options import Options

    #: Runs the user's program once or repeatedly; returns the agent's exit code and a description of the end.
    Program = Callable[["Session"], Tuple[int, str]]

#: Seconds for an editor to close its sessions after `terminated`; VS Code needs 20 ms.
CLOSE_TIMEOUT_S = 1.5
#: Maximum seconds for the adapter to deliver the last output to the editor; it usually needs milliseconds.
DELIVERY_TIMEOUT_S = 10.0
#: Errors after which `run` lets the program run without the debugger.
_NO_SESSION = (runtime_dir.RuntimeDirError, bundle.NoDebugpy, OSError, RuntimeError)
#: Advice to a refused client in another container.
_REFUSED_HINT = (
    "set DKDBG_TOKEN where the program runs, and dkdbgToken in the attach configuration to the same value"
)

#: Threads that an editor and the first process need; each further process needs half as many.
TASKS_OF_AN_EDITOR = 20
_FEW_TASKS = (
    "pids.max allows only %d more threads and processes here, and an editor needs about %d: without them no breakpoint "
    "stops. Raise the limit (compose: pids_limit), and start again"
)
#: Minimum seconds between two checks for files that are edited while an editor is attached.
EDIT_INTERVAL_S = 2.0


def run(options: Options, program: Program, *, is_running: bool = False) -> int:
    """Open the session, wait for an editor as requested, run the program, and return the agent's exit code.

    Args:
        is_running: whether the command runs already; then do not start it if no session can be opened.
    """
    inbox = child.SignalInbox()  # before any thread is started: threads inherit the blocked signals
    if options.unblock_sigterm:
        inbox.former_mask.discard(signal.SIGTERM)
    try:
        allow = peers.AllowList(os.environ.get(settings.ENV_ALLOW, ""))
        runtime = runtime_dir.open_runtime_dir(options.runtime)
        records.prune(runtime)
        debugpy_dir = bundle.ensure_debugpy(search_dirs(), runtime)
        return Session(options, inbox, runtime, debugpy_dir, allow).run(program, is_running=is_running)
    except ValueError as error:
        console.log(str(error))
        return contract.EXIT_AGENT
    except _NO_SESSION as error:
        if is_running or options.supervision is not None:
            console.log("cannot start: %s" % error)
            return contract.EXIT_AGENT
        return child.run_undebugged(options.command, str(error), inbox.former_mask)


def search_dirs() -> List[str]:
    """Return the folders that may hold a `debugpy-VERSION`: the agent's package, and the folder that it is in."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return [os.path.dirname(package), package]


class Session:
    """One agent's work, from the open port to the exit code.

    Attributes:
        options: the parsed options.
        inbox: signals for the program.
        store: the session's folder and record; the program's processes carry the folder in their environment.
        table: the program's Python processes.
        restarts: requests to restart the program; the program's loop fulfils them.
        ended_by_editor: set when an editor has asked to end the program; the program's loop clears it.
        attaches: number of attaches by editors so far.
        leaving: whether a signal has asked the agent to end.
        other_ranks: returns the ranks of the job that no agent debugs, and the pids of those that run on this machine.

    Raises:
        OSError: the port cannot be listened on, or the session's folder cannot be written.
    """

    _control: Optional[control.Control] = None
    #: The program's last run.
    _running: Optional[child.Child] = None
    #: True once a signal has asked the agent to end since the program's end.
    _hurries = False
    _next_edit_check = 0.0

    def __init__(
        self,
        options: Options,
        inbox: child.SignalInbox,
        runtime: str,
        debugpy_dir: str,
        allow: peers.AllowList,
    ) -> None:
        self.options = options
        self.inbox = inbox
        self._runtime = runtime
        self._debugpy_dir = debugpy_dir
        self._warm_up: Optional[backend.WarmUp] = None
        self._reverse: Optional[reverse.ReverseConnection] = None
        self.ended_by_editor = threading.Event()
        self.attaches = 0
        #: Set once an editor has attached, even if it has left since.
        self._has_attached = threading.Event()
        self._attaches_before_end: Optional[int] = None
        self._raised_for = 0
        self.restarts = restarts.Restarts(inbox.wake)
        self._holds = notes.Holds(console.log, lambda: self.endpoint)
        self._phase: contract.State = "starting"
        self._writing = threading.Lock()
        self.leaving = False
        self.other_ranks: Callable[[], Tuple[List[int], List[int]]] = lambda: ([], [])
        #: True if the program has failed, while the port stays open to report that to an editor.
        self._failed = False
        self._since = 0.0
        self._edited: List[str] = []
        self._reported_edits: Set[str] = set()
        self._should_restart = False
        self._token = token = tokens.read(os.environ)
        self._asking, self._asks = threading.Lock(), False
        self._service = relay.Service(_Behind(self, token))
        self._is_closed = threading.Event()
        goes_by_user = not (token or allow.anyone)
        try:
            self._listener = listener.Listener(
                options.host,
                options.port,
                or_free=options.or_free_port,
                serve=self._service.serve,
                ready=self._ready,
                status=self._status,
                allow=allow,
                token=token,
                users=local_users.of_this_agent(os.environ) if goes_by_user else None,
                outsiders=_REFUSED_HINT if goes_by_user else "",
                let_in_later=True,
                log=console.log,
                greeting=os.path.basename(debugpy_dir).partition("-")[2],
            )
        except OSError as error:
            reason = "cannot listen on %s:%d: %s; choose another port: --port or %s"
            raise ValueError(
                reason % (options.host, options.port, error.strerror, settings.ENV_PORT)
            ) from error
        self.store = records.SessionStore(runtime, options.name)
        self._clocks = held_deadlines.StoppedClocks(
            self.store.directory, on_hold=self._on_hold, evaluates=self._service.evaluates
        )
        self._choice = choice.Choice(self.store.directory, os.environ.get(settings.ENV_RANKS, ""))
        self._sites = site_folders.Sites(os.environ)
        self._original_service = original_service.OriginalService(
            os.environ, lambda: self.attached, lambda line: self.tell(line, "important")
        )
        self._image_files = image_files.ImageFiles(os.environ)
        self._lets_users_in = os.geteuid() == 0 and os.environ.get(settings.ENV_OWN_CONTAINER) == "1"
        if self._lets_users_in:
            self.store.open_for_users()
        self._program, self._first_death, self._untold_death = 0, "", ""
        self._hook_check = hook_check.HookCheck(self.store.folders)
        self._unhit = unhit.Unhit(
            self.store.folders,
            processes=lambda: self.store.snapshot()["processes"],
            report=self.tell,
        )
        self._adapter_path = os.path.join(self.store.processes_dir, contract.ADAPTER_NAME)
        self._backend = backend.Backend(
            debugpy_dir,
            self._adapter_path,
            self._listener.port,
            make_stub=functools.partial(
                root_stub.RootStub,
                is_new=lambda: not self._service.is_reattaching(),
                on_attach=self._on_attach,
                on_breakpoints=self._on_breakpoints,
                on_detach=self._on_detach,
            ),
            on_lost=self._on_lost,
            on_restart=self._on_restart,
            log=console.log,
        )
        self.table = processes.ProcessTable(
            self.store.folders,
            attached=lambda: self.attached,
            on_change=lambda found: self._write(processes=found, **self._holds.fields(found)),
            on_refusal=self.tell,
            choice=lambda: self._choice.current,
            on_absent=self._service.barrier_timer.without,
            on_raised=self._say_raised,
            on_pending=lambda *found: self._pending.update(*found),  # noqa: PLW0108 - _pending is created below
            on_clocks=lambda pid, found: self._deadlines.set_running_clocks(pid, found),  # noqa: PLW0108
            before_scan=self._check_processes,
            on_death=self._on_death,
        )
        self._pending = held_deadlines.PendingCollectives(
            self.table.name_of,
            self.table.ask_timeouts,
            lambda line: self.tell(line, "important"),
        )
        self._deadlines = held_deadlines.HeldDeadlines(
            deadlines.of_environment(os.environ),
            waits=self._pending.deadlines,
            ask=self.table.follow_timeouts,
            name_of=self.table.name_of,
            pids=self.table.announced,
            report=lambda line: self.tell(line, "important"),
            changed=lambda found: self._write(deadlines=found),
        )
        self.store.create(
            records.first_record(
                session_id=self.store.id,
                name=options.name,
                host=self._listener.host,
                port=self._listener.port,
                debugpy=os.path.basename(debugpy_dir).partition("-")[2],
                argv=options.command,
                run=options.run,
            )
        )

    def run(self, program: Program, *, is_running: bool) -> int:
        """Wait for the editor as requested, run the program, and always clean up.

        Args:
            is_running: see `run` of this module.

        Raises:
            OSError, RuntimeError: no session can be opened, and the program was not started.
        """
        code: Optional[int] = contract.EXIT_AGENT
        detail = ""
        try:
            self._control = control.Control(self.store.processes_dir, self.restarts.ask, self.ask_ranks)
            self._image_files.show()
            self._listener.start()  # before the adapter starts: a client that attaches meanwhile waits for it
            self._backend.start()
            self.store.update(adapter_up=True)
            self._close_after(self.options.limit)
            self._connect_back()
            self.table.start()
            self._original_service.start()
            self._warm_up = backend.WarmUp(self._debugpy_dir)
            ended = self._wait_for_editor()
            code, detail = program(self) if ended is None else ended
            self.restarts.over()
            self._wait_for_late_editor(code, detail)
        except Exception as error:
            detail = str(error)
            if self._running is not None:
                self.restarts.over()
                console.log("the agent has failed: %r; waiting for the program's end" % error)
                code, detail = self._running.wait(self.inbox)
            elif self.options.wait > 0 and self.options.then == "exit":
                console.log("cannot start: %s" % detail)
            else:
                if is_running or (self.options.supervision is None and isinstance(error, _NO_SESSION)):
                    code, detail = None, "%s: %s" % (detail, child.RUNS_ON)
                raise
        finally:
            self.restarts.over()
            try:
                self._clean_up(code, detail)
            except Exception as error:  # the exit code matters more than an incomplete cleanup
                console.log("the agent has failed while cleaning up: %r" % error)
        return contract.EXIT_AGENT if code is None else code

    @property
    def attached(self) -> bool:
        """Tell whether an editor is attached and processes can join."""
        return self._backend.attached and self.store.lets_join

    @property
    def endpoint(self) -> str:
        """Return the address for an editor, `host:port`."""
        return "%s:%d" % (self._listener.host, self._listener.port)

    def ask_ranks(self, query: broadcast_query.Query, limit: float) -> List[broadcast_query.Row]:
        """Query the ranks; without an attached editor, stop them for a moment.

        Args:
            limit: seconds for the answers; without an editor, as many again each to attach and to stop the processes.
        """
        if self.attached or self._phase != "running" or query.verb not in broadcast_query.READS:
            return self._service.broadcast(query, limit)
        with self._asking:
            self._asks = True
            try:
                stop = broadcast_query.Query(broadcast_query.PAUSE, ranks=query.ranks)
                with own_client.OwnClient(self._service.serve, self._token, str(query.ranks)) as client:
                    chosen = broadcast_query.chosen(self.store.snapshot()["processes"], query.ranks)
                    client.wait({each["pid"] for each in chosen}, limit)
                    held = self._service.broadcast(stop, limit)
                    rows = self._service.broadcast(query, limit)
            finally:
                self._asks = False
        reasons = {row["pid"]: row["text"] for row in held}
        for row in rows:
            if row["state"] == broadcast_query.RUNNING:
                row["text"] = reasons.get(row["pid"]) or row["text"]
            elif row["state"] == broadcast_query.FREE:
                row["text"] = "it cannot be stopped"
        return rows

    def start_program(self, *, own_group: bool = False) -> child.Child:
        """Start the command, and report it in the record and the editor's console.

        Args:
            own_group: start it in a process group of its own, which a Ctrl-C in the terminal does not reach.

        Raises:
            StartError: it cannot be started.
        """
        command = self.options.command
        self._hook_check.begin(command)
        self._first_death = self._untold_death = ""
        try:
            environment = self.environment()
        except OSError as error:
            self.tell(
                "cannot prepare the hook: %s: the program runs without the debugger" % error, "important"
            )
            environment = tokens.without(os.environ)
        running = child.Child(command, environment, self.inbox.former_mask, own_group=own_group)
        self._record(running, self.store.snapshot()["runs"] + 1)
        self._backend.say("dkdbg: started pid %d: %s" % (running.pid, child.shortened(command)))
        return running

    def adopt_program(self, running: child.Child) -> None:
        """Record a program that was started elsewhere and runs already."""
        self._hook_check.begin(self.options.command)
        self._record(running, 1)

    def _record(self, running: child.Child, runs: int) -> None:
        self._running, self._program = running, running.pid
        self._reported_edits.clear()
        self._service.program_started(running.pid)
        self._since = time.monotonic()
        self._report_missing_hook_after(hook_check.TIMEOUT_S)
        self.restarts.started()
        self.show("running", child=running.pid, runs=runs, detail="")

    def end_program(self, running: child.Child, pause: Callable[[float], bool]) -> None:
        """End every process of a run, and report how many could not be ended; for `pause` see `Ending.run`."""
        with self.table.deaths.ignored():
            stuck = ending.Ending(self.store.directory, running, self.table.announced).run(pause)
        if stuck:
            self.tell("%d processes of the program cannot be ended" % stuck)

    def show(self, phase: contract.State, **fields: object) -> None:
        """Write the session's state and further fields into the record."""
        self._phase = phase
        self._write(**fields)

    def say(self, text: str, category: str = "console") -> None:
        """Print a line into the debug consoles of all sessions of the editor, which may show any of them."""
        self._backend.say("dkdbg: " + text, category)
        self._service.say(text)

    def say_end(self, running: child.Child, end: str) -> None:
        """Tell the editor how the program has ended (`end` is that of `Child.end`), after a failure with its stderr."""
        self._attaches_before_end = self.attaches
        if running.signal:
            self.table.deaths.ended(running.pid, running.signal)
        code = running.exit_code or 0
        name, stderr_tail = "", ""
        if code and self.attached:
            name, stderr_tail = self._service.stderr_tail(running.pid, procfs.alive)
        left = self._left(running) if self.attached else ""
        self._service.program_ended(ending.headline(code, end) + left)
        if self.attached and not left and (message := self._hook_check.message()):
            self.say(message, "important")
        message = ending.end_text(code, end, stderr_tail, name, left)
        if code and self._first_death:
            message = "%s; other failures came after it\n%s" % (self._first_death, message)
        if code and self._untold_death:
            console.log("%s; other failures came after it" % self._untold_death)
        self._backend.say("dkdbg: " + message, "stderr" if code else "console")

    def _left(self, running: child.Child) -> str:
        """Return the text about Python processes that outlive the program, such as daemons; see `ending.left_text`."""
        announced = set(self.table.announced())
        found = ending.Ending(self.store.directory, running, lambda: announced).outliving(
            lambda pid: pid in announced or self._hook_check.runs_program(pid)
        )
        names = ["%s (pid %d)" % (naming.command(procfs.command_line(pid)) or "python", pid) for pid in found]
        own_container = os.getpid() == 1 or os.environ.get(settings.ENV_OWN_CONTAINER) == "1"
        return ending.left_text(names, ends_too=own_container)

    def tell(self, text: str, category: str = "console") -> None:
        """Report a line to the user on stderr and in the editor's debug console."""
        console.log(text)
        self.say(text, category)

    def _check_processes(self) -> None:
        """Give processes that have changed their user access to the session; report Pythons without the hook."""
        if not self._program or self._phase != "running":
            return
        if self._lets_users_in:
            for pid in procfs.below([self._program], procfs.parents()):
                with contextlib.suppress(FileNotFoundError):
                    info = os.stat("/proc/%d" % pid)
                    if info.st_uid != 0 and info.st_uid not in self.store.users:
                        self._let_in(info.st_uid, info.st_gid)
        for line in self._hook_check.check(self._program, self.table.announced(), attached=self.attached):
            self.tell(line, "important")

    def _let_in(self, uid: int, gid: int) -> None:
        try:
            self.store.let_in(uid, gid)
        except OSError as error:  # for example without CAP_CHOWN
            self._lets_users_in = False
            self.store.close_for_users()  # so that no process waits for its user's folder
            self.tell("processes of other users cannot be debugged: %s" % error)

    def _close_after(self, seconds: float) -> None:
        """Close the debug port after this time, if not 0. Editors are detached, and the program keeps running."""

        def close() -> None:
            self.tell(
                "the debug port closes now (%s); the program keeps running" % settings.ENV_FOR, "important"
            )
            self._is_closed.set()
            self._listener.stop()
            if self._reverse is not None:
                self._reverse.close()
            self._write(detail="the debug port was closed (%s)" % settings.ENV_FOR, expires=None)
            self.inbox.wake()

        if seconds:
            duration.later(seconds, close)

    def _report_missing_hook_after(self, seconds: float) -> None:
        def tell() -> None:
            if self._phase == "running" and self.attached and (note := self._hook_check.message()):
                self.tell(note, "important")

        with contextlib.suppress(RuntimeError):  # no thread can be started
            duration.later(seconds, tell)

    def _wait_for_editor(self) -> Optional[Tuple[int, str]]:
        """Wait for an editor as requested; return None if the program may start, else the agent's exit code and why."""
        options, where = self.options, self.endpoint
        if options.port not in {0, self._listener.port}:
            taken = "port %d is taken: listening on %d; a launch entry with %d reaches another program"
            console.log(taken % (options.port, self._listener.port, options.port))
        if options.wait <= 0:
            console.log("a debugger can attach on %s at any time" % where)
            return None
        forever = math.isinf(options.wait)
        end = time.monotonic() + options.wait
        limit = "without limit" if forever else "up to %g s" % options.wait
        self.show(
            "waiting",
            expires=None if forever else time.time() + options.wait,
            detail="waiting for a debugger, %s" % limit,
        )
        console.log("waiting for a debugger on %s, %s" % (where, limit))
        if missing := child.missing(options.command):
            console.log("%s: the program will fail when a debugger attaches" % missing)
        while not self._has_attached.is_set():
            arrival = self.inbox.next(min(1.0, max(0.0, end - time.monotonic())))
            if arrival is not None and arrival.number in child.ENDING:
                return 128 + arrival.number, "signal %d while waiting for a debugger" % arrival.number
            if (time.monotonic() >= end or self._is_closed.is_set()) and not self._has_attached.is_set():
                if options.then == "run":
                    console.log("no debugger within %g s: continuing without one" % options.wait)
                    self.store.update(expires=None)
                    return None
                console.log("no debugger within %g s: the program was not started" % options.wait)
                return contract.EXIT_NO_DEBUGGER, "no debugger within %g s" % options.wait
        self.show("running", expires=None, detail="")
        return None

    def _wait_for_late_editor(self, code: int, detail: str) -> None:
        """After a short program, keep the port open for a while, to report the program's end to a late editor.

        After a failure the health check fails, so that `docker compose up --wait` fails too and no editor attaches. But
        compose may have seen a healthy session a moment before; then an editor does attach.
        """
        end = self._since + self.options.linger
        before = self.attaches if self._attaches_before_end is None else self._attaches_before_end
        if self.options.wait > 0 or before > 0 or self.leaving or time.monotonic() >= end:
            return
        self._failed = code != 0
        self.show("idle", child=None, exit_code=code or None, last_exit_code=code, detail=detail)
        while self.attaches == before and time.monotonic() < end:
            arrival = self.inbox.next(min(1.0, max(0.0, end - time.monotonic())))
            if arrival is not None and arrival.number in child.ENDING:
                return
        if self.attaches > before:
            self.say("the program ended before the editor attached; with DKDBG_WAIT=60 it waits for one")
            if code:
                self._backend.say("dkdbg: " + ending.end_text(code, detail, ""), "stderr")

    def _connect_back(self) -> None:
        """Announce this session to a waiting `dkdbg attach --listen`, if requested."""
        to = reverse.asked(os.environ)
        if to is not None:
            about = {"id": self.store.id, "name": self.options.name, "port": self._listener.port}
            self._reverse = reverse.ReverseConnection(to, self._token, about)

    def _clean_up(self, code: Optional[int], detail: str) -> None:
        if self._control is not None:
            self._control.stop()
        self.table.stop()
        self._original_service.stop()
        self._sites.close()
        self._image_files.hide()
        if self._warm_up is not None:
            self._warm_up.stop()
        self.store.close_for_joining()
        self.table.follow_timeouts()  # restores the timeouts if the program runs on
        had_client = self._listener.connections > 0
        self._phase = "exited"
        self._write(exit_code=code, detail=detail, client=False, expires=None, processes=[])
        try:
            profiles.report(self.store.directory, os.environ, self.tell, self._pause)
        except Exception as error:  # the cleanup has to continue
            console.log("cannot report the profiles: %r" % error)
        self._backend.end(code)
        if had_client:
            if self._backend.up:
                self._service.wait_delivered(DELIVERY_TIMEOUT_S, procfs.alive)
            self._listener.drain(CLOSE_TIMEOUT_S)
        self._backend.stop()
        self._listener.stop()
        if self._reverse is not None:
            self._reverse.close()
        self.store.finish()

    def _pause(self, seconds: float) -> bool:
        """Wait at most this many seconds; return whether a signal has asked the agent to end since the program did."""
        arrival = self.inbox.next(seconds)
        self._hurries = self._hurries or (arrival is not None and arrival.number in child.ENDING)
        return self._hurries

    def _choose(self, wanted: Optional[ranks.RankSet]) -> None:
        if self._choice.choose(wanted) and self.attached:
            self.table.scan_now()

    def _say_raised(self, own: float) -> None:
        if not self.attached or self._raised_for == self.attaches:
            return
        others, pids = self.other_ranks()
        self._raised_for = self.attaches
        whose = " of the attached processes" if others else ""
        self.say(
            "while you are attached, process groups%s wait for %d h instead of failing"
            % (whose, timeouts.RAISED_S // 3600)
        )
        if others:
            what = "%s, not under dkdbg: timing out in a collective" % held_deadlines.listed_ranks(
                ["rank %d" % rank for rank in others]
            )
            lift = "attach with %s too" % " ".join("--pid %d" % pid for pid in pids) if pids else ""
            self._deadlines.add({"what": what, "ends": None, "after": own, "lift": lift})

    def _say_choice(self) -> None:
        """Report which ranks are debugged, and shortly after which of them are missing."""
        chosen = self._choice.current
        if chosen.everyone:
            return
        self.say("debugging %s" % choice.described(chosen))
        attaches = self.attaches

        def tell() -> None:
            if self.attached and self.attaches == attaches and self._phase == "running":
                message = choice.missing(self._choice.current, self.table.ranks())
                if message:
                    self.tell(message, "important")

        with contextlib.suppress(RuntimeError):  # no thread can be started
            duration.later(
                max(0.0, self._since + choice.TIMEOUT_S - time.monotonic()) + choice.TIMEOUT_S, tell
            )

    def _check_code(self) -> Set[int]:
        """Check on an attach whether the program's sources have changed since its start; see `Agent.check_code`.

        Returns:
            The pids of the program's processes if the program will be restarted; else empty.
        """
        if self._asks:  # OwnClient attaches for a query, not an editor
            return set()
        self._edited = self._edited_files()
        held = any(process["state"] for process in self.store.snapshot()["processes"])
        age = time.monotonic() - self._since
        self._should_restart = restarts.should_restart(self._edited, self.options.restart, age, is_held=held)
        return self.table.leave_out() if self._should_restart else set()

    def _edited_files(self) -> List[str]:
        """Return the user's own files that a process has loaded and that have changed since."""
        return restarts.own_files(self.table.changed_files(), self.store.snapshot(), self._runtime)

    def _check_edits(self) -> None:
        """Report files that the user edits while attached, at the next stop, step or breakpoint."""
        if time.monotonic() >= self._next_edit_check:
            self._next_edit_check = time.monotonic() + EDIT_INTERVAL_S
            sockets.begin(self._report_edits, name="dkdbg edits")

    def _report_edits(self) -> None:
        found = [each for each in self._edited_files() if each not in self._reported_edits]
        if found and self.attached:
            self._reported_edits.update(found)
            self.tell(restarts.changed_text(found, self.options.restart), "important")

    def _on_breakpoints(self, path: str, lines: List[int]) -> None:
        self._unhit.set(path, lines)
        self._check_edits()

    def _on_death(self, pid: int, line: str, stack: List[str], says_more: bool, may_be_meant: bool) -> None:
        if pid != self._program:
            self._first_death = self._first_death or line
        elif not says_more:
            return  # the message about the program's end names the signal
        if may_be_meant and not self.attached:  # reported at the end, and only if the program fails
            self._untold_death = self._untold_death or line
            return
        self.tell("\n  ".join([line, *stack]), "important")

    def _on_hold(self, go_on: bool) -> None:
        if not go_on:
            self.table.tell_of_holds()
            self._service.tell_held()
        self._deadlines.held()

    def _on_stop(self, pid: int, where: str) -> None:
        self._clocks.update(pid, is_held=bool(where))
        if where:
            self._deadlines.stopped()
            self._unhit.stopped(where)
            self._check_edits()
        self.table.set_stopped(pid, where)

    # -- called by the root session stub ------------------------------------------------------------------------

    def _on_attach(self, is_new: bool) -> None:
        if is_new:
            self.attaches += 1
            self._pending.forget()
            left = procfs.tasks_left()
            if left is not None and left < TASKS_OF_AN_EDITOR:
                self.tell(_FEW_TASKS % (left, TASKS_OF_AN_EDITOR), "important")
        if self._since:
            self._report_missing_hook_after(max(0.0, self._since + hook_check.TIMEOUT_S - time.monotonic()))
        changed, self._edited = self._edited, []
        self._reported_edits.update(changed)
        self._service.barrier_timer.begin(self.table.ranks_to_gather())  # before a rank can join, and stop
        try:
            self.store.open_for_joining(self._join_info())
        except OSError as error:
            self.tell("no process can be debugged: %s" % error, "important")
        self._has_attached.set()  # last: the program starts now, and has to join at its start
        self._write(client=True)
        if is_new:
            self._deadlines.attached()
        self.table.follow_timeouts()
        self._say_choice()
        if changed and self._should_restart:  # only now: the new processes join, and can stop from line 1 on
            self.restarts.request(restarts.described(changed))
        elif changed:
            self.tell(restarts.changed_text(changed, self.options.restart), "important")
        self.table.scan_now()
        self.inbox.wake()

    def _on_detach(self, terminate: bool) -> None:
        self.store.close_for_joining()
        self._clocks.release()
        self._unhit.forget()
        self.table.ask_again()
        self.table.follow_timeouts()
        self._raised_for = 0
        self._write(client=False)
        if terminate:
            self.ended_by_editor.set()
        self.inbox.wake()

    def _on_lost(self) -> None:
        self.store.update(adapter_up=False)
        self.table.adapter_died()

    def _on_restart(self) -> None:
        self.store.update(adapter_up=True)
        self.table.ask_again()

    # -- values -------------------------------------------------------------------------------------------------

    def _write(self, **fields: object) -> None:
        """Write fields and the state into the record, under a lock so that no thread writes an outdated state."""
        with self._writing:
            self.store.update(state=self._state(), **fields)

    def _state(self) -> contract.State:
        if self._failed:
            return "exited"
        if self._phase != "running":
            return self._phase
        return "attached" if self.attached else "post-mortem" if self._holds.held else "running"

    def environment(self) -> Dict[str, str]:
        """Return the program's environment: the agent's, with the session's folder, and the hook's first on PYTHONPATH.

        Raises:
            OSError: the hook cannot be written.
        """
        environment = tokens.without(os.environ)
        hook = self._hook_check.hook = hook_folder.install(self._runtime)
        former = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = hook + os.pathsep + former if former else hook
        environment[settings.ENV_SESSION_DIR] = self.store.directory
        self._sites.lead_to(hook, self.store.directory)
        # Keep a joined process from printing four lines about frozen modules (debugpy #1251).
        environment.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
        # uWSGI's master forks the workers in C. Only with this option (2.0.19) it runs the callbacks of
        # os.register_at_fork, through which a worker joins the session.
        environment.setdefault("UWSGI_PY_CALL_UWSGI_FORK_HOOKS", "1")
        return environment

    def _join_info(self) -> contract.JoinInfo:
        try:
            deadline = float(os.environ.get(settings.ENV_JOIN_DEADLINE, ""))
        except ValueError:
            deadline = settings.DEFAULT_JOIN_DEADLINE
        return {
            "adapter": self._adapter_path,
            "token": self._backend.token,
            "ppid": os.getpid(),
            "search": [*search_dirs(), self._runtime],
            "runtime": self._runtime,
            "deadline": deadline,
        }

    def _ready(self) -> bool:
        return self._phase in contract.ATTACHABLE and self._backend.up

    def _status(self) -> Dict[str, Any]:
        """Return the record for /status: with the program's name, without command lines, which may hold secrets."""
        record: Dict[str, Any] = dict(self.store.snapshot())
        program = naming.command(record.pop("argv"))
        processes = [{k: v for k, v in each.items() if k != "argv"} for each in record["processes"]]
        return dict(record, program=program, processes=processes)


class _Behind(Agent):
    """The broker's view of a session."""

    def __init__(self, session: Session, token: str) -> None:
        super().__init__(
            token,
            project=os.environ.get(settings.ENV_PROJECT, ""),
            what_runs=naming.command(session.options.command),
            continues=os.environ.get(settings.ENV_CONTINUE, ""),
            may_restart=session.options.restart != "never",
            checks_code=True,
        )
        self._session = session

    def dial(self) -> Optional[socket.socket]:
        return self._session._backend.dial()

    def is_adapter_gone(self) -> bool:
        return self._session._backend.gone

    def admit(self, client: socket.socket) -> None:
        self._session._listener.let_in(client)

    def log(self, text: str) -> None:
        console.log(text)

    def name_of(self, pid: int) -> str:
        return self._session.table.name_of(pid)

    def processes(self) -> Sequence[contract.Process]:
        return self._session.store.snapshot()["processes"]

    def on_stop(self, pid: int, where: str) -> None:
        self._session._on_stop(pid, where)

    def check_code(self) -> Set[int]:
        return self._session._check_code()

    def is_chosen(self, pid: int) -> bool:
        return self._session.table.is_chosen(pid)

    def choose(self, wanted: Optional[ranks.RankSet]) -> None:
        self._session._choose(wanted)

    def on_other_agent_held(self) -> None:
        self._session._clocks.extend()
        self._session.table.tell_of_holds()

    def take_deadlines(self, said: object) -> None:
        self._session._deadlines.take(said)

    def release(self, pid: int) -> None:
        self._session.table.release(pid)

    def restart(self) -> None:
        self._session.restarts.request("asked by the editor")
