"""Joins a Python process to the adapter. The hook loads this module only when an editor is attached.

It imports debugpy into the user's process and connects it to the adapter as a child of the root session stub.
It never hangs: an editor that ignores child sessions costs a starting program at most JoinInfo.deadline
seconds.
"""

# debugpy is untyped.
# ruff: noqa: ANN401
# mypy: disable-error-code="no-untyped-call, import-not-found"

from __future__ import annotations

import _thread
import contextlib
import json
import os
import sys
import time

from . import session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional

#: Limits on open files: below the first a process is not debugged, the second is recommended.
MIN_OPEN_FILES, RECOMMENDED_OPEN_FILES = 16, 64
#: Suffix of the file with which the agent reports that no editor will configure a process's session.
NO_EDITOR_SUFFIX = ".no-editor"
#: Answer of a process that finds no `join.json`.
NO_EDITOR = "no editor is attached"
#: Held while this process joins. gevent replaces every other kind of lock.
_lock = _thread.RLock()
_joining = False


def join(session_dir: str, at_start: bool) -> str:
    """Connect this process to the adapter, unless it is connected.

    Called on the main thread before the program's first line, on the hook's thread, and by a breakpoint in
    the code.

    Args:
        session_dir: the session's folder.
        at_start: wait until the editor has set its breakpoints, so that the program's first line can stop.
            In a running program this is False: return at once, and the breakpoints arrive later.

    Returns:
        One line: `joined`, `already joined`, or why not.
    """
    global _joining  # noqa: PLW0603
    with _lock:
        # The import of debugpy may run code of the program on this thread, which may call breakpoint().
        if _joining:
            return "not joined: another call is already joining it"
        _joining = True
        try:
            return _join(session_dir, at_start)
        except Exception as error:  # the user's program continues after any error of debugpy
            raised = "; raise the limit on threads (pids_limit, ulimit -u)" * (
                "start new thread" in str(error)
            )
            return "not joined: %s: %s%s" % (type(error).__name__, error, raised)
        finally:
            _joining = False


def load(session_dir: str, main_ident: int) -> None:
    """Import debugpy on this thread, if an editor is attached; do nothing where `join` would report a conflict.

    debugpy's copy of `threading` takes the importing thread for the main thread, and pydevd ends the session when that
    thread ends. So make the program's main thread the copy's.
    """
    with _lock, contextlib.suppress(Exception):
        info = _info(session_dir)
        if info is not None and not _why_not_this_debugpy():
            module = _import_debugpy(info, False).threading
            main: Any = module._main_thread
            if main.ident != main_ident and module is not sys.modules.get("threading"):
                del module._active[main.ident]
                main._ident, main.is_alive = main_ident, lambda: True
                module._active[main_ident] = main


def forget() -> None:
    """Drop the copied debugger in a forked child. Its threads and its connection stayed in the parent."""
    global _lock, _joining
    _lock, _joining = _thread.RLock(), False
    debugger = session.debugger()
    if debugger is None:
        return
    from .pydevd_patches import connection, own_tracer

    connection.drop(debugger)
    from _pydev_bundle import pydev_monkey
    from _pydevd_bundle import pydevd_constants

    # Do what pydevd's own patched fork does in a child that it will not trace.
    pydev_monkey._on_forked_process(setup_tracing=False)
    sys.modules["pydevd"].SetupHolder.setup = None
    if own_tracer.is_debuggers(sys.gettrace()):
        sys.settrace(None)
    if getattr(pydevd_constants, "PYDEVD_USE_SYS_MONITORING", False):
        from _pydevd_sys_monitoring import pydevd_sys_monitoring

        pydevd_sys_monitoring.stop_monitoring(all_threads=True)


