"""Start processes; the only module that does.

A program that does not exist raises DkdbgError.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, NoReturn

from dkdbg import signals
from dkdbg.errors import EXIT_NO_PROGRAM, EXIT_TIMEOUT, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import FrameType


#: Values for an output of `start`: to be read by the caller, or discarded.
PIPE = subprocess.PIPE
DISCARD = subprocess.DEVNULL
#: Limits for an untrusted standard error: bytes to keep from its end, maximum bytes to read, seconds to wait for EOF.
_STDERR_TAIL_BYTES, _MAX_STDERR_BYTES, _GRACE_S = 16384, 1 << 20, 1.0
#: Exception of `wait` and `communicate` of a started process after their timeout.
TimeoutExpired = subprocess.TimeoutExpired
#: Processes that `run` waits for on any thread, and threads that are starting one.
_running: set[subprocess.Popen[bytes]] = set()
_starting: set[object] = set()
_started = threading.Condition()


@dataclass(frozen=True, kw_only=True)
class Result:
    """Result of a process. `code` is negative for a signal, as in subprocess."""

    argv: tuple[str, ...]
    code: int
    stdout: str
    stderr: str


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = 60.0,
    names: bool = False,
    stdin_text: str = "",
) -> Result:
    """Run `argv` to its end and return both outputs.

    Args:
        argv: command line, never through a shell.
        cwd: local directory.
        env: the whole environment; None inherits it.
        timeout: seconds.
        names: whether the outputs contain file names. If so, `os.fsdecode` decodes them without loss; if not, invalid
            UTF-8 is replaced.
        stdin_text: text for its standard input.

    Raises:
        DkdbgError: it ran longer than `timeout`.
    """
    with _start():
        running = _popen(argv, cwd=cwd, env=env, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        _running.add(running)
    with running:
        try:
            out, stderr = running.communicate(stdin_text.encode(), timeout)
        except subprocess.TimeoutExpired as error:
            running.kill()
            raise DkdbgError(
                f"{' '.join(argv)} did not end within {timeout:g} s", exit_code=EXIT_TIMEOUT
            ) from error
        except BaseException:  # Ctrl-C
            running.kill()
            raise
        finally:
            _running.discard(running)
    decoded = os.fsdecode if names else _text
    return Result(argv=tuple(argv), code=running.returncode, stdout=decoded(out), stderr=decoded(stderr))


def _popen(
    argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None, **more: Any  # noqa: ANN401
) -> subprocess.Popen[Any]:  # fmt: skip
    """Start `argv` with further arguments of Popen. Raises DkdbgError: it does not exist."""
    with _exists(argv[0]):
        return subprocess.Popen(
            list(argv), executable=_found(argv[0], env), cwd=cwd, env=_environment(env, cwd), **more
        )


def _environment(env: Mapping[str, str] | None, cwd: Path | None) -> Mapping[str, str]:
    """Return the environment with PWD set to `cwd`: compose derives the project's name from it.

    After `cd` through a symlink, the shell's PWD contains the link's name: one repository would become two projects.
    """
    variables = os.environ if env is None else env
    return variables if cwd is None else {**variables, "PWD": str(cwd)}


@contextlib.contextmanager
def _exists(program: str) -> Iterator[None]:
    """Raise DkdbgError instead of FileNotFoundError for a program that does not exist."""
    try:
        yield
    except FileNotFoundError as error:
        raise DkdbgError(
            f"there is no program {program!r} here", hint=f"install {program}", exit_code=EXIT_NO_PROGRAM
        ) from error


@contextlib.contextmanager
def _start() -> Iterator[None]:
    """Record that a process is being started, so that `_end_all` waits until it is in `_running`."""
    token = object()
    with _started:
        _starting.add(token)
    try:
        yield
    finally:
        with _started:
            _starting.discard(token)
            _started.notify_all()


@atexit.register
def _end_all() -> None:
    """Kill the processes that unjoined threads still wait for, such as git reading a FIFO, which never ends."""
    with _started:
        _started.wait_for(lambda: not _starting, _GRACE_S)
    for running in list(_running):
        running.kill()
    for running in list(_running):
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(_GRACE_S)


def _text(output: bytes) -> str:
    """Decode output for reading: replace invalid UTF-8, and turn all line ends into newlines."""
    return output.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")


def ourselves(*arguments: str) -> tuple[str, ...]:
    """Return the command line that runs this dkdbg with `arguments`.

    `python -m dkdbg` would import from the working folder, which may be an untrusted repository.
    """
    code = "import sys; sys.path[:] = filter(None, sys.path); from dkdbg.main import main; sys.exit(main())"
    return (sys.executable, "-c", code, *arguments)


def is_installed(program: str) -> bool:
    """Return whether a program is in an absolute folder of PATH."""
    try:
        _found(program)
    except FileNotFoundError:
        return False
    return True


def read(
    argv: Sequence[str],
    *,
    max_bytes: int,
    timeout: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin_text: str = "",
    new_session: bool = False,
) -> Result:
    """Run `argv`, whose output is untrusted, to its end and return its output and the end of its standard error.

    Args:
        argv: command line, never through a shell.
        max_bytes: maximum bytes to read; a longer output ends the program.
        timeout: seconds.
        cwd, env: its folder and environment; inherited by default.
        stdin_text: text for its standard input.
        new_session: start it in a session of its own, which the terminal's Ctrl-C does not reach.

    Raises:
        DkdbgError: it ran longer than `timeout`, or wrote too much.
    """
    with _input(stdin_text) as stdin:
        running = _popen(
            argv, cwd=cwd, env=env, stdin=stdin, stdout=PIPE, stderr=PIPE, start_new_session=new_session
        )
    outran = threading.Event()

    def end() -> None:
        outran.set()
        running.kill()

    stderr, left = [b""], [_MAX_STDERR_BYTES]

    def listen() -> None:
        while running.stderr is not None and (data := os.read(running.stderr.fileno(), 1 << 16)):
            stderr[0] = (stderr[0] + data)[-_STDERR_TAIL_BYTES:]
            left[0] -= len(data)
            if left[0] < 0:
                running.kill()
                return

    limit = threading.Timer(timeout, end)
    listener = threading.Thread(target=listen, daemon=True)
    with running:
        try:
            limit.start()
            listener.start()
            output = running.stdout.read(max_bytes + 1) if running.stdout is not None else b""
        except BaseException:  # Ctrl-C
            running.kill()
            raise
        finally:
            limit.cancel()  # a pending timer would keep this process from exiting
        if len(output) > max_bytes:
            running.kill()
        running.wait()
        listener.join(_GRACE_S)  # its children may keep standard error open
    if outran.is_set():
        raise DkdbgError(f"{argv[0]} did not end within {timeout:g} s", exit_code=EXIT_TIMEOUT)
    if len(output) > max_bytes:
        raise DkdbgError(f"{argv[0]} wrote more than {max_bytes} bytes")
    if left[0] < 0:
        raise DkdbgError(f"{argv[0]} wrote more than {_MAX_STDERR_BYTES} bytes to its standard error")
    return Result(
        argv=tuple(argv),
        code=running.returncode,
        stdout=output.decode("utf-8", "replace"),
        stderr=_text(stderr[0]),
    )


def stream(
    argv: Sequence[str],
    *,
    report: Callable[[str], None],
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin_text: str = "",
) -> Result:
    """Run `argv`, pass each line of its merged output to `report` at once, and return the whole output as `stdout`.

    After an exception, such as KeyboardInterrupt, terminate the child, wait for it, and raise the exception again.

    Args:
        argv: command line, never through a shell.
        report: called with each line.
        cwd: local directory.
        env: the whole environment; None inherits it.
        stdin_text: text for its standard input.
    """
    with _input(stdin_text) as stdin:
        child = start(argv, cwd=cwd, env=env, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines: list[str] = []
    assert child.stdout is not None  # noqa: S101 - `stdout=PIPE` above
    try:
        for line in child.stdout:
            lines.append(line)
            report(line.rstrip("\n"))
        code = child.wait()
    except BaseException:  # Ctrl-C, or a signal to this process alone
        child.terminate()
        child.communicate()  # keeps reading: a full pipe would block the child
        raise
    return Result(argv=tuple(argv), code=code, stdout="".join(lines), stderr="")


@contextlib.contextmanager
def _input(text: str) -> Iterator[int | IO[str]]:
    """Yield a child's standard input: an unnamed file with `text` (a pipe could fill up), or the null device."""
    if not text:
        yield DISCARD
        return
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        file.write(text)
        file.seek(0)
        yield file


