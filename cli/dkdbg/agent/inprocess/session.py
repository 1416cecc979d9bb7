"""Helpers for this process: its membership of the session, its debugger and threads, and messages on stderr."""

# debugpy is untyped.
# ruff: noqa: ANN401

from __future__ import annotations

import os
import sys
import time
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

    from .hook.sitecustomize import _Member as Member

#: C callbacks that must not be garbage-collected.
_kept: List[object] = []
#: Hidden threads, referenced until they have ended. A thread that holds the last reference to its own `Thread` clears
#: the weak references to that after `threading` has forgotten the thread. pydevd would create a dummy for it, which
#: Python 3.13 reports at exit.
_hidden: List[Any] = []


def monotonic() -> float:
    """Return the system's monotonic seconds: a test may freeze `time.monotonic`, and dkdbg slows it during a stop."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def namespace(module: object) -> Dict[str, Any]:
    """Return a module's namespace, without importing a lazy module; empty for any other kind of object."""
    try:
        if isinstance(module, types.ModuleType):
            found: Dict[str, Any] = vars(types.ModuleType)["__dict__"].__get__(module)
        else:
            found = object.__getattribute__(module, "__dict__")
        return found
    except Exception:
        return {}


def member() -> Optional[Member]:
    """Return this process as a member of the session, which the hook has created; None where the hook did not run."""
    for finder in reversed(sys.meta_path):
        if type(finder).__name__ == "_DkdbgFinder":
            found: Optional[Member] = getattr(finder, "member", None)
            return found
    return None


def debugger() -> Any:
    """Return pydevd's debugger in this process, dkdbg's or another; None without one."""
    return getattr(sys.modules.get("pydevd"), "get_global_debugger", lambda: None)()


def is_joined() -> bool:
    """Tell whether this process's debugger has joined the agent's adapter; False for the program's own debugger."""
    return getattr(debugger(), "dkdbg_joined", False)


def threads() -> Any:
    """Return the module through which pydevd knows threads: a copy where the program uses gevent.

    If the program's own `threading` knew a second thread, `gevent.monkey.patch_all()` would not patch the locks of the
    imports in progress, and these would fail.
    """
    import threading

    return getattr(sys.modules.get("pydevd"), "threading", threading)


def untrace() -> None:
    """Take this thread, a debugger's, from the program's own tracers of all threads, such as `python -m trace`."""
    if sys.gettrace() is not None:
        holder = getattr(sys.modules.get("pydevd_tracing"), "TracingFunctionHolder", None)
        (getattr(holder, "_original_tracing", None) or sys.settrace)(None)
    if sys.getprofile() is not None:
        sys.setprofile(None)


def start_hidden(target: Callable[[], object], name: str) -> None:
    """Start a thread that `threading` knows, marked so that pydevd and the program's own tracers ignore it."""

    def run() -> None:
        untrace()
        target()

    thread: Any = threads().Thread(target=run, name=name, daemon=True)
    thread.pydev_do_not_trace = thread.is_pydev_daemon_thread = True
    thread.start()
    _hidden[:] = [each for each in _hidden if each.is_alive()] + [thread]


def in_main_thread(work: Callable[[], object]) -> None:
    """Run a function, which raises nothing, in the main thread at its next bytecode."""
    import ctypes

    def call(_: object) -> int:
        work()
        return 0

    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(call)
    _kept.append(callback)
    ctypes.pythonapi.Py_AddPendingCall(callback, None)


def record(directory: str) -> Dict[str, Any]:
    """Return the agent's record in the session's folder, empty when it cannot be read."""
    import json

    try:
        with open(os.path.join(directory, "session.json")) as source:
            found: Dict[str, Any] = json.load(source)
            return found
    except (OSError, ValueError):
        return {}


def editor_is_attached(directory: str, stat: Callable[[str], object] = os.stat) -> bool:
    """Tell whether an editor is attached to the session with this folder.

    It calls no Python function (see untraced.py), and none that a test of the program has replaced.
    """
    try:
        stat(directory + "/join.json")
    except OSError:
        return False
    return True


def endpoint(directory: str) -> str:
    """Return the address for an editor, `host:port`."""
    found = record(directory)
    return "%s:%s" % (found.get("host", "127.0.0.1"), found.get("port", "?"))


def say(text: str) -> None:
    """Print a line on stderr: stdout is the program's."""
    try:
        sys.stderr.write("dkdbg: %s\n" % text)
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass


def tell(debugger: Any, text: str) -> None:
    """Print a line on stderr and in the editor's console; only once if the console shows the program's output.

    Args:
        debugger: pydevd's, which has an editor.
    """
    say(text)
    from . import output

    if not output.is_shown():
        debugger.writer.add_command(debugger.cmd_factory.make_console_message("dkdbg: %s\n" % text))
