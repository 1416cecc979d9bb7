"""Clocks that stop with the program: a process at a breakpoint must not make others of its job time out.

Many parents wait for a child with a time limit (`DataLoader(timeout=20)`, gunicorn's arbiter, an engine's
heartbeat), by Python's clocks. While an editor is attached two things change in each process of the session,
stopped or not:

- `time.monotonic`, `perf_counter` and `time`, from the first stop on, do not count stopped time
    (held_time.py).
Loops that wait until a moment (`queue`, `subprocess`, `asyncio`, `multiprocessing.connection.wait`) wait
    longer by it.
- A wait that is one call (`Condition.wait`, `Thread.join`, `select`, reading from a socket with a timeout, `ray.get`,
    a store of torch) is repeated for the remaining time by these clocks: `_WAITS`.

The debugger and dkdbg itself keep the true clocks. The timer that sends SIGALRM is stopped meanwhile.
"""

# The modules are the program's, and functions of all signatures are replaced.
# ruff: noqa: ANN401

from __future__ import annotations

import contextlib
import copyreg
import functools
import os
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
#: Modules that wait for their caller.
_BETWEEN = ("threading", "queue", "selectors", "socket", "ssl", __name__)


#: Remaining seconds of a wait that are not worth another call.
_RESOLUTION = 0.001
#: Seconds between two looks whether the timer has to stop.
_TIMER_S = 0.2
#: Seconds between two checks whether an editor is still attached, while the clocks are right.
_LOOKS_S = 1.0


_true_sleep = time.sleep


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
        watched: pid of the process that watches its timer.
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
    watched = 0
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
        _watch_timer()
    elif not attached:
        _restore()


def are_behind() -> bool:
    """Tell whether a process of the job is stopped, or was a moment ago."""
    return _behind() > 0.0


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
    _restart_timer()


def _watch_timer() -> None:
    """Stop the timer that sends SIGALRM also while others are stopped, from another thread until the editor has left."""
    if _State.watched == os.getpid() or not hasattr(signal, "setitimer"):
        return
    _State.watched = os.getpid()  # a forked child has no such thread

    def watch() -> None:
        with contextlib.suppress(Exception):  # the interpreter is shutting down
            while _State.reader is not None:
                now = _true_monotonic()
                _, _, rate, until = _State.reader.state(now)
                if rate > 0.0 and now < until:
                    held()
                elif _State.alarm[0] > 0.0:
                    _restart_timer()
                _true_sleep(_TIMER_S)
        _State.watched = 0

    import _thread  # a bare thread, like the hook's: a program that counts its threads does not see it

    _thread.start_new_thread(watch, ())


def _restart_timer() -> None:
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
    kinds = set(map(type, functions))
    for name, module in list(sys.modules.items()):
        if name.startswith(_OURS):
            continue
        with contextlib.suppress(Exception):  # not a module, or an immutable one
            for key, value in list(vars(module).items()):
                if type(value) in kinds and value in functions:
                    setattr(module, key, functions[value])


def _lengthen(owner: Any, name: str, **how: Any) -> None:
    setattr(owner, name, _lengthened(getattr(owner, name), **how))


def _lengthened(
    wait: Any,
    *,
    at: int = 1,
    is_over: Callable[[Any, Any, Any], object] = lambda _args, _kwargs, found: found,
    raises: Tuple[Type[BaseException], ...] = (),
    unit: Callable[[float], Any] = float,
    has_own: bool = False,
) -> Any:
    """Return a wait that is repeated for the time that the clocks have lost in it.

    Args:
        at: position of its argument `timeout`; None there waits without limit.
        is_over: tells from the arguments and the result whether the wait has ended before its timeout.
        raises: exceptions at its timeout. unit: makes the argument of seconds.
        has_own: without the argument it has a timeout of its own, for which it is repeated.
    """

    @functools.wraps(wait)
    def lengthened(*args, **kwargs):  # type: ignore[no-untyped-def]  # noqa: ANN002, ANN003, ANN202 - hints as the true one's
        try:
            if _State is None or _State.reader is None:
                return wait(*args, **kwargs)
            is_given = (kwargs.get("timeout") if "timeout" in kwargs else args[at:] and args[at]) not in (
                None,
                (),
            )
            if not (is_given or has_own) or _is_ours():
                return wait(*args, **kwargs)
            before = _behind()
            while True:
                error, found = None, None
                try:
                    found = wait(*args, **kwargs)
                except raises as raised:
                    error = raised
                lost = _behind() - before
                if lost <= _RESOLUTION or (error is None and is_over(args, kwargs, found)):
                    if error is not None:
                        raise error
                    return found
                before += lost
                if is_given and "timeout" in kwargs:
                    kwargs["timeout"] = unit(lost)
                elif is_given:
                    args = (*args[:at], unit(lost), *args[at + 1 :])
        finally:
            del args, kwargs  # an exception from a future would keep it alive

    return lengthened


