"""Makes the clocks of the `time` module fall behind while a process of the job is stopped; see clocks.py.

A program has references to these functions in many places: under names of its own, as default arguments, in objects
and closures. So the function objects are kept, and their C function is exchanged for `PyObject_CallObject`, with a
`_Clock` as its first argument. Exceptions propagate as from any call, even those of a signal handler.
"""

# The modules are the program's, and functions of all signatures are replaced.
# ruff: noqa: ANN401

from __future__ import annotations

import _thread
import functools
import sys
import time
import types

from .. import importing, session
from . import held_time
from .untraced import Suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Set

#: Attribute that marks a heartbeat thread, which keeps the true clocks; see clocks.py.
IS_HEARTBEAT = "dkdbg_beats"
_NAMES = ("monotonic", "perf_counter", "time")
#: Prefixes of modules that keep the true clocks.
_DEBUGGER_MODULES = ("_dkdbg", "dkdbg.agent", "debugpy", "pydevd", "_pydevd_", "_pydev_")
#: Modules that keep the true clocks because they pass absolute deadlines to C: gRPC would end each call at once if its
#: deadline were computed from a clock that is behind.
_ABSOLUTE = ("grpc._channel", "grpc._server", "grpc.aio._utils")
#: Modules that wait on behalf of their caller: whether they keep the true clocks depends on that caller.
_BETWEEN = ("threading", "queue", "selectors", "socket", "ssl", __name__.rpartition(".")[0] + ".waits")
#: Seconds by which a clock has to jump relative to the system's monotonic clock to count as set by an operator.
_SET_S = 1.0
#: Seconds between two checks for an attached editor while the clocks are right.
_LOOKS_S = 1.0


class State:
    """Changes made to this process. Times are in monotonic seconds.

    Attributes:
        directory: the session's folder. reader: reader of the agent's file (held_time.py), None unless an editor is
            attached or the clocks are behind. looks_at: time of the next check for the editor. lengthened: whether
            waits.py has changed the waits.
        replaced: whether the clocks were replaced, as far as possible. stopping: the clocks that were replaced; empty
            if another library has replaced all of them.
        stopped: identifiers of the threads that the debugger has stopped.
        resumed_at: when this process last continued after a stop of its own; 0 once the agent's file shows that.
        lead: seconds of stops for which this process's clocks are not behind: those before its clocks were replaced,
            and those in which it already ran again while the agent's file did not show that.
        right_until: time until which the clocks count as right without another check.
    """

    directory = ""
    reader: Optional[held_time.Reader] = None
    looks_at = 0.0
    replaced = False
    stopping: List[_Clock] = []  # noqa: RUF012
    stopped: Set[int] = set()  # noqa: RUF012
    lengthened = False
    resumed_at = 0.0
    lead = 0.0
    right_until = 0.0


class Builtin:
    """Base class of replacements of a C function, `true`; subclasses define `__call__`.

    As a class attribute it does not become a method, and it is pickled by its name, both like a C function.
    """

    def __init__(self, true: Any, module: str) -> None:
        self.true = true
        self.__name__ = self.__qualname__ = true.__name__
        self.__module__, self.__doc__ = module, true.__doc__
        self.__annotations__: Dict[str, Any] = {}  # C functions have no annotations
        self.__text_signature__ = getattr(true, "__text_signature__", None)

    def __reduce__(self) -> Any:
        module = sys.modules[self.__module__]
        return (
            self.__name__
            if getattr(module, self.__name__, None) is self
            else (functools.partial, (self.true,))
        )


class _Clock(types.ModuleType):
    """A clock that stops with the program. It never goes back, and advances whenever the true one does.

    While it is the first argument (`__self__`) of the C function of `time.time` or another clock, that calls it. It is
    a module, because pickle recognises a module's function by its `__self__`. When the true clock is set, as the wall
    clock by an operator, it shows the new time.
    """

    def __init__(self, function: Any, lost: float) -> None:
        super().__init__("time")
        self.true, self.change, self.undo = _changing(function, self)
        self._is_whole = function.__name__.endswith("_ns")
        #: Smallest step of this clock; for a float, more than the distance of two floats at its usual value.
        self._tick: Any = 1 if self._is_whole else 1e-6 if function.__name__ == "time" else 1e-9
        self._true = self.true()
        self._set_at = self._ahead(self._true)
        self._last = self._less(self._true, lost)
        self._asking: Set[int] = set()

    def __reduce__(self) -> Any:
        return __import__, ("time",)

    def _ahead(self, true: Any) -> float:
        """Return the seconds by which a true time is ahead of the monotonic clock, which cannot be set."""
        return float(true) / (1e9 if self._is_whole else 1.0) - session.monotonic()

    def _less(self, true: Any, seconds: float) -> Any:
        return true - (int(seconds * 1e9) if self._is_whole else seconds)

    def __call__(self) -> Any:
        true = self.true()
        if State is None:  # the interpreter is shutting down, and has cleared this module
            return true
        ident = _thread.get_ident()
        if ident in self._asking:  # the program's audit hook, run by `keeps_true_clocks`, reads the time
            return true
        try:
            self._asking.add(ident)
            behind = seconds_behind()
            is_right = behind == 0.0 and true >= self._last
            if (not is_right and keeps_true_clocks()) or abs(self._ahead(true) - self._set_at) > _SET_S:
                return true
        finally:
            self._asking.discard(ident)
        if is_right:  # according to a check of the last few milliseconds
            self._last = self._true = true
            return true
        found = self._less(true, behind)
        if true != self._true:
            self._true, self._last = true, max(found, self._last + self._tick)
        return self._last


