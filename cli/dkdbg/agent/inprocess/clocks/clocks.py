"""Clocks that stop with the program: a process at a breakpoint must not make others of its job time out.

Many parents wait for a child with a time limit (`DataLoader(timeout=20)`, gunicorn's arbiter, an engine's
heartbeat), by Python's clocks. While an editor is attached two things change in each process of the session,
stopped or not:

- `time.monotonic`, `perf_counter` and `time`, from the first stop on, do not count stopped time
    (held_time.py).
Loops that wait until a moment (`queue`, `subprocess`, `asyncio`, `multiprocessing.connection.wait`) wait
    longer by it.
- A standard library wait that is one call (`Event.wait`, `Future.result`, `Thread.join`, `select`, reading
    from a
socket with a timeout) is repeated for the remaining time by these clocks.

The debugger and dkdbg itself keep the true clocks. A stopped process's timer that sends SIGALRM is stopped
meanwhile.
"""

# The modules are the program's, and functions of all signatures are replaced.
# ruff: noqa: ANN401

from __future__ import annotations

import contextlib
import copyreg
import functools
import signal
import sys
import time
import types

from .. import importing, session
from . import held_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional, Tuple, Type

_NAMES = ("monotonic", "perf_counter", "time")
#: Prefixes of modules that keep the true clocks.
_OURS = ("_dkdbg", "dkdbg.agent", "debugpy", "pydevd", "_pydevd_", "_pydev_")


#: Remaining seconds of a wait that are not worth another call.
_RESOLUTION = 0.001
#: Seconds between two checks whether an editor is still attached, while the clocks are right.
_LOOKS_S = 1.0


def _true_monotonic(true: Callable[[], float] = time.monotonic) -> float:
    """Return the system's clock.

    It is kept as a default argument because freezegun replaces module attributes.
    """
    return true()


class _State:
    """Changes made to this process.

    Attributes:
        directory: the session's folder. reader: the agent's record of stops, while an editor is attached or
            the clocks
            are behind. looks_at: time of the next check for the editor. lengthened: waits are.
        stopping: the replaced functions, each with its replacement.
        alarm: remaining time of a stopped process's timer, and its interval.
        ran_on: when this process last continued after a stop of its own; 0 once the agent is known to have
            seen that.
        lead: seconds that its clocks do not lose: before they were replaced, and while it ran before the
            agent saw it.
    """

    directory = ""
    reader: Optional[held_time.Reader] = None
    looks_at = 0.0
    stopping: Dict[Any, _Clock] = {}  # noqa: RUF012
    lengthened = False
    alarm: Tuple[float, float] = (0.0, 0.0)
    ran_on = 0.0
    lead = 0.0


class _Builtin:
    """Replacement of a C function: it does not become a method of a class, and is pickled by its name.

    Args:
        true: the function. module: its module.
    """

    def __init__(self, true: Any, module: str) -> None:
        self.true = true
        self.__name__ = self.__qualname__ = true.__name__
        self.__module__, self.__doc__ = module, true.__doc__
        self.__annotations__: Dict[str, Any] = {}  # functions in C have none
        self.__text_signature__ = getattr(true, "__text_signature__", None)

    def __reduce__(self) -> Any:
        module = sys.modules[self.__module__]
        return (
            self.__name__
            if getattr(module, self.__name__, None) is self
            else (functools.partial, (self.true,))
        )


class _Clock(_Builtin):
    """A clock that stops with the program. It never goes back, and two calls never return the same time."""

    def __init__(self, true: Any) -> None:
        super().__init__(true, "time")
        self._is_whole = true.__name__.endswith("_ns")
        #: Larger than the resolution of a float of that size.
        self._tick: Any = 1 if self._is_whole else 1e-6 if true.__name__ == "time" else 1e-9
        self._last = true()

    def __call__(self) -> Any:
        true = self.true()
        if _State is None or _is_ours():  # the interpreter is shutting down, and has cleared this module
            return true
        behind = _seconds_behind()
        if behind == 0.0 and true >= self._last:
            return true
        found = true - (int(behind * 1e9) if self._is_whole else behind)
        self._last = found = max(found, self._last + self._tick)
        return found


