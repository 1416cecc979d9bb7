"""Stops timers that would end a process while the job is stopped: SIGALRM, and the watchdog of `faulthandler`.

In a process that the debugger stops, the stopped thread does so. In the job's other processes a thread of dkdbg's does
(`watch`).
"""

# The modules are the program's, and functions of all signatures are replaced.
# ruff: noqa: ANN401

from __future__ import annotations

import _thread
import functools
import math
import os
import signal
import sys
import time

from .. import session
from .slow_clocks import Builtin, State, exchange, seconds_behind
from .untraced import Suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional, Tuple

#: Seconds between two checks whether the timers have to be stopped or started.
_LOOKS_S = 0.2
#: Seconds to wait for `_lock`.
_LOCK_TIMEOUT_S = 1.0
#: Held while the timers and their record change. From `_thread`, which gevent does not patch.
_lock = _thread.RLock()
#: Python's own functions, which are replaced in the program's modules.
_set, _get, _sleep = getattr(signal, "setitimer", None), getattr(signal, "getitimer", None), time.sleep


class _Timers:
    """Timers of this process.

    Attributes:
        alarm: remaining time and interval of the stopped timer of SIGALRM.
        arm: function that arms the watchdog as the program did, None while the program has not armed it. cancel:
            function that cancels it.
        is_stopped: whether dkdbg has cancelled the watchdog.
        watched: pid of the process in which `watch` runs its thread; a forked child has another one.
    """

    alarm: Tuple[float, float] = (0.0, 0.0)
    arm: Optional[Callable[[], object]] = None
    cancel: Callable[[], object]
    is_stopped = False
    watched = 0


class _Alone:
    """Context that holds `_lock`; after a timeout it runs without, as the holder may be stopped at a breakpoint."""

    def __enter__(self) -> None:
        self._lock = _lock
        self._taken = self._lock.acquire(timeout=_LOCK_TIMEOUT_S)

    def __exit__(self, *_: object) -> None:
        if self._taken:
            self._lock.release()


def stop() -> None:
    """Stop the timers. Several threads may call this at once, if the debugger stops them."""
    with _Alone():
        if _set is not None:
            found = _set(signal.ITIMER_REAL, 0.0)
            if found[0] > 0.0:
                _Timers.alarm = found
        if _Timers.arm is not None and not _Timers.is_stopped:
            _Timers.is_stopped = True
            _Timers.cancel()


def start() -> None:
    """Start the stopped timers again, except one that the program has set anew meanwhile."""
    with _Alone():
        (left, interval), _Timers.alarm = _Timers.alarm, (0.0, 0.0)
        if left > 0.0 and _set is not None and _get is not None and _get(signal.ITIMER_REAL)[0] == 0.0:
            _set(signal.ITIMER_REAL, left, interval)
        if _Timers.is_stopped:
            _Timers.is_stopped = False
            if _Timers.arm is not None:
                with Suppress(Exception):  # the program has closed the file of its watchdog
                    _Timers.arm()


def watch() -> None:
    """Start a thread that stops the timers whenever a process of the job is stopped, until the editor has left."""
    with _Alone():
        if _Timers.watched == os.getpid():  # a forked child has no such thread
            return
        _Timers.watched = os.getpid()

    def poll() -> None:
        with Suppress(Exception):  # the interpreter is shutting down
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # signals are for the program
            while True:
                seconds_behind()  # restores the clocks in the end, even if the program never reads them
                with _Alone():
                    reader = State.reader
                    if reader is None:
                        _Timers.watched = 0
                        break
                now = session.monotonic()
                _, _, rate, until = reader.state()
                # Keep them stopped while this process is stopped, even if the clocks run because of an evaluation.
                (stop if State.stopped or (rate > 0.0 and now < until) else start)()
                _sleep(_LOOKS_S)
            start()

    if "pydevd" in sys.modules:
        session.start_hidden(poll, "dkdbg timers")
    else:  # a bare thread, like the hook's: a program that counts its threads does not see it
        _thread.start_new_thread(poll, ())


def _forget() -> None:
    """Forget the parent's timers and lock in a forked child, which has no timers and not the parent's threads."""
    global _lock  # noqa: PLW0603
    _lock = _thread.RLock()
    _Timers.alarm, _Timers.arm, _Timers.is_stopped = (0.0, 0.0), None, False


class _Alarm(Builtin):
    """Replacement of `signal.alarm`, `setitimer` or `getitimer` that returns the time of a timer stopped by dkdbg too.

    If the program sets a timer, that replaces the stopped one.
    """

    def __call__(self, *args: Any) -> Any:
        with _Alone():
            found = self.true(*args)
            is_alarm = self.__name__ == "alarm"
            if not is_alarm and args[0] != signal.ITIMER_REAL:
                return found
            stopped = _Timers.alarm
            if self.__name__ != "getitimer":
                _Timers.alarm = (0.0, 0.0)
        return found or math.ceil(stopped[0]) if is_alarm else found if found[0] > 0.0 else stopped


def _signal(module: Any) -> None:
    new = {}
    for name in ("alarm", "setitimer", "getitimer"):
        true = getattr(module, name, None)
        if true is not None:
            new[true] = _Alarm(true, "signal")
    exchange(new)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forget)


def _faulthandler(module: Any) -> None:
    arm, cancel = module.dump_traceback_later, module.cancel_dump_traceback_later

    @functools.wraps(arm)
    def dump_traceback_later(*args, **kwargs):  # type: ignore[no-untyped-def]  # noqa: ANN002, ANN003, ANN202
        with _Alone():
            arm(*args, **kwargs)
            _Timers.arm, _Timers.cancel = functools.partial(arm, *args, **kwargs), cancel
            _Timers.is_stopped = False

    @functools.wraps(cancel)
    def cancel_dump_traceback_later():  # type: ignore[no-untyped-def]  # noqa: ANN202
        with _Alone():
            cancel()
            _Timers.arm = None

    exchange({arm: dump_traceback_later, cancel: cancel_dump_traceback_later})


#: Module -> function that changes it once it is imported.
CHANGES: Dict[str, Callable[[Any], None]] = {"signal": _signal, "faulthandler": _faulthandler}
