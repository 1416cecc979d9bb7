"""Handles a program that traces itself: coverage, the `trace` module, pdb. Used by join.py.

Up to Python 3.11 a thread has one trace function, and if the program sets one, that replaces pydevd's. dkdbg reports
this once, in one line instead of pydevd's ten, and even for a tracer written in C (coverage's), which pydevd does not
notice. When the other tracer is removed, the debugger's is restored. A tracer that was set before the debugger joins is
replaced, which is reported too.

From Python 3.12 on, both work side by side as tools of `sys.monitoring`. Only a tool with the debugger's tool ID
conflicts. pdb, which would raise an error (Python 3.14), gets another ID; another tool that took the ID before the
debugger is reported. pdb is made to step over the debugger's frames.

This costs nothing until the program asks for tracing: only the functions for that are replaced. A tracer in C is
detected when it registers for new threads; coverage's also when it sees a new file.
"""

# debugpy is untyped.
# ruff: noqa: ANN401
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import functools
import os
import sys
import threading

from .. import coverage_files, importing, session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Dict, List

_MESSAGE = (
    "%s traces the program itself: up to Python 3.11 only one tool at a time can do that, and no breakpoint stops "
    "while it does. Debug without it%s, or under Python 3.12 or newer"
)
_REPLACED = (
    "%s traced the program: up to Python 3.11 only one tool at a time can do that, and the debugger has taken its "
    "place. Its results lack what runs from now on"
)
_TAKEN = "%s has taken the debugger's tool ID in sys.monitoring: no breakpoint stops while it does. Debug without it"
#: Tool IDs that `sys.monitoring` does not reserve for a certain kind of tool.
_FREE_TOOLS = (3, 4)
#: Maximum characters of a tool's name in a message: a long line could fill a pipe at stderr, and block the program.
_MAX_CHARACTERS = 100
_COVERAGE = "coverage"
_HINTS = {_COVERAGE: " (pytest: --no-cov)"}
_DEBUGGER = ("pydevd", "_pydev", "_dkdbg")
_INSTALLED = (os.path.dirname(os.__file__) + os.sep, "/site-packages/", "/dist-packages/")
#: State of each thread. `is_foreign`: whether the trace function that was set last is another tool's.
_thread = threading.local()
_reported: List[str] = []
#: Identifier of a thread -> name of the other tool that traces it.
_foreign: Dict[int, str] = {}
#: Names of the tools whose trace functions the debugger has replaced.
_replaced: List[str] = []


def watch() -> None:
    """Check each trace function that is set from now on. Call this before pydevd replaces `sys.settrace`."""
    importing.after("bdb", _adapt_pdb)
    coverage_files.watch()
    if sys.version_info >= (3, 12):
        _untrace_pydevds_threads()
        return
    import pydevd_tracing

    coverage_files.meets_file = _meets_file
    replace()
    holder, set_bare, set_for_threads = pydevd_tracing.TracingFunctionHolder, sys.settrace, threading.settrace

    def set_trace(function: Any) -> None:
        frame = sys._getframe(1)
        if function is None and frame.f_globals.get("__name__") == "gevent.threadpool":
            return  # as pydevd's replacement does: gevent's thread pool turns tracing off in its threads
        true = holder._original_tracing or set_bare
        if function is None:
            true(None)
            _check(frame, None)
        else:
            _check(frame, function)
            true(function)  # last, because pdb would stop in a call after this

    def set_trace_for_threads(func: Any) -> None:
        set_for_threads(func)
        _check(sys._getframe(1), sys.gettrace())

    pydevd_tracing._internal_set_trace = set_trace
    threading.settrace = set_trace_for_threads


def _untrace_pydevds_threads() -> None:
    """Remove the program's tracers of all threads from pydevd's; from 3.12 on, pydevd itself removes only its own."""
    from _pydevd_bundle.pydevd_daemon_thread import PyDBDaemonThread

    true = PyDBDaemonThread._stop_trace

    def stop_trace(self: Any) -> None:
        session.untrace()
        true(self)

    PyDBDaemonThread._stop_trace = stop_trace


def _adapt_pdb(bdb: Any) -> None:
    """Make pdb, and other tools built on bdb, work as they do without a debugger."""
    true = bdb.Bdb.stop_here

    def stop_here(self: Any, frame: FrameType) -> Any:
        # For example in the capture of `print` (output.py).
        is_debuggers_frame = str(frame.f_globals.get("__name__")).startswith(_DEBUGGER)
        return not is_debuggers_frame and true(self, frame)

    bdb.Bdb.stop_here = stop_here
    if hasattr(bdb, "_MonitoringTracer"):
        _move_pdb(bdb)


def _move_pdb(bdb: Any) -> None:
    """Give pdb a free tool ID if another tool has its usual one, instead of an error."""
    true, monitoring = bdb._MonitoringTracer.start_trace, sys.monitoring  # type: ignore[attr-defined]

    def start_trace(self: Any, *args: Any) -> None:
        own = (None, self._name)
        if monitoring.get_tool(self._tool_id) not in own:
            free = [each for each in _FREE_TOOLS if monitoring.get_tool(each) in own]
            self._tool_id = free[0] if free else self._tool_id
        true(self, *args)

    bdb._MonitoringTracer.start_trace = start_trace


