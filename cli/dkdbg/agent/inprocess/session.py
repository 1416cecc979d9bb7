"""Helpers that other modules share: the session's files, this process's debugger and threads, messages to the user."""

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
#: Threads of `start_hidden`, referenced until they have ended. Otherwise a thread would itself drop the last reference
#: to its `Thread`, after `threading` has forgotten it; pydevd's weak-reference callbacks would then create a dummy
#: `Thread` for it, which Python 3.13 reports at exit.
_hidden: List[Any] = []


def monotonic() -> float:
    """Return the system's monotonic seconds: a test may freeze `time.monotonic`, and dkdbg stops it (clocks.py)."""
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
    """Return the hook's object for this process as a member of the session; None if the hook has not run here."""
    for finder in reversed(sys.meta_path):
        if type(finder).__name__ == "_DkdbgFinder":
            found: Optional[Member] = getattr(finder, "member", None)
            return found
    return None


def debugger() -> Any:
    """Return pydevd's debugger in this process, whether it belongs to dkdbg or not; None without one."""
    return getattr(sys.modules.get("pydevd"), "get_global_debugger", lambda: None)()


def is_joined() -> bool:
    """Tell whether this process's debugger has joined the agent's adapter; False for the program's own debugger."""
    return getattr(debugger(), "dkdbg_joined", False)


def threads() -> Any:
    """Return the `threading` that pydevd uses, which is a copy if the program uses gevent.

    Threads of dkdbg must be unknown to the program's own `threading`: if that knew a second thread,
    `gevent.monkey.patch_all()` would not patch the locks of imports in progress, and these would fail.
    """
    import threading

    return getattr(sys.modules.get("pydevd"), "threading", threading)


def untrace() -> None:
    """Remove the program's own tracers (such as `python -m trace`) from this thread, which is the debugger's."""
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

    It calls no Python function (see untraced.py), and its `stat` is not one that a test of the program has replaced.
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
    """Print a line on stderr, and in the editor's console unless that shows the program's stderr.

    Args:
        debugger: pydevd's debugger, with an editor.
    """
    say(text)
    from . import output

    if not output.is_shown():
        debugger.writer.add_command(debugger.cmd_factory.make_console_message("dkdbg: %s\n" % text))
