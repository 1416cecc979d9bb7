"""Starts one agent for all Python processes of a container, or of a batch job's share of a machine.

The first program starts the agent, and the others find it. A lock elects the first one, even among ranks that start at
the same instant. The agent holds the lock while it lives. Beside the lock it writes the start file, by which the other
programs become members of its session. Both are in the runtime folder, which only this user can access.

Helpers such as `pip`, or `python -c` in a script, do not start an agent and run without one.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time

from dkdbg.agent import console
from dkdbg.agent.autostart import start_file
from dkdbg.agent.inprocess import choosing
from dkdbg.agent.state import procfs, runtime_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

#: Maximum seconds for an agent to start; long, because many processes may start on the machine at the same time.
_START_TIMEOUT_S = 60.0
#: Seconds between two checks while waiting.
_POLL_INTERVAL_S = 0.02
#: Seconds after a failed start during which other programs run without an agent instead of trying again.
_RETRY_AFTER_S = 60.0
#: Message on stderr if a program runs without the agent after a failed start.
_SUPPRESSED = (
    "the agent failed to start %d s ago (see %s, or the container's log): the program runs without"
    " the debugger; to try again at once: rm %s"
)
#: Maximum seconds to wait until the process that holds the lock has removed the start file of an ended agent.
_RENEWAL_TIMEOUT_S = 0.5
#: Maximum seconds to wait for the lock while another process of this user opens the runtime folder.
_LOCK_TIMEOUT_S = 3.0
#: Names of helpers: programs and modules that install, build or query, and dkdbg's own.
_HELPERS = re.compile(
    r"^(pip[\d.]*|pipx|uv|ninja|cmake|meson|conda|mamba|poetry|pdm|hatch|virtualenv|venv|ensurepip|setup\.py|build|twine"
    r"|compileall|py_compile|json\.tool|site|sysconfig|platform|zipfile|tarfile|supervisord|supervisorctl|awscli|aws"
    r"|dkdbg|debugpy)(\.exe)?$"
)


def begin(archive: str) -> str:
    """Make this process a member of the container's session; return the hook's folder, empty to run without an agent.

    Change the environment for child processes, as `launch` would.

    Args:
        archive: path of the single file.

    Raises:
        OSError, RuntimeDirError: no folder for the agent's files is usable, or the agent cannot be started.
    """
    argv = list(getattr(sys, "orig_argv", ())) or procfs.command_line(
        os.getpid()
    )  # Python 3.10 has orig_argv
    if not _is_python() or os.path.abspath(argv[1] if len(argv) > 1 else "") == archive:
        return ""
    is_first = os.getpid() == 1
    helpers = os.environ.get("DKDBG_SKIP", "")
    if not is_program(argv, is_first=is_first, more_helpers=helpers):
        # The children of a build tool are build backends, which look like programs, so they must not find the
        # single file. Those of `conda run` are programs.
        if _is_helper(argv) and "run" not in argv:
            _set_python_path([], archive)
        return ""
    found = _find_or_start(archive, argv, _open_runtime())
    if found is None:
        return ""
    if found.exit_code is not None:
        os._exit(found.exit_code)
    _apply(found, archive)
    return found.hook


def _is_python() -> bool:
    """Tell whether this is the main thread of a Python executable, not an embedded Python or a subinterpreter."""
    import _thread

    if not sys.platform.startswith("linux") or sys.implementation.name != "cpython" or not sys.executable:
        return False
    name = os.path.basename(os.readlink("/proc/self/exe"))
    return name.startswith("python") and _thread.get_native_id() == os.getpid()


def _open_runtime() -> str:
    """Open the runtime folder under a lock.

    Without the lock, processes that find its usual path unsafe would each create a folder of their own.
    """
    lock = _own_lock()
    try:
        end = time.monotonic() + _LOCK_TIMEOUT_S
        with contextlib.suppress(OSError):  # no locks on this file system
            while (
                lock is not None and not runtime_dir.lock(lock) and time.monotonic() < end
            ):  # a time limit, because the process that holds the lock may be stopped
                time.sleep(_POLL_INTERVAL_S)
        return runtime_dir.open_runtime_dir()
    finally:
        if lock is not None:
            os.close(lock)


def _own_lock() -> Optional[int]:
    """Return the descriptor of a lock file that is private to this user; None if another user has taken its name."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        file = os.open("/tmp/dkdbg-%d.lock" % os.getuid(), flags, 0o600)  # noqa: S108 - looked at below
    except OSError:
        return None
    info = os.fstat(file)
    if info.st_uid == os.getuid() and not info.st_mode & 0o077:
        return file
    os.close(file)
    return None


