"""`supervise`: restarts the program when necessary, and keeps the port, the adapter and the editor's session meanwhile.

The program restarts on request (`restart`, SIGHUP, one Ctrl-C in a terminal), on a changed file and, if configured,
after a crash. Otherwise a program that has ended stays down until the next change, request or editor.
"""

from __future__ import annotations

import os
import signal
import threading
import time

from dkdbg.agent import console
from dkdbg.agent.supervisor import child, reload, session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Tuple

    from dkdbg.agent.supervisor.options import Options, Supervision

#: Seconds within which a second Ctrl-C quits.
QUIT_WITHIN_S = 2.0
#: Seconds before a crashed program is restarted; doubled with each further crash in a row, up to MAX_BACKOFF_S.
BACKOFF_S = 1.0
MAX_BACKOFF_S = 30.0
#: Seconds after which a run counts as healthy: a later crash starts a new row.
HEALTHY_S = 60.0


def run(options: Options) -> int:
    """Run the command with restarts as requested; return the exit code for the agent's own process."""
    return session.run(options, lambda shared: Supervisor(shared).run())


class Supervisor:
    """The loop around the program; only `_on_files` runs in another thread, the watcher's."""

    def __init__(self, shared: session.Session) -> None:
        self._session = shared
        supervision = shared.options.supervision
        if supervision is None:
            raise RuntimeError("not supervised")
        self._how: Supervision = supervision
        self._restarts = shared.restarts
        self._lock = threading.Lock()
        self._broken: Dict[str, str] = {}
        self._leaving = False
        self._attaches = 0
        self._quitting = False
        self._halted = False
        self._last_ctrl_c = -QUIT_WITHIN_S
        self._code = 0
        self._end = ""
        self._crashes = 0
        self._python = ""

    def run(self) -> Tuple[int, str]:
        """Run the loop; return the exit code of the last run, and a description of its end."""
        watcher = self._watcher()
        try:
            self._take_reason()  # changes before the first start need no restart
            while True:
                self._one_run()
                if self._leaving or not self._wait():
                    return (130, "ended by Ctrl-C") if self._quitting else (self._code, self._end)
        finally:
            if watcher is not None:
                watcher.stop()

    # -- one run ------------------------------------------------------------------------------------------------

    def _one_run(self) -> None:
        """Start the program; wait until it has exited, or end it if it is to be restarted or the agent is to quit."""
        shared = self._session
        self._halted = False
        begin = time.monotonic()
        try:
            running = shared.start_program(own_group=not self._how.interactive)
        except child.StartError as error:
            shared.tell(str(error))
            self._ended(error.exit_code, str(error))
            self._crashes += 1
            self._leaving = (
                self._leaving or self._restarts.runs == 0
            )  # if not even the first start succeeds, the command line is wrong
            return
        while (
            running.poll() is None and not self._restarts.reason and not self._quitting and not self._halted
        ):
            self._take_signal(shared.inbox.next(1.0), running)
        by_itself = running.poll() is not None
        wanted = self._restarts.reason
        shared.show("restarting" if wanted and not self._leaving else "running", child=None)
        if wanted and not self._leaving:
            shared.tell("restarting: %s" % wanted)
        self._end_all(running)
        code, end = running.end()
        self._ended(code, end)
        if by_itself:
            shared.say_end(running, end)
            crashed = code != 0 and time.monotonic() - begin < HEALTHY_S
            self._crashes = self._crashes + 1 if crashed else int(code != 0)

    def _ended(self, code: int, end: str) -> None:
        self._code, self._end = code, end
        self._attaches = self._session.attaches  # before others see the end: a later attach starts it again
        self._session.show(
            "idle" if not self._restarts.reason else "restarting",
            child=None,
            last_exit_code=code,
            detail=end,
        )
        self._restarts.ended(end)

    def _end_all(self, running: child.Child) -> None:
        def pause(seconds: float) -> bool:
            self._take_signal(self._session.inbox.next(seconds), None)
            return self._quitting

        self._session.end_program(running, pause)

    # -- between two runs ---------------------------------------------------------------------------------------

    def _wait(self) -> bool:
        """Wait until the program is to be started again; return False if the agent is to end instead."""
        if self._restarts.reason:
            self._take_reason()
            return True
        crashed = self._code != 0 and not self._halted
        if self._how.on_crash == "exit" and not self._halted:
            return False
        again = None
        if crashed and self._how.on_crash == "restart":
            again = self._backoff()
        if again is None:
            what = "restart" if self._how.folders is None else "a changed file, restart"
            self._session.tell(
                "the program %s; waiting for %s or an editor that attaches" % (self._end, what)
            )
        while not self._leaving:
            left = 1.0 if again is None else min(1.0, again - time.monotonic())
            if left <= 0:
                return True
            self._take_signal(self._session.inbox.next(left), None)
            if self._session.attaches > self._attaches:
                self._restarts.request("an editor has attached")
            if self._restarts.reason:
                self._crashes = 0
                self._session.tell("starting again: %s" % self._take_reason())
                return True
        return False

    def _backoff(self) -> Optional[float]:
        """Return the monotonic time to restart a crashed program; None if it has crashed too often."""
        if self._crashes > self._how.max_restarts:
            self._session.tell("crashed %d times in a row: not started again" % self._crashes)
            return None
        seconds = min(BACKOFF_S * 2.0 ** (self._crashes - 1), MAX_BACKOFF_S)
        self._session.tell("the program %s; starting again in %g s" % (self._end, seconds))
        return time.monotonic() + seconds

    def _take_reason(self) -> str:
        with self._lock:
            self._broken.clear()
        return self._restarts.take()

    # -- external events ----------------------------------------------------------------------------------------

    def _take_signal(self, arrival: Optional[child.Arrival], running: Optional[child.Child]) -> None:
        """Act on a signal, or on the editor's request to end the program.

        Args:
            running: the program, to forward signals to; None while it is being ended or has ended.
        """
        if self._session.ended_by_editor.is_set():
            self._session.ended_by_editor.clear()
            self._halted = True
        if arrival is None:
            return
        number = arrival.number
        if number == signal.SIGINT and self._how.interactive:
            self._ctrl_c()
        elif number == signal.SIGHUP and not (arrival.is_shared or self._terminal_is_gone()):
            self._restarts.request("SIGHUP")
        else:
            self._leaving = self._leaving or number in child.ENDING
            if running is not None:
                running.pass_on(arrival)

    def _ctrl_c(self) -> None:
        now = time.monotonic()
        if now - self._last_ctrl_c < QUIT_WITHIN_S:
            self._leaving = self._quitting = True
            return
        self._last_ctrl_c = now
        console.log("Ctrl-C: restarting; once more within %g s quits" % QUIT_WITHIN_S)
        self._restarts.request("Ctrl-C")

    def _terminal_is_gone(self) -> bool:
        return self._how.interactive and not any(os.isatty(descriptor) for descriptor in (0, 1, 2))

    # -- changed files ------------------------------------------------------------------------------------------

    def _watcher(self) -> Optional[reload.Watcher]:
        folders = self._how.folders
        if folders is None:
            return None
        if not folders:
            mapped = [
                entry["remoteRoot"]
                for entry in self._session.store.snapshot()["mappings"]
                if entry["kind"] == "mount" and entry["exists"]
            ]
            folders = mapped or [os.getcwd()]
        folders = [os.path.abspath(folder) for folder in folders]
        if "/" in folders:
            console.log("files are not watched: the working directory is /; name folders with --reload DIR")
            return None
        watcher = reload.Watcher(
            folders,
            self._how.suffixes,
            without=[
                os.path.dirname(self._session.store.directory)
            ],  # the agent's own folder, with hook and debugpy
            on_change=self._on_files,
            log=console.log,
        )
        watcher.start()
        console.log("watching %s for changes" % ", ".join(folders))
        return watcher

    def _on_files(self, changed: List[str]) -> None:
        """Request a restart for changed files, unless one cannot be compiled. Runs in the watcher's thread."""
        python = self._program_python()
        with self._lock:
            broken = dict(self._broken)
        for path in {*changed, *broken}:
            error = reload.syntax_error(path, python) if path.endswith(".py") else ""
            if error:
                broken[path] = error
            else:
                broken.pop(path, None)
        with self._lock:
            self._broken = broken
        keeps = "the running program is kept" if self._restarts.is_up else "not started"
        if broken:
            for error in broken.values():
                # In the editor's console too, because the program does not print this error itself.
                self._session.tell("%s; %s" % (error, keeps), "important")
            return
        more = " and %d more" % (len(changed) - 1) if len(changed) > 1 else ""
        self._restarts.request("%s changed%s" % (os.path.relpath(changed[0]), more))

    def _program_python(self) -> str:
        """Return the interpreter of the program's newest known Python process."""
        for pid in reversed(self._session.table.announced()):
            try:
                self._python = os.readlink("/proc/%d/exe" % pid)
                break
            except OSError:
                continue
        return self._python
