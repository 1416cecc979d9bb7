"""Runs the user's command as a child process: forwards each signal once, and reports the exit.

The agent may be pid 1 of a container, a foreground program of a terminal, or a step of a batch job. It blocks the
signals and fetches them one by one (sigtimedwait) instead of installing handlers. A signal from kill(2) is forwarded.
A signal from the terminal (Ctrl-C, a resize) is not: it has reached the child too, which is in the same process group.
Nor is one from Slurm (scancel, --signal), which signals every process of a step.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import shutil
import signal

from dkdbg.agent import console, contract, settings
from dkdbg.agent.inprocess import duration
from dkdbg.agent.proxy.listener import tokens
from dkdbg.agent.supervisor import image_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import AbstractSet, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

    class Arrival(NamedTuple):
        """A received signal, and whether its sender (the terminal, or Slurm) has sent it to the program too."""

        number: int
        is_shared: bool

else:
    from collections import namedtuple

    Arrival = namedtuple("Arrival", "number is_shared")

_NAMED = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT", "SIGPWR")
#: Signals that ask the agent to end. Before the program has started, the others have no effect.
ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
#: Record's `detail` for a session that ends before its program.
RUNS_ON = "the program runs without the debugger"
_SI_KERNEL = 0x80
#: Signals that Python ignores at its start: the program gets the default action back.
_RESET = [getattr(signal, name) for name in ("SIGPIPE", "SIGXFSZ") if hasattr(signal, name)]


class StartError(Exception):
    """The command could not be started.

    Attributes:
        exit_code: as in a shell: 127 when the command does not exist, 126 when it cannot be executed.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class SignalInbox:
    """Queue of the signals that are meant for the program. Create it before any thread is started."""

    def __init__(self) -> None:
        forwarded = {getattr(signal, name) for name in _NAMED if hasattr(signal, name)}
        if hasattr(signal, "SIGRTMIN"):
            forwarded |= set(range(signal.SIGRTMIN, signal.SIGRTMAX + 1))
        self._set: Set[int] = {int(number) for number in forwarded} | {int(signal.SIGCHLD)}
        self.former_mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._set)
        self._timed = hasattr(signal, "sigtimedwait")  # Linux; macOS has only sigwait

    def wake(self) -> None:
        """Make a waiting `next` return; from any thread."""
        os.kill(os.getpid(), signal.SIGCHLD)

    def next(self, timeout: float) -> Optional[Arrival]:
        """Return the next signal for the program; None after `timeout` seconds, `wake`, or a child's SIGCHLD."""
        if self._timed:
            info = signal.sigtimedwait(self._set, timeout)
            # If the agent was stopped and continued (Ctrl-Z, fg) past the timeout, Python returns uninitialized memory.
            if info is None or info.si_signo == signal.SIGCHLD or info.si_signo not in self._set:
                return None
            return Arrival(info.si_signo, info.si_code == _SI_KERNEL or self._is_of_step(info.si_pid))
        alarm = duration.later(timeout, self.wake)
        number = signal.sigwait(self._set)
        alarm.cancel()
        if number == signal.SIGCHLD:
            return None
        return Arrival(int(number), number in (signal.SIGINT, signal.SIGQUIT) and _in_foreground())

    @staticmethod
    def _is_of_step(sender: int) -> bool:
        """Tell whether Slurm has sent a signal to all of this job step.

        Outside of an `srun` step, in a batch script, a signal may reach only the script's first process.
        """
        if not os.environ.get("SLURM_STEP_ID"):
            return False
        with contextlib.suppress(OSError), open("/proc/%d/comm" % sender) as name:
            return name.read().startswith("slurmstepd")
        return False


