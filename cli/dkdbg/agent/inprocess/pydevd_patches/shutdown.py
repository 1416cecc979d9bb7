"""A process that has joined begins and ends without pydevd's sleeps, and joins no more when it has ended.

With pydevd alone (debugpy 1.8.22) each one starts 0.1 s late, and ends 0.6 to 0.8 s late: the thread that ends all
others waits for the one that reads, which waits for it or for the editor, until a time limit; and whether the program
has ended is looked at every 0.2 s only. A program that starts many short processes does hardly anything else.
"""

# debugpy has no types, and this is where it is touched.
# ruff: noqa: ANN401

from __future__ import annotations

import contextlib
import sys

from ..natives import threading, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Seconds between two looks at which of pydevd's threads are still there.
INTERVAL = 0.002

_ended = False


class _Time:
    """The module `time` as pydevd.py sees it: a thread that connects does not sleep."""

    def __init__(self) -> None:
        self.connects = threading.local()

    def sleep(self, seconds: float) -> None:
        if not getattr(self.connects, "now", False):
            time.sleep(seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def watch(pydevd: Any) -> None:
    """Have pydevd begin and end at once from now on; once for each process."""
    debugger_class = pydevd.PyDB
    if getattr(debugger_class, "dkdbg_hurries", False):
        return
    debugger_class.dkdbg_hurries = True
    _connect_at_once(pydevd, debugger_class)
    _note_the_end(debugger_class)
    debugger_class._PyDB__wait_for_threads_to_finish = _wait_for_threads
    register = getattr(threading, "_register_atexit", None)  # Python 3.9
    if register is not None:
        with contextlib.suppress(RuntimeError):  # the program is ending
            register(_look_now)


def program_has_ended() -> bool:
    """Tell whether pydevd has ended a session because no thread of the program lives any more.

    The process may live on for a while, in callbacks of atexit for example. A debugger would leave it at once, and an
    editor see it come and go.
    """
    return _ended


def forget() -> None:
    """In a forked child: it is a program of its own."""
    global _ended  # noqa: PLW0603
    _ended = False


def _note_the_end(debugger_class: Any) -> None:
    dispose = debugger_class.dispose_and_kill_all_pydevd_threads

    def dispose_and_kill_all_pydevd_threads(self: Any, *args: Any, **kwargs: Any) -> Any:
        global _ended  # noqa: PLW0603
        _ended = _ended or not self.has_user_threads_alive()
        return dispose(self, *args, **kwargs)

    debugger_class.dispose_and_kill_all_pydevd_threads = dispose_and_kill_all_pydevd_threads


def _connect_at_once(pydevd: Any, debugger_class: Any) -> None:
    """Take away what pydevd sleeps when it has started its threads: they need nothing of it."""
    initialize, pydevd.time = debugger_class.initialize_network, _Time()

    def initialize_network(self: Any, *args: Any, **kwargs: Any) -> Any:
        pydevd.time.connects.now = True
        try:
            return initialize(self, *args, **kwargs)
        finally:
            pydevd.time.connects.now = False

    debugger_class.initialize_network = initialize_network


def _wait_for_threads(self: Any, timeout: float) -> None:
    """Wait until all is sent and pydevd's threads have ended, but the one that reads.

    That one ends when the adapter has, after the editor, closed the session; or it is the one that waits here, for
    the thread that waits for it.
    """
    ends_alone, end = (
        {threading.current_thread(), self.check_alive_thread, self.reader},
        time.monotonic() + timeout,
    )
    while set(self.created_pydb_daemon_threads) - ends_alone and time.monotonic() < end:
        time.sleep(INTERVAL)


def _look_now() -> None:
    """The main thread has ended: wake the thread that looks whether the program has ended."""
    pydevd: Any = sys.modules.get("pydevd")
    debugger = pydevd.get_global_debugger() if pydevd is not None else None
    thread = debugger.check_alive_thread if debugger is not None else None
    if thread is not None:
        thread._wait_event.set()
        thread._wait_event.clear()  # it waits anew when other threads of the program live