def _find_or_start(archive: str, argv: List[str], runtime: str) -> Optional[start_file.StartFile]:
    """Return the start file that the agent has written; None when no agent runs here and none can be started.

    Raises OSError where the file system has no locks.
    """
    from dkdbg.agent.autostart import starting

    limit = None if starting.waits_for_an_editor(os.environ) else _START_TIMEOUT_S
    path = start_file.path_in(runtime, os.environ)
    lock = _open_lock(path)
    begun = time.time()
    try:
        while True:
            is_locked = runtime_dir.lock(lock)
            if is_locked and not start_file.is_in_place(lock, start_file.lock_of(path)):
                removed, lock = lock, _open_lock(path)
                os.close(removed)
                continue
            found = start_file.read(path)
            if found is not None and found.failed:
                since = max(0.0, time.time() - found.written)  # the clock may have been set back
                if since < _RETRY_AFTER_S:
                    import shlex

                    log = os.path.join(runtime, start_file.LOG)
                    console.log(_SUPPRESSED % (since, log, shlex.quote(path)))
                    return None
            elif found is not None and found.exit_code is not None:
                if found.written >= begun:
                    return found
            elif found is not None and not is_locked and procfs.start_ticks(found.pid) == found.start:
                return found
            if is_locked:
                start_file.remove(path)
                return _start(archive, argv, path, lock)
            # Another process holds the lock. If that is a starting agent, its predecessor's start file is removed soon.
            # A start file that stays belongs to an agent of another PID namespace, or to one that failed as PID 1.
            end = limit if found is None else _RENEWAL_TIMEOUT_S
            if end is not None and time.time() > begun + end:
                return None
            time.sleep(_POLL_INTERVAL_S)
    finally:
        os.close(lock)


def _open_lock(path: str) -> int:
    from dkdbg.agent.autostart import starting

    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return starting.above_streams(os.open(start_file.lock_of(path), flags, 0o600))


def _start(archive: str, argv: List[str], path: str, lock: int) -> Optional[start_file.StartFile]:
    from dkdbg.agent.autostart import starting

    runtime = os.path.dirname(path)
    start_file.prune(runtime)
    reader = starting.start(archive, argv, runtime, lock)
    try:
        starting.wait(reader, None if starting.waits_for_an_editor(os.environ) else _START_TIMEOUT_S)
    finally:
        os.close(reader)
    found = start_file.read(path)
    if found is None:
        start_file.write_failure(path)
    return None if found is None or found.failed else found


def _apply(found: start_file.StartFile, archive: str) -> None:
    """Change the environment as the agent's start file says."""
    for name in found.without:
        os.environ.pop(name, None)
    os.environ.update(found.environment)
    _set_python_path([found.hook], archive)


def _set_python_path(first: List[str], archive: str) -> None:
    """Put folders in front of PYTHONPATH for children, and remove the single file from it."""
    former = os.environ.pop("PYTHONPATH", "").split(os.pathsep)
    entries = [*first, *(entry for entry in former if entry and os.path.abspath(entry) != archive)]
    if entries:
        os.environ["PYTHONPATH"] = os.pathsep.join(entries)


def is_program(argv: List[str], *, is_first: bool, more_helpers: str = "") -> bool:
    """Tell whether a Python command line is that of a program, as opposed to a helper.

    Args:
        argv: the interpreter's command line.
        is_first: whether this is the container's first process: it is the job itself, so code on its command line
            (`-c`) is a program too.
        more_helpers: comma-separated substrings of command lines to treat as helpers (DKDBG_SKIP).
    """
    line = " ".join(argv)
    if any(word in line for word in more_helpers.split(",") if word):
        return False
    _, kind, _ = choosing.what_runs(argv)
    return is_first if kind == "code" else bool(kind) and not _is_helper(argv)


def _is_helper(argv: List[str]) -> bool:
    _, kind, name = choosing.what_runs(argv)
    if kind == "module":
        return bool(_HELPERS.match(name) or _HELPERS.match(name.partition(".")[0]))
    return kind == "file" and bool(_HELPERS.match(os.path.basename(name)))