class Child:
    """The running command.

    Args:
        argv: the command and its arguments; no shell is involved.
        mask: the signal mask that the agent itself was started with.
        own_group: start it in its own process group, to which the agent has to forward the terminal's signals.

    Raises:
        StartError: the command does not exist, or cannot be executed.
    """

    #: Signals that arrived before the program's start, to be forwarded even if their sender signals the whole group.
    _missed: AbstractSet[int] = frozenset()

    def __init__(
        self,
        argv: Sequence[str],
        environment: dict[str, str],
        mask: Iterable[int],
        *,
        own_group: bool = False,
    ) -> None:
        self.own_group = own_group
        self.exit_code: Optional[int] = None
        self.signal: Optional[int] = None
        try:
            # posix_spawn, not subprocess: inherited descriptors stay open, and no Python code runs between fork and
            # exec, which would be unsafe in a process with threads.
            spawn = functools.partial(os.posix_spawnp, setpgroup=0) if own_group else os.posix_spawnp
            argv = _by_interpreter(_with_python(list(argv)), environment)
            self._missed = signal.sigpending()
            try:
                self.pid = spawn(argv[0], argv, environment, setsigmask=mask, setsigdef=_RESET)
            except OSError as error:
                argv = _by_shell(argv, error)
                self.pid = spawn(argv[0], argv, environment, setsigmask=mask, setsigdef=_RESET)
        except OSError as error:
            raise _start_error(argv[0], error) from error

    def pass_on(self, arrival: Arrival) -> None:
        """Forward a signal to the child, unless the sender has sent it to the child too."""
        # SIGHUP: when a terminal closes, the kernel signals only the session leader, which may be the agent.
        must_forward = self.own_group or arrival.number in {signal.SIGHUP, *self._missed}
        self._missed -= {arrival.number}
        if self.exit_code is None and (must_forward or not arrival.is_shared):
            self.send(arrival.number)

    def send(self, number: int) -> None:
        """Send the child a signal."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def poll(self) -> Optional[int]:
        """Return the exit code as a shell reports it (128+n for signal n), None while the command runs.

        If the agent is pid 1, also reap the container's orphans.
        """
        target = -1 if os.getpid() == 1 else self.pid
        while self.exit_code is None:
            try:
                pid, status = os.waitpid(target, os.WNOHANG)
            except ChildProcessError:
                self.exit_code = 255  # another waiter has taken the exit status
                break
            if pid == 0:
                break
            if pid == self.pid:
                self._ended(status)
        return self.exit_code

    def wait(self, inbox: SignalInbox) -> Tuple[Optional[int], str]:
        """Forward signals until the command has ended; return the result of `end`.

        The code is None only for a program that keeps running; see sidecar.Adopted.
        """
        while self.poll() is None:
            arrival = inbox.next(1.0)
            if arrival is not None:
                self.pass_on(arrival)
        return self.end()

    def end(self) -> Tuple[int, str]:
        """Return the exit code, 255 where it is unknown, and a line about the end."""
        code = 255 if self.exit_code is None else self.exit_code
        if self.signal is None:
            return code, "exited with code %d" % code
        try:
            name = signal.Signals(self.signal).name
        except ValueError:
            name = "signal %d" % self.signal
        return code, "was ended by %s (code %d)" % (name, code)

    def _ended(self, status: int) -> None:
        if os.WIFSIGNALED(status):
            self.signal = os.WTERMSIG(status)
            self.exit_code = 128 + self.signal
        else:
            self.exit_code = os.WEXITSTATUS(status)


def run_undebugged(command: Sequence[str], reason: str, mask: Optional[Iterable[int]] = None) -> int:
    """Report why the command cannot be debugged (a full disk, for example), and replace this process with it.

    Args:
        mask: the signals that it starts with blocked; None leaves them unchanged.

    Returns:
        The exit code if the command cannot be executed; otherwise this does not return.
    """
    console.log("%s: %s" % (reason, RUNS_ON))
    argv = _with_python(list(command))
    for number in _RESET:
        signal.signal(number, signal.SIG_DFL)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        try:
            os.execvpe(argv[0], argv, tokens.without(os.environ))  # noqa: S606 - the user's own command
        except OSError as error:
            argv = _by_shell(argv, error)
            os.execvpe(argv[0], argv, tokens.without(os.environ))  # noqa: S606
    except OSError as error:
        failed = _start_error(argv[0], error)
        console.log(str(failed))
        return failed.exit_code


def _start_error(command: str, error: OSError) -> StartError:
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return StartError(_not_found(command), contract.EXIT_NOT_FOUND)
    return StartError("cannot execute %s: %s" % (command, error.strerror), contract.EXIT_NOT_EXECUTABLE)


def _with_python(argv: List[str]) -> List[str]:
    """Replace `python` with `python3` where no program of that name exists, as on Debian and Ubuntu."""
    if argv[0] == "python" and not shutil.which("python") and shutil.which("python3"):
        console.log("no program is named 'python' here: running python3")
        return ["python3", *argv[1:]]
    return argv


def _by_interpreter(argv: List[str], environment: Mapping[str, str]) -> List[str]:
    """Prefix a script with its shebang interpreter if it is not executable: a mount may hide the image's x bit."""
    path = argv[0]
    if environment.get(settings.ENV_OWN_CONTAINER) != "1" or "/" not in path or not os.path.isfile(path):
        return argv
    if os.access(path, os.X_OK):
        return argv
    interpreter = _interpreter(path)
    if interpreter.endswith("sh\r"):  # Windows line endings: a shell would fail at the CR of every line
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), interpreter)
    if interpreter:
        console.log("%s is not executable here: running it with the interpreter in its first line" % path)
        return interpreter.rstrip("\r").split(None, 1) + argv
    return argv