def until_configured(session_dir: str) -> str:
    """Wait until an editor has configured its session of this joined process; return why it has not, or "".

    Wait at most `DKDBG_JOIN_DEADLINE` seconds, as a starting process does.
    """
    import pydevd

    info = _info(session_dir)
    limit = float(info["deadline"]) if info is not None else 0.0
    no_editor, end = "%s/p/%d%s" % (session_dir, os.getpid(), NO_EDITOR_SUFFIX), session.monotonic() + limit
    while not pydevd._is_attached():
        if session.monotonic() > end or os.path.exists(no_editor):
            return "the editor opened no session for this process within %g s" % limit
        time.sleep(0.01)
    return ""


def _info(session_dir: str) -> Optional[Dict[str, Any]]:
    """Return the adapter's data for joining (see JoinInfo in contract.py); None without an editor."""
    try:
        with open(os.path.join(session_dir, "join.json")) as source:
            found: Dict[str, Any] = json.load(source)
            return found
    except (OSError, ValueError):
        return None


def _join(session_dir: str, at_start: bool) -> str:
    info = _info(session_dir)
    if info is None:
        return NO_EDITOR
    from .clocks import clocks

    clocks.follow(session_dir, at_start=at_start)  # first: after the join an editor can stop this process
    with contextlib.suppress(PermissionError):  # the agent is root's, and the program another user's
        os.kill(info["ppid"], 0)  # an agent that was killed leaves its file behind
    if _has_pdb(session_dir):
        return "not joined: a pdb client is attached to this process"
    from .pydevd_patches import greenlets

    reason = greenlets.why_not() or _why_not_this_debugpy() or _what_is_too_little()
    if reason:
        return "not joined: " + reason
    pydevd = _import_debugpy(info, at_start)
    if pydevd.get_global_debugger() is not None:
        if session.is_joined():
            return "already joined"
        from .pydevd_patches import listening

        return "not joined: " + listening.describe_debugger()
    from .pydevd_patches import shutdown

    if shutdown.program_has_ended():
        return "the program has ended"
    if reason := _what_is_missing():
        return "not joined: " + reason
    from . import last_stack, missed_code
    from .natives import threading
    from .pydevd_patches import uncaught, untrace

    if not hasattr(pydevd.PyDB, "dkdbg_is_patched"):  # once per process
        pydevd.PyDB.dkdbg_is_patched = True
        _patch(session_dir)
        _watch_configuration()
        missed_code.watch()
    configured = pydevd.PyDB.dkdbg_configured = threading.Event()
    helper_fits = _prepare_helper()
    _forget_former_stops()
    own = "%s/p/%d" % (session_dir, os.getpid())
    last_stack.enable(own + last_stack.SUFFIX)
    with contextlib.suppress(OSError):  # left by this process's previous program, before an exec
        os.unlink(own + NO_EDITOR_SUFFIX)
    _connect(pydevd, info)
    if at_start:
        if sys.version_info < (3, 12):
            uncaught.show_from_start(pydevd.get_global_debugger())
        return _wait_for_breakpoints(own + NO_EDITOR_SUFFIX, configured, pydevd, info["deadline"])
    if not helper_fits:
        untrace.trace_main_thread(pydevd.get_global_debugger())
    return "joined"


def _connect(pydevd: Any, info: Dict[str, Any]) -> None:
    """Connect to the adapter. Block signals in pydevd's threads, which inherit the mask: they are for the program."""
    import signal

    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pydevd.settrace(
            host=info["adapter"],
            port=0,
            access_token=info["token"],
            ppid=info["ppid"],
            suspend=False,
            trace_only_current_thread=False,
            # The hook joins children instead of pydevd: that leaves their command lines unchanged, keeps the
            # token out of `ps`, and applies the skip list and the deadline to them too.
            patch_multiprocessing=False,
            notify_stdin=False,
            wait_for_ready_to_run=False,
            dont_trace_start_patterns=(
                os.path.dirname(os.path.abspath(sys.modules["debugpy"].__file__ or "")),
                os.path.dirname(os.path.abspath(__file__)),
            ),
        )
    except Exception:
        debugger = pydevd.get_global_debugger()
        if debugger is not None:  # it has no connection, but would count as joined
            debugger.dispose_and_kill_all_pydevd_threads()
        pydevd.SetupHolder.setup = None
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _patch(session_dir: str) -> None:
    """Install the changes to pydevd. The order matters: later ones build on earlier ones."""
    from . import output
    from .arrays import array_views
    from .pydevd_patches import (
        breakpoints,
        connection,
        equal_code,
        file_names,
        greenlets,
        listening,
        own_tracer,
        refusing,
        releasing,
        shutdown,
        suspending,
        uncaught,
        untrace,
    )

    connection.watch()
    shutdown.watch()
    suspending.watch()
    breakpoints.watch()
    refusing.watch()
    releasing.watch()
    untrace.watch()
    uncaught.watch()
    listening.watch(session_dir)
    own_tracer.watch()
    greenlets.watch()
    file_names.watch()
    equal_code.watch()
    array_views.watch()
    output.watch()