def follow(directory: str) -> None:
    """Update this process: lengthen waits while an editor is attached, replace the clocks after a first stop.

    Args:
        directory: the session's folder.
    """
    with contextlib.suppress(Exception):  # an error here must not end the program
        _follow(directory)


def _follow(directory: str) -> None:
    _State.directory = directory
    attached = session.editor_is_attached(directory)
    if attached:
        _State.reader = held_time.Reader(directory)  # a new one: the last reading may be some ms old
        if not _State.lengthened:
            _State.lengthened = True
            for name, change in _WAITS.items():
                importing.after(name, change)
    if _behind() > 0.0:
        _replace()
    elif not attached:
        _restore()


def held() -> None:
    """Stop the timer that sends SIGALRM.

    Called when the debugger stops this process, perhaps by two threads at once.
    """
    if hasattr(signal, "setitimer"):
        found = signal.setitimer(signal.ITIMER_REAL, 0.0)
        if found[0] > 0.0:
            _State.alarm = found


def runs_on() -> None:
    """Restart the timer unless the program has set another one, and the clocks before the agent records it."""
    _State.ran_on = _true_monotonic()
    (left, interval), _State.alarm = _State.alarm, (0.0, 0.0)
    if left > 0.0 and signal.getitimer(signal.ITIMER_REAL)[0] == 0.0:
        signal.setitimer(signal.ITIMER_REAL, left, interval)


def _behind() -> float:
    reader = _State.reader
    if reader is None:
        return 0.0
    now = _true_monotonic()
    amount, since, rate, until = reader.state(now)
    if 0.0 < _State.ran_on < since or rate == 0.0:  # the agent has seen it, at the latest at its next write
        if _State.ran_on and since > _State.ran_on:
            _State.lead += min(since - _State.ran_on, held_time.LEASE_S) * (1.0 + held_time.CATCH_UP)
        _State.ran_on = 0.0
    elif _State.ran_on:
        until = min(until, _State.ran_on)
    found = held_time.seconds_behind((amount, since, rate, until), now)
    if found == 0.0:
        _State.lead = 0.0
    return max(0.0, found - _State.lead)


def _seconds_behind() -> float:
    """Return how far the clocks are behind.

    Restore the true ones once the editor has left and they are right.
    """
    found = _behind()
    if found == 0.0 and _State.reader is not None and _true_monotonic() >= _State.looks_at:
        _State.looks_at = _true_monotonic() + _LOOKS_S
        if not session.editor_is_attached(_State.directory):
            _restore()
    return found


def _replace() -> None:
    """Replace the clocks, in `time` and wherever a module has one under a name of its own."""
    if _State.stopping:
        return
    _State.lead += _behind()  # the clocks continue from the true time
    for name in _NAMES:
        for full in (name, name + "_ns"):
            found = getattr(time, full)
            if isinstance(found, types.BuiltinFunctionType):  # otherwise another library has replaced it
                _State.stopping[found] = _Clock(found)
    copyreg.pickle(types.BuiltinFunctionType, _reduced)
    _exchange(_State.stopping)


def _restore() -> None:
    """Restore the clocks, in the program thread that asks for the time, without a message."""
    _State.reader = None
    stopping, _State.stopping = _State.stopping, {}
    with contextlib.suppress(Exception):
        if stopping and copyreg.dispatch_table.get(types.BuiltinFunctionType) is _reduced:
            del copyreg.dispatch_table[types.BuiltinFunctionType]
        _exchange({clock: true for true, clock in stopping.items()})


def _reduced(function: Any) -> Any:
    """Pickle a true clock that the program has kept from before as its replacement.

    The name now finds that one.
    """
    clock = _State.stopping.get(function)
    return function.__reduce__() if clock is None else (functools.partial, (clock,))