def _is_ours() -> bool:
    """Tell whether the debugger or dkdbg called the caller, also through the standard library's waits."""
    caller = sys._getframe(1).f_back  # C may be the caller: a callback of atexit, the start of a thread
    name = ""
    while caller is not None:
        name = str(caller.f_globals.get("__name__", ""))
        if name not in _BETWEEN:
            break
        caller = caller.f_back
    return name.startswith(_OURS)


def _threading(module: Any) -> None:
    _lengthen(module.Condition, "wait")  # of Event, Barrier and Future too
    _lengthen(module.Thread, "join", is_over=lambda args, *_: not args[0].is_alive())


def _multiprocessing(module: Any) -> None:
    _lengthen(module.Condition, "wait")
    make = module.SemLock._make_methods

    @functools.wraps(make)
    def make_methods(self):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        make(self)
        self.acquire = _lengthened(self.acquire)

    module.SemLock._make_methods = make_methods


def _selectors(module: Any) -> None:
    if hasattr(module, "EpollSelector"):  # those of the others poll with `select.select`, or in a loop
        _lengthen(module.EpollSelector, "select")


def _simple_queue(module: Any) -> None:
    """Lengthen `SimpleQueue.get`, which is C, of queues that are made from now on."""

    class SimpleQueue(module.SimpleQueue):  # type: ignore[misc]
        get = _lengthened(module.SimpleQueue.get, at=2, is_over=lambda *_: True, raises=(module.Empty,))

    SimpleQueue.__module__, SimpleQueue.__qualname__ = "queue", "SimpleQueue"
    module.SimpleQueue = SimpleQueue


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
    """Lengthen reading and accepting; sending and connecting cannot be repeated."""
    for name in ("recv", "recv_into", "recvfrom", "recvfrom_into", "_accept"):
        _lengthen_socket(module.socket, name, module.timeout)


def _ssl(module: Any) -> None:
    _lengthen_socket(module.SSLSocket, "read", sys.modules["socket"].timeout)


def _lengthen_socket(owner: Any, name: str, timeout: Type[OSError]) -> None:
    read = getattr(owner, name)

    @functools.wraps(read)
    def lengthened(self, *args, **kwargs):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN002, ANN003, ANN202
        if _State is None or _State.reader is None:
            return read(self, *args, **kwargs)
        before = _behind()
        while True:
            try:
                return read(self, *args, **kwargs)
            except timeout as error:
                lost = _behind() - before
                # The connection's own error, which is no timeout, has a number.
                if lost <= _RESOLUTION or error.errno is not None or _is_ours():
                    raise
            before += lost  # and wait for the whole timeout again

    setattr(owner, name, lengthened)


def _torch(module: Any) -> None:
    """Lengthen a store's waits and `work.wait(timeout)`; groups have timeouts.py."""
    import datetime

    unit, own = (
        (lambda seconds: datetime.timedelta(seconds=seconds)),
        (getattr(module, "DistStoreError", RuntimeError),),
    )
    store = module.Store
    _lengthen(store, "wait", at=2, is_over=lambda *_: True, raises=own, unit=unit, has_own=True)
    _lengthen(store, "get", is_over=lambda *_: True, raises=own, has_own=True)
    _lengthen(
        module.distributed_c10d.Work, "wait", is_over=lambda *_: True, raises=(RuntimeError,), unit=unit
    )


def _ray(module: Any) -> None:
    gives_up = (sys.modules["ray.exceptions"].GetTimeoutError,)
    _lengthen(module.Worker, "get_objects", at=2, is_over=lambda *_: True, raises=gives_up)
    wait = module.wait
    module.wait = _lengthened(
        wait, is_over=lambda _args, kwargs, found: len(found[0]) >= kwargs.get("num_returns", 1)
    )
    _exchange({wait: module.wait})


#: Changes to modules, by name.
_WAITS: Dict[str, Callable[[Any], None]] = {
    "threading": _threading,
    "multiprocessing.synchronize": _multiprocessing,
    "queue": _simple_queue,
    "select": _select,
    "selectors": _selectors,
    "socket": _socket,
    "ssl": _ssl,
    "torch.distributed": _torch,
    "ray._private.worker": _ray,
}
