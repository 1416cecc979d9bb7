"""Store the messages of a debugger's sessions, and wait for expected ones."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from dkdbg.dap.client import TIMEOUT
from dkdbg.errors import EXIT_TIMEOUT, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dkdbg.dap.client import Session
    from dkdbg.dap.values import Output, Stop


class Arrivals:
    """Base of a debugger that stores and waits; each wait ends as soon as its condition holds."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._sessions: list[Session] = []
        self._stops: list[Stop] = []
        self._output: list[Output] = []
        self._failures: list[DkdbgError] = []
        #: Configured sessions; each has a lock, so that an older set of breakpoints never follows a newer one.
        self._ready: dict[Session, threading.Lock] = {}
        #: Threads that open a session now; each removes itself.
        self._openers: list[threading.Thread] = []

    @property
    def sessions(self) -> tuple[Session, ...]:
        """Return all sessions so far, the root first, including ended ones."""
        with self.changed:
            return tuple(self._sessions)

    @property
    def output(self) -> tuple[Output, ...]:
        """Return the output of the processes so far."""
        with self.changed:
            return tuple(self._output)

    def wait_stopped(self, timeout: float = TIMEOUT, *, session: Session | None = None) -> Stop:
        """Return the oldest stop not yet taken, of any session or of the given one.

        Raises:
            DkdbgError: no stop in time (EXIT_TIMEOUT), or all programs ended first.
        """

        def oldest() -> Stop | None:
            return next((stop for stop in self._stops if session in (None, stop.session)), None)

        with self.changed:
            self.wait(lambda: oldest() is not None, "a stop", timeout=timeout)
            stop = oldest()
            if stop is None:  # pragma: no cover  wait() would have raised
                raise DkdbgError("no stop")
            self._stops.remove(stop)
            return stop

    def wait_session(
        self, is_wanted: Callable[[Session], bool], awaited: str, *, timeout: float = TIMEOUT
    ) -> Session:
        """Return the first configured session, present or future, that `is_wanted`; `awaited` describes it in messages.

        Raises:
            DkdbgError: as `wait_stopped`.
        """

        def found() -> list[Session]:
            return [session for session in self._ready if is_wanted(session)]

        with self.changed:
            self.wait(lambda: bool(found()), awaited, timeout=timeout)
            return found()[0]

    def wait_output(self, text: str, *, timeout: float = TIMEOUT) -> None:
        """Wait until `text` is in the joined output of one session. Raises DkdbgError: as `wait_stopped`."""

        def printed() -> bool:
            joined: dict[Session, str] = {}
            for each in self._output:
                joined[each.session] = joined.get(each.session, "") + each.text
            return any(text in each for each in joined.values())

        self.wait(printed, f"{text!r} in the output", timeout=timeout)

    def wait_ended(self, timeout: float = TIMEOUT, *, session: Session | None = None) -> None:
        """Wait until the given session, or every session, has ended. Raises DkdbgError: not in time (EXIT_TIMEOUT)."""
        awaited = f"the end of {session.name if session else 'all programs'}"
        self.wait(lambda: session.is_ended if session else self._all_ended(), awaited, timeout=timeout)

    def wait(self, is_done: Callable[[], bool], awaited: str, *, timeout: float = TIMEOUT) -> None:
        """Wait until `is_done()`, which is called with `changed` held, after each arrival.

        Raises:
            DkdbgError: not in time (EXIT_TIMEOUT), or no longer possible; the message names `awaited`.
        """
        with self.changed:
            self.changed.wait_for(lambda: is_done() or self._all_ended(), timeout)
            if is_done():
                return
            live = [session.name for session in self._sessions if not session.is_ended]
            gone = [f"{session.name}: {session.why_ended}" for session in self._sessions if session.is_ended]
            notes = "; ".join(gone + [str(failure) for failure in self._failures]) or "nothing was attached"
        if not live:
            raise DkdbgError(f"all programs ended while waiting for {awaited} ({notes})")
        message = f"waited {timeout:g} s for {awaited}; attached: {', '.join(live)}"
        raise DkdbgError(
            f"{message} ({notes})" if gone or self._failures else message, exit_code=EXIT_TIMEOUT
        )

    def _all_ended(self) -> bool:
        return all(session.is_ended for session in self._sessions) and not self._openers