def _interpreter(path: str) -> str:
    """Return a script's shebang: interpreter, argument, and a CR if the line ends in one; empty without a shebang."""
    with contextlib.suppress(OSError), open(path, "rb") as source:
        first = source.readline(200)
        if first.startswith(b"#!"):
            return os.fsdecode(first[2:].strip(b" \t\n"))
    return ""


def _by_shell(argv: List[str], error: OSError) -> List[str]:
    """Prefix a script without a shebang with the shell, as execvp(3) does; raise `error` in all other cases.

    Not for Python files and binaries: the shell's error messages would not name the cause.
    """
    path = shutil.which(argv[0]) or argv[0]
    if error.errno != errno.ENOEXEC or path.endswith(".py") or not os.access("/bin/sh", os.X_OK):
        raise error
    with open(path, "rb") as source:
        if b"\0" in source.read(1000):
            raise error
    return ["/bin/sh", path, *argv[1:]]


def missing(argv: Sequence[str]) -> str:
    """Return a message if a command's program, or the script right after it, does not exist; else an empty text."""
    program, script = argv[0], argv[1] if argv[1:] else ""
    names = ["python", "python3"] if program == "python" else [program]
    if not (os.path.exists(program) if "/" in program else any(map(shutil.which, names))):
        return _not_found(program)
    if script.endswith(".py") and not os.path.exists(script):
        return _not_found(os.path.join(".", script))
    return ""


#: Suffix of a file -> prefix that turns its path into a command that runs it.
_RUNNERS = {".py": "python3 ", ".ipynb": "jupyter execute ", ".sh": "sh "}


def _not_found(command: str) -> str:
    path = command if "/" in command else shutil.which(command)
    if path and os.path.exists(path):
        interpreter = _interpreter(path)
        if interpreter.endswith("\r"):
            return "%s has CRLF line ends (its interpreter is %r)" % (command, interpreter)
        return "cannot start %s: the interpreter in its first line does not exist" % command
    if "/" in command:
        hidden = image_files.hides(command, os.environ)
        return "no such file: %s (in %s)%s" % (command, os.getcwd(), hidden)
    if os.path.isfile(command):
        runner = _RUNNERS.get(os.path.splitext(command)[1], "./")
        return "%s is a file, not a command: to run it, give %s%s" % (command, runner, command)
    return "command not found: %s (PATH=%s)" % (command, os.environ.get("PATH", ""))


def _in_foreground() -> bool:
    """Tell whether we are in the foreground process group of our terminal."""
    for descriptor in (0, 1, 2):
        if os.isatty(descriptor):
            return os.tcgetpgrp(descriptor) == os.getpgrp()
    return False


def shortened(argv: Sequence[str]) -> str:
    """Return a shortened command line for a message."""
    import shlex

    line = " ".join(map(shlex.quote, argv))
    return line if len(line) <= 200 else line[:197] + "..."
