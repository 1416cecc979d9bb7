"""Clocks that stop with the program: nothing of a job times out because a process of it stands at a breakpoint.

Many parents wait for a child with a time limit (`DataLoader(timeout=20)`, gunicorn's arbiter, an engine's heartbeat), by
Python's clocks. While an editor is attached two things are changed in each process of the session, held or not:

- `time.monotonic`, `perf_counter` and `time`, from the first hold on, do not count the time of holds (held_time.py).
  Loops that wait until a moment (`queue`, `subprocess`, `asyncio`, `multiprocessing.connection.wait`) wait longer by that.
- A wait of the standard library that is one call (`Event.wait`, `Future.result`, `Thread.join`, `select`, reading from a
  socket with a timeout) is begun again for what is left of its time by these clocks.

The debugger and dkdbg itself keep the true clocks. A timer of the held process that sends SIGALRM is stopped meanwhile.
"""

# The modules are the program's, and functions of all signatures are replaced.
# ruff: noqa: ANN401

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import types

from . import held_time, importing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional, Tuple, Type

_NAMES = ("monotonic", "perf_counter", "time")
#: Modules that keep the true clocks, by the beginnings of their names.
_OURS = ("_dkdbg", "dkdbg.agent", "debugpy", "pydevd", "_pydevd_", "_pydev_")
_true_monotonic = time.monotonic
#: What is left of a wait that is not worth another call, in seconds.
_RESOLUTION = 0.001


class _State:
    """What was changed.

    Attributes:
        reader: what the agent says of holds. true: the program's own clocks, by name, while they are replaced.
        own: a module `time` with them, for the debugger. attached: an editor is. lengthened: waits are.
        alarm: what was left of the timer of a held process, and its interval.
    """

    reader: Optional[held_time.Reader] = None
    true: Dict[str, Any] = {}  # noqa: RUF012
    own: Optional[types.ModuleType] = None
    attached = False
    lengthened = False
    alarm: Tuple[float, float] = (0.0, 0.0)


def follow(directory: str) -> None:
    """Do what the moment asks for: lengthen waits while an editor is attached, replace the clocks after a first hold.

    Args:
        directory: the session's folder.
    """
    with contextlib.suppress(Exception):  # nothing of this may end the program
        _follow(directory)


def _follow(directory: str) -> None:
    attached = os.path.exists(directory + "/join.json")
    if attached and _State.reader is None:
        _State.reader = held_time.Reader(directory)
    if attached and not _State.lengthened:
        _State.lengthened = True
        for name, change in _WAITS.items():
            importing.after(name, change)
    _State.attached = attached
    if _behind() > 0.0:
        _replace()
    elif not attached:
        _restore()


def hold_alarm() -> None:
    """Stop the timer that sends SIGALRM; called when the debugger holds this process."""
    if hasattr(signal, "setitimer"):
        _State.alarm = signal.setitimer(signal.ITIMER_REAL, 0.0)


def release_alarm() -> None:
    """Let it run on."""
    (left, interval), _State.alarm = _State.alarm, (0.0, 0.0)
    if left > 0.0:
        signal.setitimer(signal.ITIMER_REAL, left, interval)


def _behind() -> float:
    reader = _State.reader
    if reader is None:
        return 0.0
    now = _true_monotonic()
    return held_time.seconds_behind(reader.state(now), now)


def _seconds_behind() -> float:
    """Return how far the clocks are behind, and put the true ones back when the editor has left and they are right."""
    found = _behind()
    if found == 0.0 and not _State.attached:
        _restore()
    return found


def _now() -> float:
    return _true_monotonic() - _behind()


def _replace() -> None:
    """Replace the clocks, in `time` and wherever a module has one under a name of its own."""
    if _State.true:
        _spare_ours()  # what the debugger has imported since
        return
    for name in _NAMES:
        for full in (name, name + "_ns"):
            found = getattr(time, full)
            if isinstance(found, types.BuiltinFunctionType):  # else somebody else has replaced it
                _State.true[full] = found
    _State.own = types.ModuleType("time")
    vars(_State.own).update(vars(time))
    _exchange({found: _stopping(name, found) for name, found in _State.true.items()})
    _spare_ours()