def _forget_former_stops() -> None:
    """Clear stops and steps that a previous adapter, which has died, requested of threads.

    pydevd releases a stopped thread when the adapter dies, but leaves it marked as suspended or stepping. With
    the next debugger it would stop at the next line.
    """
    from _pydevd_bundle.pydevd_additional_thread_info import set_additional_thread_info
    from _pydevd_bundle.pydevd_thread_lifecycle import internal_run_thread

    for thread in sys.modules[
        "pydevd"
    ].threading.enumerate():  # pydevd's `threading` may be a copy, see greenlets.py
        if getattr(thread, "additional_info", None) is not None:
            internal_run_thread(thread, set_additional_thread_info)


def _has_pdb(session_dir: str) -> bool:
    """Return whether a pdb client is connected to this process. If so, join when that client leaves.

    Both debuggers would trace the same threads: up to Python 3.11 pdb would silently never stop again.
    """
    socket_pdb: Any = sys.modules.get("_dkdbg.pdb.socket_pdb")
    client = socket_pdb.connected() if socket_pdb is not None else None
    if client is None:
        return False
    if socket_pdb.on_release is None:
        socket_pdb.on_release = lambda: _knock(session_dir)
        text = "an editor has attached: quit pdb (q) to hand this process over to it"
        with contextlib.suppress(OSError, ValueError):
            client.message("\n*** " + text)
            client.stdout.flush()
        sys.stderr.write("dkdbg: pid %d: %s\n" % (os.getpid(), text))
    return True


def _knock(session_dir: str) -> None:
    """Ask the hook's thread of this process to join."""
    import socket

    sys.modules["_dkdbg.pdb.socket_pdb"].on_release = None  # type: ignore[attr-defined]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"join", os.path.join(session_dir, "p", "%d.sock" % os.getpid()))


def _why_not_this_debugpy() -> str:
    """Return why the program's own imported debugpy does not fit; empty if it does."""
    from . import bundle
    from .pydevd_patches import privates

    version = getattr(sys.modules.get("debugpy"), "__version__", None)
    if version is None or privates.fits(bundle.parse_version(version)):
        return ""
    return "the program has imported debugpy %s; dkdbg works with %s" % (version, privates.span())


def _what_is_too_little() -> str:
    """Return why the limit on open files is too low for program and debugger; empty if it is not."""
    limit = os.sysconf("SC_OPEN_MAX")
    if not 0 <= limit < MIN_OPEN_FILES:
        return ""
    return "its limit of %d open files is too low for the debugger: raise the limit, `ulimit -n %d`" % (
        limit,
        RECOMMENDED_OPEN_FILES,
    )


def _what_is_missing() -> str:
    """Return the names that are missing in debugpy; empty for none."""
    from .pydevd_patches import privates

    missing = privates.missing(privates.PROGRAM)
    version = getattr(sys.modules["debugpy"], "__version__", "?")
    return "debugpy %s has no %s" % (version, ", ".join(missing)) if missing else ""


