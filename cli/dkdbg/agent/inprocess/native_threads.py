"""Traces threads that `threading` does not know. Used by join.py.

They are made by `_thread`, or by C++, in which frameworks call the user's functions. Up to Python 3.11
pydevd traces only threads whose start it sees, so that a breakpoint in `backward` of an `autograd.Function`
never stopped on a GPU. From 3.12 on it sees what they call, but not a loop that began before the attach.
"""

# The frameworks and debugpy have no types here, and are only used where they are already loaded.
# ruff: noqa: ANN401
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import contextlib
import functools
import sys
import threading

from . import importing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

#: Module -> its functions that C++ calls, or that are the first of the framework's below it.
_CALLED = {
    "torch.autograd.function": ("BackwardCFunction.apply", "BackwardCFunction.apply_boxed"),
    "torch.distributed.rpc.internal": ("_run_function",),
    "tensorflow.python.ops.script_ops": ("FuncRegistry.__call__",),  # py_function, numpy_function
    "jax._src.callback": ("pure_callback_impl", "io_callback_impl"),
    "jax._src.debugging": ("debug_callback_p.impl",),
}


def watch() -> None:
    """Watch the frameworks, now or from their import on; from Python 3.12 on, all threads."""
    if sys.version_info >= (3, 12):
        _watch_running()
        return
    for module, paths in _CALLED.items():
        importing.after(module, functools.partial(_wrap, paths))


def _watch_running() -> None:
    from _pydevd_sys_monitoring import pydevd_sys_monitoring as monitoring

    enable, theirs = monitoring.enable_code_tracing, sys.modules["pydevd"].threading

    def enable_code_tracing(thread_ident: Any, code: Any, frame: Any) -> Any:
        """Trace the code of a running frame; the thread matters only if it is stepping."""
        known = thread_ident in theirs._active
        return enable(thread_ident if known else theirs.main_thread().ident, code, frame)

    monitoring.enable_code_tracing = enable_code_tracing


def _wrap(paths: Any, module: Any) -> None:
    for path in paths:
        *owners, name = path.split(".")
        owner = functools.reduce(getattr, owners, module)
        if hasattr(owner, name):  # another version of the framework may lack it
            setattr(owner, name, _traced(getattr(owner, name)))


def _traced(run: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(run)
    def run_traced(*args: Any, **named: Any) -> Any:
        if sys.gettrace() is None:
            threading.current_thread()  # pydevd skips threads that `threading` does not know
            with contextlib.suppress(Exception):  # the debugger has ended
                sys.modules["debugpy"].trace_this_thread(True)
        return run(*args, **named)

    return run_traced
