"""Starts the agent beside a program, as a process that shares no pipe or terminal with it and is not its child.

If the program is a container's process 1, whose end would end the container, the agent takes over its pid, and the
program continues as the agent's child.
"""

from __future__ import annotations

import contextlib
import os
import sys

from dkdbg.agent import console
from dkdbg.agent.autostart import start_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping, Optional

#: Variables to withhold from the agent: it already has the program's user, is started once and finds its own
#: modules.
_NOT_PASSED = ("PYTHONPATH", "DKDBG_OWNER", "DKDBG_RELOAD", "DKDBG_SESSION_DIR")
#: Signals that this process, as a container's first, forwards to the program.
_FORWARDED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT")


def start(archive: str, argv: List[str], runtime: str, lock: int) -> int:
    """Start the agent; return a descriptor that the agent writes to or closes once its start file is complete.

    Args:
        archive: path of the single file. argv: the program's command line. runtime: the runtime folder.
        lock: descriptor of the lock, which the agent holds from now on.

    Raises:
        OSError: the agent cannot be started.
    """
    reader, writer = map(above_streams, os.pipe())
    try:
        begin = [sys.executable, "-I", "-S", "-B", archive, "accompany", "--runtime", runtime]
        pipes = ["--lock", "%d" % lock, "--ready", "%d" % writer]
        rest = ["--", *argv]
        environment = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED}
        for descriptor in (lock, writer):
            os.set_inheritable(descriptor, True)
        try:
            if os.getpid() == 1:
                _become_init([*begin, *pipes], rest, environment)
            else:
                _spawn([*begin, *pipes, "--pid", "%d" % os.getpid(), *rest], environment, runtime)
        finally:
            for descriptor in (lock, writer):
                os.set_inheritable(descriptor, False)
    except OSError:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    return reader


def above_streams(descriptor: int) -> int:
    """Move a descriptor above 2.

    If a standard stream was closed (`<&-`), a new descriptor may have got its number. The agent opens the standard
    streams, and would replace it.
    """
    import fcntl

    if descriptor > 2:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(descriptor)


def _spawn(command: List[str], environment: Dict[str, str], runtime: str) -> None:
    log = os.path.join(runtime, start_file.LOG)
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
    ]
    # Log to a file unless stderr is the container's log: the reader of a pipe would wait until the agent closes it too.
    if not is_log_of_container(2):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        actions.append((os.POSIX_SPAWN_OPEN, 2, log, flags, 0o600))
    pid = os.posix_spawn(command[0], command, environment, file_actions=actions)
    os.waitpid(pid, 0)  # the first child exits at once and leaves the agent to init


def _become_init(begin: List[str], rest: List[str], environment: Dict[str, str]) -> None:
    """Fork: the child returns and continues as the program; this process executes (execve) the agent."""
    import signal

    # The kernel drops a signal to PID 1 that has no handler. A blocked signal stays pending for the agent.
    former = signal.pthread_sigmask(signal.SIG_BLOCK, [getattr(signal, name) for name in _FORWARDED])
    child = os.fork()
    if not child:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
        return
    console.open_closed_streams()
    command = [*begin, "--child", "%d" % child, *rest]
    try:
        os.execve(command[0], command, environment)  # noqa: S606
    except OSError:
        _act_as_init(child)


def _act_as_init(child: int) -> None:
    """Forward signals and reap children, as PID 1 must, because the agent could not be executed."""
    import signal

    for name in _FORWARDED:
        signal.signal(getattr(signal, name), lambda number, _frame: os.kill(child, number))
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    # Close the program's descriptors and those of the agent (its lock and its pipe), which are open here too.
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):  # the listing's own descriptor
                os.close(int(name))
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def is_log_of_container(descriptor: int) -> bool:
    """Tell whether a descriptor is the container's log: the file that is stderr of the container's first process."""
    if os.getpid() == 1:
        return True
    try:
        first, log = os.stat("/proc/1/fd/2"), os.fstat(descriptor)
    except OSError:
        return False
    return in_container() and (first.st_dev, first.st_ino) == (log.st_dev, log.st_ino)


def in_container() -> bool:
    """Tell whether this PID namespace is a container's, which ends with its first process.

    The machine's initial PID namespace always has the same inode number (PROC_PID_INIT_INO in
    include/linux/proc_ns.h, Linux 3.8 to now).
    """
    try:
        return os.stat("/proc/self/ns/pid").st_ino != 0xEFFFFFFC
    except OSError:
        return False


def waits_for_an_editor(environment: Mapping[str, str]) -> bool:
    """Tell whether the agent was asked to wait for an editor before the program starts."""
    asked = environment.get("DKDBG_WAIT") or environment.get("DEBUG_TIMEOUT") or "0"
    return asked.strip() not in ("0", "0.0")


def wait(reader: int, limit: Optional[float]) -> None:
    """Wait until the agent has written to the descriptor or closed it, for at most `limit` seconds (None: no limit)."""
    import select

    poll = select.poll()
    poll.register(reader, select.POLLIN)
    poll.poll(None if limit is None else limit * 1000)