def become(argv: Sequence[str]) -> NoReturn:
    """Replace this process with the command line `argv`, which takes over the terminal."""
    sys.stdout.flush()
    with _exists(argv[0]):
        os.execv(_found(argv[0]), list(argv))  # noqa: S606


def attached(
    argv: Sequence[str],
    *,
    tty: bool,
    on_signal: Callable[[int], None] | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    outputs: tuple[int | None, int | None] = (None, None),
) -> int:
    """Run `argv` with our standard streams and return its exit code as a shell shows it (128 + signal).

    Args:
        argv: command line, never through a shell.
        tty: the child shares our terminal and reads the keys itself, Ctrl-C included.
        on_signal: called with each signal that asks dkdbg to end, instead of passing the signal to the child. If it
            raises, the child is terminated. None passes the signal on.
        cwd, env: the child's folder and environment; inherited by default.
        outputs: descriptors for its standard output and error; None inherits those of this process.
    """
    sys.stdout.flush()
    early: list[int] = []
    child: subprocess.Popen[bytes] | None = None

    def passed_on(number: int, _frame: FrameType | None) -> None:
        if child is None:
            early.append(number)
        elif not (tty and number == signal.SIGINT):
            (on_signal or child.send_signal)(number)

    with signals.handled(passed_on):  # the child inherits ignored signals
        try:
            child = _popen(
                argv, cwd=cwd, env=env, start_new_session=not tty, stdout=outputs[0], stderr=outputs[1]
            )
            for number in early:
                (on_signal or child.send_signal)(number)
            code: int = child.wait()
        except BaseException:  # raised by `on_signal`
            if child is not None:
                child.terminate()
                child.wait()
            raise
    return code if code >= 0 else 128 - code


