"""The start file, which an agent writes for the processes of its container, to become members of its session."""

from __future__ import annotations

import contextlib
import os
import re
import time

from dkdbg.agent.state import batch, runtime_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Mapping, Optional, Sequence, Tuple

#: File names in the runtime folder. A batch job's start file is `start-JOB`; a lock is beside it.
_NAME, _LOCK, LOG = "start", ".lock", "start.log"
#: Seconds after which the lock of a batch job may be removed.
_LEFT_AFTER_S = 86400.0
_FAILED, _EXIT, _GO = "failed", "exit", "go"


class StartFile:
    """The content of a start file.

    Attributes:
        pid, start: the agent's pid, and its start in clock ticks since boot.
        hook: the hook's folder. environment: variables that a member sets. without: those that it removes.
        exit_code: code with which members must exit instead of running; None to run. failed: whether no agent could be
            started.
        written: time of writing, in epoch seconds.
    """

    def __init__(self, fields: Sequence[str], written: float) -> None:
        self.written = written
        self.failed = fields[0] == _FAILED
        self.exit_code: Optional[int] = int(fields[1]) if fields[0] == _EXIT else None
        self.pid, self.start, self.hook = 0, -1, ""
        self.environment: Dict[str, str] = {}
        self.without: Sequence[str] = ()
        if fields[0] == _GO:
            self.pid, self.start, self.hook = int(fields[1]), int(fields[2]), fields[3]
            self.without = fields[4].split(",")
            self.environment = dict(each.split("=", 1) for each in fields[5:])


def path_in(runtime: str, environ: Mapping[str, str]) -> str:
    """Return the start file's path: one for each batch job around this process, and one for all other programs."""
    jobs = re.sub(r"[^A-Za-z0-9_+-]", "_", "-".join(["", *batch.jobs(environ)]))
    return os.path.join(runtime, _NAME + jobs[:100])


def lock_of(path: str) -> str:
    """Return the path of the lock that belongs to a start file."""
    return path + _LOCK


def is_in_place(lock: int, path: str) -> bool:
    """Tell whether a locked file is still the one at its path: `prune` may have removed it before it was locked."""
    try:
        return os.path.samestat(os.fstat(lock), os.stat(path))
    except FileNotFoundError:
        return False


def prune(runtime: str) -> None:
    """Remove the start files and locks of old batch jobs that have no agent any more. Ignores errors."""
    import glob

    before = time.time() - _LEFT_AFTER_S
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a named pipe would wait for a writer
    for path in glob.glob(os.path.join(glob.escape(runtime), _NAME + "-*" + _LOCK)):
        with contextlib.suppress(OSError), os.fdopen(os.open(path, flags)) as lock:
            is_old = os.fstat(lock.fileno()).st_mtime < before
            if is_old and runtime_dir.lock(lock.fileno()) and is_in_place(lock.fileno(), path):
                remove(path[: -len(_LOCK)])
                os.unlink(path)


def read(path: str) -> Optional[StartFile]:
    """Return the start file; None where it is missing or malformed."""
    try:
        with open(path, "rb") as source:
            written = os.fstat(source.fileno()).st_mtime
            return StartFile(os.fsdecode(source.read()).split("\0"), written)
    except (OSError, ValueError, IndexError):
        return None


def remove(path: str) -> None:
    """Remove the start file of an agent that has ended."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def write_go(
    path: str, agent: Tuple[int, int], hook: str, environment: Dict[str, str], without: Sequence[str]
) -> None:
    """Let members start; `agent` is the agent's pid and its start in clock ticks. Raises OSError."""
    changes = ["%s=%s" % pair for pair in environment.items()]
    _write(path, [_GO, "%d" % agent[0], "%d" % agent[1], hook, ",".join(without), *changes])


def write_exit(path: str, code: int) -> None:
    """Make waiting processes exit with this code. Raises OSError."""
    _write(path, [_EXIT, "%d" % code])


def write_failure(path: str) -> None:
    """Let waiting processes run without an agent."""
    with contextlib.suppress(OSError):
        _write(path, [_FAILED])


def _write(path: str, fields: Sequence[str]) -> None:
    temporary = "%s.%d" % (path, os.getpid())
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        data = memoryview(os.fsencode("\0".join(fields)))
        while data:
            data = data[os.write(file, data) :]
    finally:
        os.close(file)
    os.rename(temporary, path)
