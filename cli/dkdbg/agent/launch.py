"""`launch`: run a command so that an editor can attach to its Python processes at any time."""

from __future__ import annotations

import math
import os
import platform
import sys
import threading
import time

from dkdbg.agent import (
    backend,
    bundle,
    child,
    contract,
    front,
    hookdir,
    mapping,
    notes,
    peers,
    processes,
    procfs,
    records,
    tokens,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

#: Seconds that an editor gets to close its sessions after `terminated`; VS Code needs 20 ms.
GOODBYE = 1.5


class Options:
    """What `launch` was asked to do; see contract.py for the environment behind each."""

    def __init__(
        self,
        command: List[str],
        *,
        host: str,
        port: int,
        wait: float,
        then: str,
        name: str,
        runtime: Optional[str],
    ) -> None:
        self.command = command
        self.host = host
        self.port = port
        self.wait = wait
        self.then = then
        self.name = name
        self.runtime = runtime


def run(options: Options) -> int:
    """Run the command to its end and return the exit code for the agent's own process."""
    inbox = child.SignalInbox()  # before any thread: they inherit the blocked signals
    try:
        allow = peers.AllowList(os.environ.get(contract.ENV_ALLOW, ""))
        runtime = records.open_runtime_dir(options.runtime)
        records.prune(runtime)
        debugpy_dir = bundle.ensure_debugpy(search_dirs(), runtime)
        session = Session(options, inbox, runtime, debugpy_dir, allow)
    except (records.RuntimeDirError, bundle.NoDebugpy, ValueError) as error:
        log(str(error))
        return contract.EXIT_AGENT
    except OSError as error:
        log("cannot start: %s" % error)
        return contract.EXIT_AGENT
    return session.run()


def search_dirs() -> List[str]:
    """Return the folders that may hold debugpy zips: beside the package, as `dkdbg init` lays it out."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return [os.path.dirname(package), package]


def log(text: str) -> None:
    """Say one line to the user, on stderr: stdout is the program's."""
    try:
        sys.stderr.write("dkdbg: %s\n" % text)
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


class Session:
    """One launch, from the open port to the exit code.

    Raises:
        OSError: the port cannot be listened on, or the session's folder cannot be written.
    """

    def __init__(
        self,
        options: Options,
        inbox: child.SignalInbox,
        runtime: str,
        debugpy_dir: str,
        allow: peers.AllowList,
    ) -> None:
        self._options = options
        self._inbox = inbox
        self._runtime = runtime
        self._debugpy_dir = debugpy_dir
        self._warm_up: Optional[backend.WarmUp] = None
        self._ended_by_editor = threading.Event()
        self._holds = notes.Holds(log, lambda: "%s:%d" % (self._front.host, self._front.port))
        try:
            self._front = front.Front(
                options.host,
                options.port,
                backend_port=lambda: self._backend.client_port,
                status=self._status,
                allow=allow,
                log=log,
                token=tokens.read(os.environ),
                name_of=lambda pid: self._table.name_of(pid),  # noqa: PLW0108
                on_stop=lambda pid, where: self._table.set_stopped(pid, where),  # noqa: PLW0108
            )
        except OSError as error:
            reason = "cannot listen on %s:%d: %s; choose another port with %s"
            raise ValueError(
                reason % (options.host, options.port, error.strerror, contract.ENV_PORT)
            ) from error
        self._backend = backend.Backend(
            debugpy_dir,
            self._front.port,
            on_attach=self._on_attach,
            on_detach=self._on_detach,
            on_restart=self._on_restart,
            log=log,
        )
        self._store = records.SessionStore(runtime, options.name)
        self._table = processes.ProcessTable(
            self._store.processes_dir,
            attached=lambda: self._backend.attached,
            on_change=self._on_processes,
        )
        self._store.create(self._first_record(debugpy_dir))

    def run(self) -> int:
        """Wait for the editor as asked, run the command, and clean up whatever happens."""
        code, detail = contract.EXIT_AGENT, ""
        try:
            self._backend.start()
            self._store.update(adapter_port=self._backend.client_port)
            self._front.start()
            self._table.start()
            self._warm_up = backend.WarmUp(self._debugpy_dir)
            ended = self._wait_for_editor()
            if ended is None:
                code, detail = self._run_command()
            else:
                code, detail = ended
        except backend.BackendError as error:
            detail = str(error)
            log(detail)
        finally:
            self._clean_up(code, detail)
        return code

    def _wait_for_editor(self) -> Optional[tuple[int, str]]:
        """Return None when the command may start, else the exit code and why."""
        options = self._options
        where = "%s:%d" % (self._front.host, self._front.port)
        if options.wait <= 0:
            log("a debugger can attach on %s at any time" % where)
            return None
        forever = math.isinf(options.wait)
        end = time.monotonic() + options.wait
        self._store.update(state="waiting", expires=None if forever else time.time() + options.wait)
        limit = "without limit" if forever else "up to %g s" % options.wait
        log("waiting for a debugger on %s, %s" % (where, limit))
        while not self._backend.attached:
            arrival = self._inbox.next(min(1.0, max(0.0, end - time.monotonic())))
            if arrival is not None and arrival.number in child.ENDING:
                return 128 + arrival.number, "signal %d while waiting for a debugger" % arrival.number
            if time.monotonic() >= end and not self._backend.attached:
                if options.then == "run":
                    log("no debugger within %g s: going on without" % options.wait)
                    break
                log("no debugger within %g s: the program was not started" % options.wait)
                return contract.EXIT_NOBODY_CAME, "no debugger within %g s" % options.wait
        self._store.update(expires=None)
        return None

    def _run_command(self) -> tuple[int, str]:
        command = self._options.command
        try:
            running = child.Child(command, self._environment(), self._inbox.former_mask)
        except OSError as error:
            detail = "cannot prepare the hook in %s: %s" % (self._runtime, error)
            log(detail)
            return contract.EXIT_AGENT, detail
        except child.StartError as error:
            log(str(error))
            self._backend.say("dkdbg: %s" % error)
            return error.exit_code, str(error)
        self._store.update(child=running.pid, **self._live_state())
        self._backend.say("dkdbg: started pid %d: %s" % (running.pid, child.words_of(command)))
        while running.poll() is None:
            arrival = self._inbox.next(1.0)
            if arrival is not None:
                running.pass_on(arrival)
            if self._ended_by_editor.is_set():
                self._ended_by_editor.clear()
                running.send(15)
        code = running.exit_code if running.exit_code is not None else 255
        end = child.describe_end(code, running.signal)
        self._backend.say("dkdbg: the program %s" % end)
        return code, end

    def _clean_up(self, code: int, detail: str) -> None:
        self._table.stop()
        if self._warm_up is not None:
            self._warm_up.stop()
        self._store.close_for_joining()
        had_client = self._front.connections > 0
        self._store.update(
            state="exited", exit_code=code, detail=detail, client=False, expires=None, processes=[]
        )
        self._backend.end(code)
        if had_client:
            self._front.drain(GOODBYE)
        self._backend.stop()
        self._front.stop()
        self._store.finish()

    # -- called from the phantom's thread -----------------------------------------------------------------------

    def _on_attach(self) -> None:
        self._store.open_for_joining(self._join_info())
        self._store.update(client=True, **self._live_state())
        self._table.look_now()
        self._inbox.wake()

    def _on_detach(self, terminate: bool) -> None:
        self._store.close_for_joining()
        self._table.ask_again()
        self._store.update(client=False, **self._live_state())
        if terminate:
            self._ended_by_editor.set()
        self._inbox.wake()

    def _on_processes(self, found: List[contract.Process]) -> None:
        fields = self._holds.fields(found)
        self._store.update(processes=found, **fields, **self._live_state())

    def _on_restart(self) -> None:
        self._store.update(adapter_port=self._backend.client_port)
        self._table.ask_again()

    # -- values -------------------------------------------------------------------------------------------------

    def _live_state(self) -> Dict[str, Any]:
        record = self._store.snapshot()
        if record["state"] in ("waiting", "exited") and record["expires"] is not None:
            return {}
        held = "post-mortem" if self._holds.held else "running"
        return {"state": "attached" if self._backend.attached else held}

    def _environment(self) -> Dict[str, str]:
        """The program's environment: ours, the hook's folder first on PYTHONPATH, and the session's folder."""
        environment = tokens.without(os.environ)
        hook = hookdir.install(self._runtime)
        former = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = hook + os.pathsep + former if former else hook
        environment[contract.ENV_SESSION_DIR] = self._store.directory
        # Without it a joined process prints four lines about frozen modules (debugpy #1251).
        environment.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
        return environment

    def _join_info(self) -> contract.JoinInfo:
        try:
            deadline = float(os.environ.get(contract.ENV_JOIN_DEADLINE, ""))
        except ValueError:
            deadline = contract.DEFAULT_JOIN_DEADLINE
        return {
            "host": "127.0.0.1",
            "port": self._backend.server_port,
            "token": self._backend.token,
            "ppid": os.getpid(),
            "search": search_dirs(),
            "runtime": self._runtime,
            "deadline": deadline,
        }

    def _status(self) -> Dict[str, Any]:
        return dict(self._store.snapshot())

    def _first_record(self, debugpy_dir: str) -> contract.Record:
        now = time.time()
        return {
            "version": contract.RECORD_VERSION,
            "id": self._store.id,
            "name": self._options.name,
            "pid": os.getpid(),
            "pid_start": procfs.start_ticks(os.getpid()),
            "pid_namespace": procfs.pid_namespace(),
            "host": self._front.host,
            "port": self._front.port,
            "adapter_port": 0,
            "state": "starting",
            "client": False,
            "child": None,
            "python": "%s (%s)" % (platform.python_version(), sys.executable),
            "debugpy": os.path.basename(debugpy_dir).partition("-")[2],
            "argv": self._options.command,
            "cwd": os.getcwd(),
            "started": now,
            "updated": now,
            "expires": None,
            "exit_code": None,
            "detail": "",
            "mappings": mapping.here(),
            "processes": [],
        }
