"""`accompany`: runs the agent beside programs that it did not start; see autostart/job.py.

It neither starts nor restarts a program. In a container it stays as long as process 1 does, because a job may be a
script that runs many programs in one session. Elsewhere it ends TIMEOUT_S after the last program. If the agent itself
is process 1, it acts as an init: it forwards signals to its child, the program, and exits with the program's code.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time

from dkdbg.agent import console, contract, settings
from dkdbg.agent.autostart import start_file, starting
from dkdbg.agent.state import procfs
from dkdbg.agent.supervisor import child, options, program_env, session
from dkdbg.launchers.words import whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Sequence, Tuple

#: Seconds without a program until the agent ends, outside of containers.
TIMEOUT_S = 5.0


class Adopted(child.Child):
    """A program that the agent did not start.

    Args:
        is_child: whether it is the agent's child process; if not, its exit code is unknown, and counts as 0.
    """

    def __init__(self, pid: int, *, is_child: bool) -> None:
        self.pid = pid
        self.own_group = False
        self.exit_code: Optional[int] = None
        self.signal: Optional[int] = None
        self.is_child = is_child
        self._start = procfs.start_ticks(pid)

    def poll(self) -> Optional[int]:
        """See `Child.poll`."""
        if self.is_child:
            return super().poll()
        if self.exit_code is None and (
            not procfs.alive(self.pid) or procfs.start_ticks(self.pid) != self._start
        ):
            self.exit_code = 0
        return self.exit_code

    def wait(self, inbox: child.SignalInbox) -> Tuple[Optional[int], str]:
        """See `Child.wait`. If the program is not the agent's child, return at once: it keeps running."""
        return super().wait(inbox) if self.is_child else (None, child.RUNS_ON)


def main(argv: Sequence[str], usage: str, failure: str = "") -> int:
    """Run one session around the running program; return the exit code for the agent's own process.

    Args:
        argv: `--runtime DIR --lock FD --ready FD (--pid PID | --child PID) -- COMMAND`, from
            autostart/starting.py.
        failure: why no session can be opened, if already known; the program then runs without one.
    """
    cut = list(argv).index("--")
    given = dict(zip(argv[:cut:2], argv[1:cut:2]))
    lock, ready = int(given["--lock"]), int(given["--ready"])
    is_child = "--child" in given
    program = Adopted(int(given["--child" if is_child else "--pid"]), is_child=is_child)
    _close_inherited({lock, ready})
    if not is_child and not _detach():
        return 0
    path = start_file.path_in(given["--runtime"], os.environ)
    before = dict(os.environ)
    sidecars: List[Sidecar] = []
    started = threading.Event()

    def run(shared: session.Session) -> Tuple[int, str]:
        started.set()
        sidecar = Sidecar(shared, program, path, ready, before)
        sidecar.write_start_file()
        sidecars.append(sidecar)
        return sidecar.run()

    try:
        if failure:
            raise ValueError(failure)
        asked = _asked(list(argv[cut + 1 :]), given["--runtime"], usage)
    except ValueError as error:
        console.log("%s; the program runs without a debugger" % error)
        code = contract.EXIT_AGENT
    else:
        _end_with(program, ready, started)
        code = session.run(asked, run, is_running=True)
        if not sidecars and code == contract.EXIT_AGENT:
            console.log("the program runs without a debugger")
    if not sidecars:
        # Tell the waiting program how to go on. Without a start file, the next program starts another agent.
        with contextlib.suppress(OSError):
            if code == contract.EXIT_NO_DEBUGGER:
                start_file.write_exit(path, code)
            elif code == contract.EXIT_AGENT:
                start_file.write_failure(path)
            elif is_child:  # a signal to process 1 has ended the wait: pass it on
                program.send(code - 128)
        with contextlib.suppress(OSError):
            os.close(ready)
    os.close(lock)  # here, because a process 1 goes on, but no longer as the agent
    return _act_as_init(program) if is_child else code