def behind() -> float:
    """Return how far the clocks are behind, in seconds."""
    reader, now = State.reader, session.monotonic()
    if reader is None or now < State.right_until:
        return 0.0
    amount, since, rate, until = reader.state()
    if 0.0 < State.resumed_at < since or rate == 0.0:  # the agent's file shows that this process runs
        if State.resumed_at and since > State.resumed_at:
            State.lead += min(since - State.resumed_at, held_time.LEASE_S) * (1.0 + held_time.CATCH_UP)
        State.resumed_at = 0.0
    elif State.resumed_at:
        until = min(until, State.resumed_at)
    found = held_time.seconds_behind((amount, since, rate, until), now)
    if found == 0.0:
        State.lead, State.right_until = 0.0, now + held_time.FRESH_S
    return max(0.0, found - State.lead)


def seconds_behind() -> float:
    """Return how many seconds the clocks are behind; if that is 0 and the editor has left, restore the true clocks."""
    found = behind()
    if found == 0.0 and State.reader is not None and session.monotonic() >= State.looks_at:
        State.looks_at = session.monotonic() + _LOOKS_S
        if not session.editor_is_attached(State.directory):
            restore()
    return found


def _changing(function: Any, clock: _Clock) -> Any:
    """Return three functions: the true clock, one that makes `function` call `clock`, and one that undoes this.

    See `PyCFunctionObject` in CPython's methodobject.h: the object's head is followed by a pointer to the definition
    (PyMethodDef) and one to the first argument (`__self__`). Change these pointers, not the definition, which other
    interpreters of the process use too.

    Raises:
        ValueError: `function` does not have this layout.
    """
    import ctypes

    class Definition(ctypes.Structure):
        _fields_ = [
            ("name", ctypes.c_char_p), ("call", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
        ]  # fmt: skip

    api, size = ctypes.pythonapi, ctypes.sizeof(ctypes.c_void_p)
    fields = [ctypes.c_void_p.from_address(id(function) + object.__basicsize__ + at) for at in (0, size)]
    definition, module = (each.value for each in fields)
    found = Definition.from_address(definition or 0)
    takes_nothing = 4  # METH_NOARGS
    if (module, found.name, found.flags) != (id(time), function.__name__.encode(), takes_nothing):
        raise ValueError(function)
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    true = make(("PyCFunction_NewEx", api))(definition, time, None)
    call = ctypes.cast(api.PyObject_CallObject, ctypes.c_void_p).value
    replacement = Definition(found.name, call, takes_nothing, found.doc)
    incref = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", api))
    incref(clock)  # never freed: other threads may call it at any time, even at the interpreter's end
    incref(replacement)

    def change() -> None:  # in this order: the true C function ignores its argument, ours does not
        fields[1].value = id(clock)
        fields[0].value = ctypes.addressof(replacement)

    def undo() -> None:
        fields[0].value = definition
        fields[1].value = module

    return true, change, undo


def replace(*, at_start: bool = False) -> None:
    """Make the clocks of `time` fall behind, wherever the program keeps a reference to them.

    They start from the true time. Only before the program's start (`at_start`) they start behind it, like its parent's,
    which may pass it times from its clocks. time_machine changes the C functions too, and would take the changed ones
    for the true ones, so restore the clocks when it is imported.
    """
    if State.stopping:
        return
    State.replaced = True
    if "_time_machine" in sys.modules:
        return
    lost = behind()
    if not at_start:
        State.lead, lost = State.lead + lost, 0.0
    for full in (name + end for name in _NAMES for end in ("", "_ns")):
        function = getattr(time, full)
        if isinstance(function, types.BuiltinFunctionType):  # otherwise another library has replaced it
            with Suppress(Exception):  # a Python without ctypes, or not CPython
                State.stopping.append(_Clock(function, lost))
    for clock in State.stopping:
        clock.change()
    importing.after("_time_machine", restore)


def restore(_: object = None) -> None:
    """Restore the true clocks. Print nothing: this may run in any thread of the program, while it reads the time."""
    State.reader, State.replaced = None, False
    stopping, State.stopping = State.stopping, []
    for clock in stopping:
        clock.undo()


def exchange(functions: Dict[Any, Any]) -> None:
    """Replace functions by others (the dict's values) in the namespaces of all modules but the debugger's."""
    kinds = set(map(type, functions))
    for name, module in list(sys.modules.items()):
        if name.startswith(_DEBUGGER_MODULES):
            continue
        for key, value in list(session.namespace(module).items()):
            if type(value) in kinds and value in functions:
                with Suppress(Exception):  # an immutable module
                    setattr(module, key, functions[value])


def keeps_true_clocks() -> bool:
    """Tell whether the caller keeps the true clocks: the debugger, dkdbg, a heartbeat thread, gRPC, a stopped thread.

    The caller may call through the standard library's waits. A stopped thread runs code that the editor evaluates.
    """
    ident = _thread.get_ident()
    active = getattr(sys.modules.get("threading"), "_active", {})
    if ident in State.stopped or hasattr(active.get(ident), IS_HEARTBEAT):
        return True
    caller = sys._getframe(1).f_back  # None if C is the caller: a callback of atexit, the start of a thread
    name = ""
    while caller is not None:
        name = str(caller.f_globals.get("__name__", ""))
        if name not in _BETWEEN or caller.f_code.co_name == "_bootstrap":  # called by pydevd for each thread
            break
        caller = caller.f_back
    return name.startswith(_DEBUGGER_MODULES) or name in _ABSOLUTE