def shown(argv: Sequence[str], cleaner: Callable[[], Callable[[bytes], bytes]]) -> int:
    """Run `argv` as `attached` does, and clean the output that goes to a terminal; other output is unchanged.

    Args:
        cleaner: returns a filter for one stream. The filter takes the next bytes, empty at the end, and returns
            the ones to show.
    """
    writers: list[int | None] = []
    threads = []
    for stream in (sys.stdout, sys.stderr):
        writers.append(None)
        if stream.isatty():
            reader, writers[-1] = os.pipe()
            arguments = (reader, stream.fileno(), cleaner())
            threads.append(threading.Thread(target=_show, args=arguments, daemon=True))
            threads[-1].start()
    try:
        return attached(argv, tty=True, outputs=(writers[0], writers[1]))
    finally:
        for writer in writers:
            if writer is not None:
                os.close(writer)
        for thread in threads:
            thread.join()  # a slow terminal gets the last lines too


def _show(reader: int, terminal: int, clean: Callable[[bytes], bytes]) -> None:
    """Copy a pipe to a terminal, cleaned; end at the first error, so that the writer gets SIGPIPE."""
    with open(reader, "rb", buffering=0) as source, contextlib.suppress(OSError):
        more = True
        while more:
            data = source.read(1 << 16)
            more = bool(data)
            shown = memoryview(clean(data))
            while shown:
                with contextlib.suppress(BlockingIOError):  # another program may have set O_NONBLOCK
                    shown = shown[os.write(terminal, shown) :]
                    continue
                select.select([], [terminal], [])


def start(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | IO[str] = subprocess.DEVNULL,
    stdout: int | IO[str] | None = None,
    stderr: int | IO[str] | None = None,
    new_session: bool = False,
) -> subprocess.Popen[str]:
    """Start `argv` and return at once; the caller has to end it."""
    return _popen(
        argv, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr, text=True, errors="replace",
        start_new_session=new_session,
    )  # fmt: skip


def converse(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start `argv` with unbuffered pipes of bytes as its three streams; the caller has to end it.

    It does not receive the terminal's Ctrl-C; the caller ends it by its protocol.

    Raises:
        DkdbgError: the file is not executable.
    """
    try:
        return _popen(argv, stdin=PIPE, stdout=PIPE, stderr=PIPE, bufsize=0, start_new_session=True)
    except PermissionError as error:
        raise DkdbgError(
            f"{argv[0]!r} is not executable",
            hint=f"ls -l {shlex.quote(_found(argv[0]))} shows its permissions",
            exit_code=126,
        ) from error


def end(running: subprocess.Popen[bytes]) -> None:
    """Kill a process that `converse` started, and close its pipes."""
    running.kill()
    running.wait()
    for pipe in (running.stdin, running.stdout, running.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _found(program: str, env: Mapping[str, str] | None = None) -> str:
    """Return the path of a program. Search only absolute folders of PATH: the working folder may be untrusted.

    Raises:
        FileNotFoundError: not found.
    """
    if "/" in program:
        return program
    folders = (os.environ if env is None else env).get("PATH", os.defpath).split(os.pathsep)
    path = shutil.which(program, path=os.pathsep.join(each for each in folders if each.startswith(os.sep)))
    if path is None:
        raise FileNotFoundError(program)
    return path
