"""Removes pydevd's delays at a joined process's start and end, and prevents a join after the program's end.

With pydevd alone (debugpy 1.8.22), each process starts 0.1 s late, because of a sleep, and ends 0.6 to 0.8 s late: the
thread that ends all others waits for the reader until a timeout, while the reader waits for that thread or for the
editor, and pydevd checks only every 0.2 s whether the program has ended. A program that starts many short processes
would spend most of its time waiting.
"""

# debugpy is untyped.
# ruff: noqa: ANN401

from __future__ import annotations

import contextlib
import os

from .. import session
from ..natives import threading, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Seconds between two checks of pydevd's remaining threads.
INTERVAL_S = 0.002

_ended = False
#: PID of the process in which pydevd's threads run: a forked child may have copied this module.
_pid = 0


class _Time:
    """Replacement for the module `time` in pydevd.py, whose `sleep` does nothing in a thread that is connecting."""

    def __init__(self) -> None:
        self.connects = threading.local()

    def sleep(self, seconds: float) -> None:
        if not getattr(self.connects, "now", False):
            time.sleep(seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def watch() -> None:
    """Make pydevd start and end without delay."""
    global _pid  # noqa: PLW0603
    import pydevd

    _pid = os.getpid()
    debugger_class = pydevd.PyDB
    _connect_at_once(pydevd, debugger_class)
    _record_end(debugger_class)
    debugger_class._PyDB__wait_for_threads_to_finish = _wait_for_threads
    register = getattr(threading, "_register_atexit", _before_shutdown)  # Python 3.9
    with contextlib.suppress(RuntimeError):  # the program is ending
        register(_check_now)


def program_has_ended() -> bool:
    """Tell whether pydevd has ended its session because all threads of the program have ended.

    The process may continue for a while, for example in atexit callbacks. If it joined again then, the debugger would
    end again at once, and the editor would show a session that comes and goes.
    """
    return _ended


def forget() -> None:
    """Reset the state in a forked child, which is a program of its own."""
    global _ended, _pid
    _ended, _pid = False, os.getpid()


def _record_end(debugger_class: Any) -> None:
    dispose = debugger_class.dispose_and_kill_all_pydevd_threads

    def dispose_and_kill_all_pydevd_threads(self: Any, *args: Any, **kwargs: Any) -> Any:
        global _ended  # noqa: PLW0603
        _ended = _ended or not self.has_user_threads_alive()
        return dispose(self, *args, **kwargs)

    debugger_class.dispose_and_kill_all_pydevd_threads = dispose_and_kill_all_pydevd_threads


def _connect_at_once(pydevd: Any, debugger_class: Any) -> None:
    """Remove pydevd's sleep after starting its threads, which do not need it."""
    initialize, pydevd.time = debugger_class.initialize_network, _Time()

    def initialize_network(self: Any, *args: Any, **kwargs: Any) -> Any:
        pydevd.time.connects.now = True
        try:
            return initialize(self, *args, **kwargs)
        finally:
            pydevd.time.connects.now = False

    debugger_class.initialize_network = initialize_network


def _wait_for_threads(self: Any, timeout: float) -> None:
    """Wait until everything is sent and pydevd's threads have ended, except for those that need not be waited for.

    The reader ends only when the editor, and then the adapter, has closed the session. This may even run in the reader.
    """
    ends_alone, end = (
        {threading.current_thread(), self.check_alive_thread, self.reader},
        session.monotonic() + timeout,
    )
    while set(self.created_pydb_daemon_threads) - ends_alone and session.monotonic() < end:
        time.sleep(INTERVAL_S)


def _before_shutdown(call: Any) -> None:
    """Call a function before threading._shutdown, as threading._register_atexit does from Python 3.9 on."""
    shutdown = threading._shutdown  # type: ignore[attr-defined]

    def call_and_shut_down() -> None:
        call()
        shutdown()

    threading._shutdown = call_and_shut_down  # type: ignore[attr-defined]


def _check_now() -> None:
    """Make pydevd's thread check for the program's end now, because the main thread has ended."""
    debugger = session.debugger()
    thread = debugger.check_alive_thread if debugger is not None else None
    if thread is not None and os.getpid() != _pid:
        _end_without_it(thread)
    elif thread is not None:
        event = thread._wait_event
        # If other threads still run, or messages are unsent, the thread waits again; `_Soon` shortens these waits.
        thread._wait_event = _Soon(event)
        event.set()
        event.clear()


def _end_without_it(thread: Any) -> None:
    """Keep this process from waiting at its end for pydevd's only non-daemon thread, which runs in the parent alone.

    C code has forked this process, without the callbacks of os.fork; it would wait forever.
    """
    if hasattr(threading, "_shutdown_locks"):
        threading._shutdown_locks.discard(thread._tstate_lock)
        return

    def join_others() -> None:  # from Python 3.13 on, the list of threads to wait for is in C
        for each in threading.enumerate():
            if not each.daemon and each is not threading.main_thread():
                each.join()

    threading._thread_shutdown = join_others  # type: ignore[attr-defined]


class _Soon:
    """Replacement for the event on which pydevd's checking thread waits: short waits at first, then longer ones."""

    def __init__(self, event: Any) -> None:
        self._event = event
        self._next = INTERVAL_S

    def wait(self, timeout: float) -> Any:
        self._next *= 2
        return self._event.wait(min(timeout, self._next))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._event, name)