def _close_inherited(own: set[int]) -> None:
    """Close inherited descriptors: an open one would keep a pipe's reader waiting, or a lock held."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in own:
            with contextlib.suppress(OSError):
                os.close(int(name))
    for descriptor in own:
        os.set_inheritable(descriptor, False)


def _detach() -> bool:
    """Detach from the parent and the terminal by a fork; return False in the original process."""
    if os.fork():
        return False
    os.setsid()
    return True


def _asked(command: List[str], runtime: str, usage: str) -> options.Options:
    """Return the options, from the environment. Raises ValueError."""
    environment = os.environ
    program_env.take_flags([], environment)
    flags = ["--runtime", runtime]
    listen = environment.get(settings.ENV_LISTEN, "").strip()
    if listen:
        host, _, port = listen.rpartition(":")
        if whole_number(port, 65535) is None:
            raise ValueError("%s takes PORT or HOST:PORT, not %r" % (settings.ENV_LISTEN, listen))
        host = host[1:-1] if host[:1] == "[" and host[-1:] == "]" else host
        flags += ["--host", host or contract.LOOPBACK, "--port", port]
    elif not environment.get(settings.ENV_PORT):
        flags += ["--port", "0"]  # any free port: nothing connects to it directly, the agent connects out
    asked = options.parse([*flags, "--", *command], supervised=False, usage=usage)
    asked.restart = contract.RESTART_NEVER
    asked.linger = 0.0
    asked.wait = program_env.prepare(environment, asked.wait, asked.then)
    return asked


def _end_with(program: Adopted, ready: int, started: threading.Event) -> None:
    """End the agent if the program ends while it still waits for the agent's permission to begin."""

    def watch() -> None:
        poll = select.poll()
        poll.register(ready, 0)  # for POLLERR: the other end was closed
        while True:
            try:
                found = poll.poll(1000)
            except OSError:
                return
            if started.is_set():  # the descriptor's number may have been reused by now
                return
            if found and program.poll() is not None:
                os.kill(os.getpid(), signal.SIGTERM)
                return
            if found:  # the program has closed its end of the pipe, but does not count as ended yet
                time.sleep(0.1)

    if not program.is_child:
        threading.Thread(target=watch, daemon=True).start()


def _act_as_init(program: Adopted) -> int:
    """Forward signals and reap children, as a container's first process must, until the program ends."""
    program.wait(child.SignalInbox())
    return program.end()[0]


class Sidecar:
    """The loop beside the programs.

    Args:
        program: the first program. path: path of the start file, see autostart/start_file.py. ready: descriptor of a
            pipe; its end tells the waiting program that the start file has been written.
        before: the environment before the agent's changes.
    """

    def __init__(
        self, shared: session.Session, program: Adopted, path: str, ready: int, before: Dict[str, str]
    ) -> None:
        self._session = shared
        self._program = program
        self._path, self._ready, self._before = path, ready, before
        self._leaving = False

    def run(self) -> Tuple[int, str]:
        """Stay until the agent should end; return the program's exit code where known, and a description of the end."""
        shared, program = self._session, self._program
        shared.adopt_program(program)
        if program.is_child:
            return self._as_init()
        in_container = starting.in_container()
        last = time.monotonic()
        idle = False
        while not self._leaving and (in_container or time.monotonic() < last + TIMEOUT_S):
            self._take(shared.inbox.next(1.0))
            if program.poll() is None or any(map(procfs.alive, shared.table.announced())):
                last = time.monotonic()
            if idle != (last + TIMEOUT_S < time.monotonic()):
                idle = not idle
                shared.show("idle" if idle else "running", child=None if idle else program.pid)
        return 0, "all programs have ended"

    def _as_init(self) -> Tuple[int, str]:
        shared, program = self._session, self._program
        while program.poll() is None:
            self._take(shared.inbox.next(1.0))
        code, end = program.end()
        shared.say_end(program, end)
        return code, end

    def write_start_file(self) -> None:
        """Write the start file, which lets the programs begin. Raises OSError."""
        now = self._session.environment()
        hook = now.pop("PYTHONPATH").split(os.pathsep)[0]
        changed = {name: value for name, value in now.items() if self._before.get(name) != value}
        gone = [name for name in (settings.ENV_TOKEN, settings.ENV_TOKEN_FILE) if name in self._before]
        pid = os.getpid()
        start_file.write_go(self._path, (pid, procfs.start_ticks(pid) or 0), hook, changed, gone)
        os.close(self._ready)

    def _take(self, arrival: Optional[child.Arrival]) -> None:
        shared = self._session
        if arrival is not None:
            shared.leaving = shared.leaving or arrival.number in child.ENDING
            if self._program.is_child:
                self._program.pass_on(arrival)
            elif arrival.number in (signal.SIGTERM, signal.SIGQUIT):
                self._leaving = True
        if shared.ended_by_editor.is_set():
            shared.ended_by_editor.clear()
            if self._program.is_child:
                self._program.send(signal.SIGTERM)
            else:
                shared.end_program(self._program, self._pause)

    def _pause(self, seconds: float) -> bool:
        arrival = self._session.inbox.next(seconds)
        self._leaving = self._leaving or (arrival is not None and arrival.number in child.ENDING)
        return self._leaving