def _restore() -> None:
    if _State.true:
        _exchange({getattr(time, name): found for name, found in _State.true.items()})
        _State.true.clear()


def _exchange(functions: Dict[Any, Any]) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith(_OURS):
            continue
        try:
            found = list(vars(module).items())
        except TypeError:  # not a module
            continue
        for key, value in found:
            if type(value) in (types.BuiltinFunctionType, types.FunctionType) and value in functions:
                setattr(module, key, functions[value])


def _spare_ours() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith(_OURS):
            for key, value in list(getattr(module, "__dict__", {}).items()):
                if value is time and module is not sys.modules.get(__name__):
                    setattr(module, key, _State.own)


def _stopping(name: str, true: Callable[[], Any]) -> Callable[[], Any]:
    """Return a clock that stands still while the program does."""
    if name.endswith("_ns"):

        def clock() -> Any:
            return true() - int(_seconds_behind() * 1e9)
    else:

        def clock() -> Any:
            return true() - _seconds_behind()

    clock.__name__ = clock.__qualname__ = name
    clock.__module__ = "time"  # it is pickled by its name
    return clock


def _lengthen(
    owner: Any,
    name: str,
    *,
    is_over: Callable[[Any, Any], object],
    raises: Tuple[Type[BaseException], ...] = (),
) -> None:
    """Begin a wait with one argument, `timeout`, again for what is left of it by the stopped clocks.

    Args:
        owner: a class. is_over: tells from the object and what the wait returned whether it has come to its end.
        raises: what the wait raises when its time is over.
    """
    wait = getattr(owner, name)

    def lengthened(self: Any, timeout: Any = None) -> Any:
        if timeout is None or _State.reader is None or _is_ours(sys._getframe(1)):
            return wait(self, timeout)
        end = _now() + timeout
        while True:
            try:
                found = wait(self, timeout)
            except raises:
                if is_over(self, None) or end - _now() <= _RESOLUTION:
                    raise
            else:
                if is_over(self, found) or end - _now() <= _RESOLUTION:
                    return found
            timeout = end - _now()

    lengthened.__name__, lengthened.__qualname__ = name, wait.__qualname__
    lengthened.__doc__, lengthened.__module__ = wait.__doc__, wait.__module__
    setattr(owner, name, lengthened)


def _is_ours(frame: Any) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith(_OURS)


def _threading(module: Any) -> None:
    _lengthen(module.Event, "wait", is_over=lambda _, found: found)
    _lengthen(module.Thread, "join", is_over=lambda thread, _: not thread.is_alive())


def _futures(module: Any) -> None:
    for name in ("result", "exception"):
        _lengthen(module.Future, name, is_over=lambda future, _: future.done(), raises=(module.TimeoutError,))


def _multiprocessing(module: Any) -> None:
    _lengthen(module.Event, "wait", is_over=lambda _, found: found)


def _select(module: Any) -> None:
    wait = module.select

    def select(rlist: Any, wlist: Any, xlist: Any, timeout: Any = None) -> Any:
        if timeout is None or _State.reader is None or _is_ours(sys._getframe(1)):
            return wait(rlist, wlist, xlist, timeout)
        end = _now() + timeout
        while True:
            found = wait(rlist, wlist, xlist, timeout)
            timeout = end - _now()
            if any(found) or timeout <= _RESOLUTION:
                return found

    module.select = select


def _socket(module: Any) -> None:
    """Lengthen reading from a file of a socket, as clients of HTTP do."""
    read = module.SocketIO.readinto

    def readinto(self: Any, b: Any) -> Any:
        limit = self._sock.gettimeout()
        if not limit or _State.reader is None:
            return read(self, b)
        end = _now() + limit
        while True:
            with contextlib.suppress(module.timeout):
                return read(self, b)
            if end - _now() <= _RESOLUTION:
                raise module.timeout("timed out")
            self._timeout_occurred = False

    module.SocketIO.readinto = readinto


#: What is changed in a module of the standard library, by its name.
_WAITS: Dict[str, Callable[[Any], None]] = {
    "threading": _threading,
    "concurrent.futures._base": _futures,
    "multiprocessing.synchronize": _multiprocessing,
    "select": _select,
    "socket": _socket,
}
