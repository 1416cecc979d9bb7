"""Joins a Python process to the adapter. The hook loads this module only when an editor is attached.

It imports debugpy into the user's process and connects it to the adapter, with the root session stub as its parent.
It never blocks a program for good: an editor that opens no child session delays a starting program by at most
JoinInfo.deadline seconds.
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

#: Limits on open files (`ulimit -n`): below the first a process is not debugged; messages recommend the second.
MIN_OPEN_FILES, RECOMMENDED_OPEN_FILES = 16, 64
#: Suffix of the file by which the agent tells a process that no editor will open a session for it.
NO_EDITOR_SUFFIX = ".no-editor"
#: Answer of a process that finds no `join.json`.
NO_EDITOR = "no editor is attached"
#: Held while this process joins. From `_thread`: gevent replaces the locks of `threading`.
_lock = _thread.RLock()
_joining = False


def join(session_dir: str, at_start: bool) -> str:
    """Connect this process to the adapter, unless it is connected.

    Called on the main thread before the program's first line, on the hook's thread, and by a `breakpoint()` in
    the program.

    Args:
        session_dir: the session's folder.
        at_start: wait until the editor has set its breakpoints, so that the program's first line can stop.
            In a running program this is False: return at once, and the breakpoints arrive later.

    Returns:
        One line: `joined`, `already joined`, or why not.
    """
    global _joining  # noqa: PLW0603
    with _lock:
        # Importing debugpy may run code of the program on this thread, which may call breakpoint() and so get here
        # again.
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
    """Import debugpy on this thread, if an editor is attached; do nothing if the program's own debugpy does not fit.

    With gevent, debugpy has a copy of `threading`. That copy takes the importing thread for the main thread, and pydevd
    ends the session when that thread ends. So make the program's main thread that of the copy.
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
    """Drop the debugger in a forked child: its threads and its connection belong to the parent."""
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
    """Wait until an editor has configured its session for this joined process; return "", or why it has not.

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
    """Return the content of `join.json` (JoinInfo in contract.py); None if no editor is attached."""
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
    with contextlib.suppress(PermissionError):  # the agent runs as root, this process as another user
        os.kill(info["ppid"], 0)  # raises if the agent was killed and has left join.json behind
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
    """Connect to the adapter. Block signals meanwhile: pydevd's threads inherit that, and never take the program's."""
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
            # Child processes join through the hook. pydevd would change their command lines, which would show the token
            # in `ps`, and would ignore the skip list and the deadline.
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
        if debugger is not None:  # without a connection, but it would count as joined
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
    """Clear the threads' marks from stops and steps that a previous adapter requested before it died.

    When an adapter dies, pydevd resumes stopped threads, but leaves them marked as suspended or stepping. After the
    next join they would stop at the next line.
    """
    from _pydevd_bundle.pydevd_additional_thread_info import set_additional_thread_info
    from _pydevd_bundle.pydevd_thread_lifecycle import internal_run_thread

    for thread in sys.modules[
        "pydevd"
    ].threading.enumerate():  # pydevd's `threading` may be a copy, see greenlets.py
        if getattr(thread, "additional_info", None) is not None:
            internal_run_thread(thread, set_additional_thread_info)


def _has_pdb(session_dir: str) -> bool:
    """Return whether a pdb client is connected to this process. If so, arrange to join when that client leaves.

    pdb and pydevd cannot trace the same threads: up to Python 3.11, pdb would silently never stop again.
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
    """Return why the debugpy that the program has imported does not fit; empty if it fits, or none is imported."""
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
        # Images often set PYTHONDONTWRITEBYTECODE; without .pyc files this import takes 0.3 s instead of 0.1, in each
        # process. So allow them here: debugpy's go into dkdbg's private folder. Not in a running program, whose other
        # threads may be importing too, and would write .pyc files.
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
        api.ensure_logging()  # only on request: it starts a process, and reads pip's data about every package
    import pydevd

    return pydevd


def _watch_configuration() -> None:
    """Set the debugger's `dkdbg_configured` when configurationDone arrives; then send the editor any warnings.

    pydevd's own `ready_to_run` is no help: pydevd sets it at once if asked not to wait, and if asked to wait, it waits
    without limit (debugpy #549).
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
    """Return whether pydevd can trace running threads; silence its message if it cannot.

    Up to Python 3.11, pydevd needs its library for that. If the library is missing, pydevd would print "Expected: ...so
    to exist" to the program's stderr.
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