def _import_debugpy(info: Dict[str, Any], at_start: bool) -> Any:
    """Import the debugpy that fits this interpreter and return pydevd, without changing `sys.path`."""
    if "debugpy" not in sys.modules:
        import platform

        from . import bundle, standard
        from .pydevd_patches import greenlets

        folder = bundle.ensure_debugpy(info["search"], info["runtime"])
        standard.find_shadowing()
        standard.folders[:] = [folder, folder + "/debugpy/_vendored/pydevd"]
        dont_write = sys.dont_write_bytecode
        # Images often set PYTHONDONTWRITEBYTECODE; without .pyc files this import takes 0.3 s instead of 0.1,
        # each time. They go into dkdbg's private folder. Not in a running program: imports in its other threads
        # would write .pyc files too.
        sys.dont_write_bytecode = dont_write and not at_start
        breakpointhook = sys.breakpointhook
        # debugpy logs `platform.platform()`, which runs `uname -p`: one more process, which gevent refuses here.
        described, platform.platform = platform.platform, lambda: sys.platform  # type: ignore[assignment, misc]
        this = session.member()
        try:
            with greenlets.support(this.argv if this is not None else ()):
                import debugpy._vendored as vendored

                # The original would put a folder into sys.path, which the program's threads may be iterating over.
                vendored.vendored = contextlib.nullcontext  # type: ignore[assignment]
                from debugpy.server import api
            greenlets.let_end(sys.modules["pydevd"].threading)
        finally:
            sys.dont_write_bytecode = dont_write
            platform.platform = described
            # Undo pydevd's replacement of `breakpoint()`: PYTHONBREAKPOINT is the user's choice, or else dkdbg's.
            sys.breakpointhook = breakpointhook
    else:
        from debugpy.server import api
    if os.environ.get("DEBUGPY_LOG_DIR"):
        api.ensure_logging()  # here, because it starts a process and reads pip's data on every package
    import pydevd

    return pydevd


def _watch_configuration() -> None:
    """Set the debugger's `dkdbg_configured` when configurationDone has arrived; then send the editor any warnings.

    `ready_to_run` does not show that: pydevd sets it at once when asked not to wait, and when asked to wait it
    waits for good (debugpy #549).
    """
    from _pydevd_bundle.pydevd_api import PyDevdAPI

    from . import missed_code
    from .pydevd_patches import own_tracer
    from .ray import cluster

    run = PyDevdAPI.run

    def watched_run(self: Any, py_db: Any) -> Any:
        py_db.dkdbg_configured.set()
        done = run(self, py_db)
        with contextlib.suppress(Exception):
            missed_code.warn_of_program(py_db)
            cluster.warn(py_db)
            own_tracer.report()
        return done

    PyDevdAPI.run = watched_run


def _wait_for_breakpoints(no_editor: str, configured: Any, pydevd: Any, deadline: float) -> str:
    end = session.monotonic() + deadline
    while not configured.wait(0.02):
        debugger: Optional[Any] = pydevd.get_global_debugger()
        if debugger is None or getattr(debugger, "pydb_disposed", False):
            return "not joined: the adapter closed the connection"
        if os.path.exists(no_editor):
            return "joined; no editor will open a session for this process"
        if session.monotonic() > end:
            return "joined; the editor opened no session for this process within %g s" % deadline
    return "joined"


def _prepare_helper() -> bool:
    """Return whether pydevd can trace running threads; silence it when its library is missing.

    From Python 3.12 on pydevd needs no library. Before, without its library, it would print "Expected: ...so to
    exist" into the program's stderr.
    """
    if sys.version_info >= (3, 12):
        return True
    import ctypes

    import pydevd_tracing

    name = "attach_linux_amd64.so" if sys.platform.startswith("linux") else "attach.dylib"
    path = os.path.join(os.path.dirname(pydevd_tracing.__file__), "pydevd_attach_to_process", name)
    try:
        ctypes.PyDLL(path)
    except OSError:
        pydevd_tracing._load_python_helper_lib.__lib__ = None
        return False
    return True