def _exchange(functions: Dict[Any, Any]) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith(_OURS):
            continue
        with contextlib.suppress(Exception):  # not a module, or an immutable one
            for key, value in list(vars(module).items()):
                if type(value) in (types.BuiltinFunctionType, _Clock) and value in functions:
                    setattr(module, key, functions[value])


def _lengthen(
    owner: Any,
    name: str,
    *,
    is_over: Callable[[Any, Any], object],
    raises: Tuple[Type[BaseException], ...] = (),
) -> None:
    """Repeat a wait with one argument, `timeout`, for the time that the clocks have lost in it.

    Args:
        owner: a class. is_over: tells from the object and the wait's result whether the wait is over.
        raises: exceptions of the wait at its timeout.
    """
    wait = getattr(owner, name)

    @functools.wraps(wait)
    def lengthened(self, timeout=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - hints as the true one's
        try:
            if timeout is None or _State is None or _State.reader is None or _is_ours():
                return wait(self, timeout)
            before = _behind()
            while True:
                try:
                    found = wait(self, timeout)
                except raises:
                    timeout = _behind() - before
                    if timeout <= _RESOLUTION or is_over(self, None):
                        raise
                else:
                    timeout = _behind() - before
                    if timeout <= _RESOLUTION or is_over(self, found):
                        return found
                before += timeout
        finally:
            del self  # an exception from a future would keep it alive

    setattr(owner, name, lengthened)


def _is_ours() -> bool:
    """Tell whether the debugger or dkdbg called the caller."""
    caller = sys._getframe(1).f_back  # C may be the caller: a callback of atexit, the start of a thread
    return caller is not None and str(caller.f_globals.get("__name__", "")).startswith(_OURS)


def _threading(module: Any) -> None:
    _lengthen(module.Event, "wait", is_over=lambda _, found: found)
    _lengthen(module.Thread, "join", is_over=lambda thread, _: not thread.is_alive())


def _futures(module: Any) -> None:
    for name in ("result", "exception"):
        _lengthen(module.Future, name, is_over=lambda future, _: future.done(), raises=(module.TimeoutError,))


def _multiprocessing(module: Any) -> None:
    _lengthen(module.Event, "wait", is_over=lambda _, found: found)


class _Select(_Builtin):
    """`select.select`, which `selectors` has as an attribute of a class."""

    def __call__(self, rlist: Any, wlist: Any, xlist: Any, timeout: Any = None) -> Any:
        if timeout is None or _State is None or _State.reader is None or _is_ours():
            return self.true(rlist, wlist, xlist, timeout)
        lists = [each if isinstance(each, (list, tuple)) else list(each) for each in (rlist, wlist, xlist)]
        before = _behind()
        while True:
            found = self.true(*lists, timeout)
            timeout = _behind() - before
            if timeout <= _RESOLUTION or any(found):
                return found
            before += timeout


def _select(module: Any) -> None:
    module.select = _Select(module.select, "select")


def _socket(module: Any) -> None:
    """Lengthen reading from a socket's file, as HTTP clients do."""
    read = module.SocketIO.readinto

    @functools.wraps(read)
    def readinto(self, b):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        if _State is None or _State.reader is None:
            return read(self, b)
        before = _behind()
        while True:
            try:
                return read(self, b)
            except module.timeout as error:
                lost = _behind() - before
                if (
                    lost <= _RESOLUTION or error.errno is not None
                ):  # the connection's own error, not a timeout
                    raise
            before += lost  # and wait for the whole timeout again
            self._timeout_occurred = False

    module.SocketIO.readinto = readinto


#: Changes to a module of the standard library, by its name.
_WAITS: Dict[str, Callable[[Any], None]] = {
    "threading": _threading,
    "concurrent.futures._base": _futures,
    "multiprocessing.synchronize": _multiprocessing,
    "select": _select,
    "socket": _socket,
}
