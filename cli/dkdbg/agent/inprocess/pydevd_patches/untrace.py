"""Gives a process its full speed back while no editor is attached. Used by join.py.

Up to Python 3.11, pydevd traces every thread from the join on, even after the editor has left: loops are then 2 times
slower, and calls 9 times. This module removes the trace functions of all threads when the editor leaves, and restores
them at the next editor's configurationDone. It leaves the trace functions of another tool, such as coverage, that
traces in place of the debugger. From Python 3.12 on, pydevd uses sys.monitoring, which costs nothing without
breakpoints.
"""

# debugpy is untyped.
# ruff: noqa: ANN401
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import collections
import ctypes
import itertools
import os
import sys

from .. import session
from ..natives import threading
from . import own_tracer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_lock = threading.Lock()
#: True while the trace functions are removed.
_is_bare = False
#: The trace function of `threading` for new threads, before it was removed.
_hook: Any = None


def watch() -> None:
    """Remove and restore the trace functions from now on, as editors leave and attach."""
    if sys.version_info >= (3, 12):
        return
    import pydevd
    from _pydevd_bundle.pydevd_api import PyDevdAPI

    debugger_class = pydevd.PyDB
    disconnect, dispose = debugger_class.on_disconnect, debugger_class.dispose_and_kill_all_pydevd_threads
    enable, run = debugger_class.enable_tracing, PyDevdAPI.run

    def on_disconnect(self: Any) -> None:
        disconnect(self)
        _quietly(_take)

    def dispose_and_kill_all_pydevd_threads(self: Any, *args: Any, **kwargs: Any) -> None:
        dispose(self, *args, **kwargs)  # the adapter is gone
        _quietly(_take)

    def enable_tracing(self: Any, *args: Any, **kwargs: Any) -> None:
        global _is_bare  # noqa: PLW0603
        if kwargs.get("apply_to_all_threads"):  # this process joins again
            _is_bare = False
        if not _is_bare:  # a new thread is not traced until an editor attaches
            enable(self, *args, **kwargs)

    def run_and_trace(self: Any, debugger: Any) -> Any:
        _quietly(lambda: _give_back(debugger))
        return run(self, debugger)

    _trace_without_more_threads()
    debugger_class.on_disconnect = on_disconnect
    debugger_class.dispose_and_kill_all_pydevd_threads = dispose_and_kill_all_pydevd_threads
    debugger_class.enable_tracing = enable_tracing
    PyDevdAPI.run = run_and_trace


def _trace_without_more_threads() -> None:
    """Fall back to sys.settrace if no thread can be started (`ulimit -u`, pids.max).

    pydevd starts a thread whenever it sets trace functions; the error would end the thread of the program that does so.
    """
    import pydevd_tracing

    trace = pydevd_tracing.set_trace_to_threads

    def set_trace_to_threads(*args: Any, **kwargs: Any) -> int:
        try:
            return int(trace(*args, **kwargs))
        except RuntimeError as error:
            if "start new thread" not in str(error):
                raise
            return -1

    pydevd_tracing.set_trace_to_threads = set_trace_to_threads


def _take() -> None:
    """Remove the trace function from every thread that runs Python, and from new ones."""
    global _is_bare, _hook  # noqa: PLW0603
    with _lock:
        import pydevd_tracing

        pydevd_tracing.restore_sys_set_trace_func()  # pydevd's replacement prints a warning if pdb calls sys.settrace
        if own_tracer.tracer():
            return
        if not _is_bare:
            _hook = getattr(threading, "_trace_hook", None)
            threading.settrace(None)
        _is_bare = True
        api = ctypes.PyDLL(None)
        if hasattr(api, "_PyEval_SetTrace"):  # Python 3.9
            _for_every_thread(api)
        else:
            _in_main_thread(lambda: sys.settrace(None))


def _give_back(debugger: Any) -> None:
    """Trace every thread again, as pydevd does when it joins."""
    global _is_bare  # noqa: PLW0603
    with _lock:
        if not _is_bare:
            return
        _is_bare = False
        own_tracer.replace()
        threading.settrace(_hook)
        import pydevd_tracing

        pydevd_tracing.replace_sys_set_trace_func()
        if pydevd_tracing._load_python_helper_lib() is not None:
            pydevd_tracing.set_trace_to_threads(debugger.trace_dispatch)
        else:
            trace_main_thread(debugger)
        # A frame entered while tracing was off has no trace function of its own, and would run to its end without
        # a stop.
        debugger.set_tracing_for_untraced_contexts()


def trace_main_thread(debugger: Any) -> None:
    """Make the main thread of a running program trace itself, if pydevd's library for tracing others is missing.

    Other running threads stay untraced; threads that start later are traced.
    """
    _in_main_thread(lambda: debugger.enable_tracing(debugger.trace_dispatch))


def _for_every_thread(api: Any) -> None:
    """Call `_PyEval_SetTrace(state, NULL, NULL)` for every thread state.

    This function accepts the states of other threads. Walk the states only with iterators written in C: in a Python
    loop, another thread could run and end between two bytecodes, and its state would be freed.
    """
    interpreter, first, following = (
        api.PyInterpreterState_Get,
        api.PyInterpreterState_ThreadHead,
        api.PyThreadState_Next,
    )
    for function in (interpreter, first, following):
        function.restype = ctypes.c_void_p
    first.argtypes = [ctypes.c_void_p]
    # accumulate() passes two arguments; the C function ignores the second.
    following.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
    ]
    api._PyEval_SetTrace.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    nothing = itertools.repeat(None)
    chain = itertools.chain(map(first, (interpreter(),)), nothing)
    states = itertools.takewhile(bool, itertools.accumulate(chain, following))
    collections.deque(map(api._PyEval_SetTrace, states, nothing, nothing), maxlen=0)


def _in_main_thread(work: Callable[[], Any]) -> None:
    """Run a function in the main thread at its next bytecode, unless the thread has ended."""
    if threading.main_thread().is_alive():  # not while Python is shutting down: 3.8 would print a SystemError
        session.in_main_thread(lambda: _quietly(work))


def _quietly(work: Callable[[], Any]) -> None:
    try:
        work()
    except Exception as error:  # the user's program continues, slower
        if os.environ.get("DKDBG_DEBUG"):
            sys.stderr.write("dkdbg: trace functions: %r\n" % (error,))