def replace() -> None:
    """Record the tool that traces the program, just before the debugger replaces it."""
    functions = [vars(sys.modules["threading"]).get("_trace_hook")]
    for frame in list(sys._current_frames().values()):
        while frame is not None:
            functions.append(frame.f_trace)
            frame = frame.f_back  # type: ignore[assignment] # noqa: PLW2901
    found = next(filter(None, map(_package_of, functions)), "")
    if found or coverage_files.measures():  # coverage may trace the main thread alone
        _replaced.append(
            {"": _COVERAGE, "bdb": "pdb", "__main__": "a trace function of its own"}.get(found, found)
        )


def _package_of(function: Any) -> str:
    """Return the package of another tool's trace function; empty for None, for the debugger's, and after an error."""
    try:
        if function is None or is_debuggers(function):
            return ""
        return str(getattr(function, "__module__", None) or type(function).__module__).partition(".")[0]
    except Exception:
        return ""


def _meets_file() -> None:
    """Report coverage as the tool that traces this thread: it has just seen a new file here."""
    if _package_of(sys.gettrace()) and not _is_debuggers_thread(sys._getframe()):
        _set_foreign(_COVERAGE)


def report() -> None:
    """After the join, report a tool that has the debugger's tool ID, or that the debugger has replaced."""
    if sys.version_info >= (3, 12) and (tool := tracer()):
        _warn(tool, _TAKEN % tool)
    for tool in _replaced:
        _warn(tool, _REPLACED % tool)


def _check(frame: FrameType, function: Any) -> None:
    """Check the trace function that a frame sets in this thread; `function` is None if it removes the former one."""
    try:
        if _is_debuggers_thread(frame) or str(frame.f_globals.get("__name__")).startswith(_DEBUGGER):
            return  # a thread of the debugger's starts with the tool's function, and removes it
        was_foreign = getattr(_thread, "is_foreign", False)
        _thread.is_foreign = function is not None and not is_debuggers(function)
        if _thread.is_foreign:
            _set_foreign(_name(frame))
        else:
            _foreign.pop(threading.get_ident(), None)
            if was_foreign and function is None:
                _give_back(frame)
    except Exception as error:  # an error would be raised in the program
        if os.environ.get("DKDBG_DEBUG"):
            session.say("own tracer: %r" % (error,))


def _set_foreign(name: str) -> None:
    _thread.is_foreign = True
    _foreign[threading.get_ident()] = name
    _warn(name, _MESSAGE % (name, _HINTS.get(name, "")))


def _is_debuggers_thread(frame: FrameType) -> bool:
    """Return whether pydevd has started this thread.

    Do not use `threading.current_thread()`: in a greenlet it would create a dummy `Thread`. gevent would then think
    that several threads share its lock, and no breakpoint would stop.
    """
    while frame.f_back is not None:
        frame = frame.f_back
    return frame.f_globals is vars(threading) and hasattr(
        frame.f_locals.get("self"), "is_pydev_daemon_thread"
    )


def is_debuggers(function: Any) -> bool:
    """Return whether a trace function is the debugger's."""
    if isinstance(function, functools.partial):
        function = function.func
    module = getattr(function, "__module__", None) or type(function).__module__
    return str(module).startswith(_DEBUGGER)


def tracer() -> str:
    """Return the name of another tool that currently traces in place of the debugger; empty without one."""
    if sys.version_info >= (3, 12):
        tool = sys.monitoring.get_tool(sys.monitoring.DEBUGGER_ID) or ""
        return {"pydevd": "", "bdbtracer": "pdb"}.get(tool, tool)[:_MAX_CHARACTERS]
    # Keep no reference to the frames: this function's own is among them, and the cycle would keep all locals alive.
    found = [name for ident, name in list(_foreign.items()) if ident in sys._current_frames()]
    return next((name for name in found if name != _COVERAGE or coverage_files.measures()), "")


def _warn(who: str, message: str) -> None:
    debugger = session.debugger()
    if debugger is not None and not _reported:
        _reported.append(who)
        session.tell(debugger, message)


def _name(frame: FrameType) -> str:
    path = frame.f_code.co_filename
    if any(part in path for part in _INSTALLED):
        module = getattr(frame.f_globals.get("__spec__"), "name", None) or frame.f_globals.get("__name__")
        package = str(module).partition(".")[0]
        return {"bdb": "pdb"}.get(package, package)
    return "%s:%d" % (os.path.basename(path), frame.f_lineno)


def _give_back(frame: FrameType) -> None:
    debugger = session.debugger()
    if debugger is not None and not debugger.pydb_disposed:
        debugger.enable_tracing(debugger.trace_dispatch)
        # Frames that are running have no trace function of their own yet: without one they would not stop until their
        # end.
        debugger.set_trace_for_frame_and_parents(threading.get_ident(), frame)
