"""`launch`: run a command to its end, so that an editor can attach to its Python processes at any time.

The command is restarted only on request while it runs: by `restart`, an editor, or an attach after an edit.
"""

from __future__ import annotations

import signal

from dkdbg.agent.supervisor import child, session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Tuple

    from dkdbg.agent.supervisor.options import Options


def run(options: Options) -> int:
    """Run the command to its end and return the exit code for the agent's own process."""
    return session.run(options, lambda shared: Launch(shared).run())


class Launch:
    """The loop around the program."""

    def __init__(self, shared: session.Session) -> None:
        self._session = shared
        self._leaving = False

    def run(self) -> Tuple[int, str]:
        """Run the program and its restarts; return the last run's exit code and its description."""
        restarts = self._session.restarts
        restarts.take()  # a request before the first start is already fulfilled
        while True:
            code, end = self._one_run()
            restarts.ended(end)
            if self._leaving or not restarts.take():
                return code, end

    def _one_run(self) -> Tuple[int, str]:
        shared = self._session
        try:
            running = shared.start_program()
        except child.StartError as error:
            shared.tell(str(error))
            return error.exit_code, str(error)
        while running.poll() is None and (self._leaving or not shared.restarts.reason):
            self._take_signal(shared.inbox.next(1.0), running)
        if running.poll() is None:
            return self._ended_by_us(running)
        code, end = running.end()
        if running.signal:
            self._end_ranks(running)
        shared.restarts.take()  # too late: the program has already exited
        shared.say_end(running, end)
        return code, end

    def _end_ranks(self, running: child.Child) -> None:
        """End the ranks of a launcher that was killed: ranks that a debugger holds would wait forever."""

        def pause(seconds: float) -> bool:
            arrival = self._session.inbox.next(seconds)
            return arrival is not None and arrival.number in child.ENDING

        ranks = self._session.table.ranks_now()
        if ranks:
            text = "the launcher was killed by signal %d: ending its %d ranks too"
            self._session.tell(text % (running.signal, len(ranks)), "important")
            self._session.end_program(running, pause)

    def _ended_by_us(self, running: child.Child) -> Tuple[int, str]:
        """End the program before its restart."""
        shared = self._session

        def pause(seconds: float) -> bool:
            self._take_signal(shared.inbox.next(seconds), None)
            return False

        shared.show("restarting", child=None)
        shared.tell("restarting: %s" % shared.restarts.reason)
        shared.end_program(running, pause)
        code, end = running.end()
        shared.show("restarting", last_exit_code=code, detail=end)
        return code, end

    def _take_signal(self, arrival: Optional[child.Arrival], running: Optional[child.Child]) -> None:
        """Act on a signal, or on an editor's request to end the program; `running` is None while that is under way."""
        if arrival is not None:
            is_end = arrival.number in child.ENDING
            # SIGTERM prevents every further run. So do the others between two runs; a running program may handle them.
            self._leaving = self._leaving or arrival.number == signal.SIGTERM or (is_end and running is None)
            self._session.leaving = self._session.leaving or is_end
            if running is not None:
                running.pass_on(arrival)
        if self._session.ended_by_editor.is_set():
            self._session.ended_by_editor.clear()
            if running is not None:
                running.send(signal.SIGTERM)
