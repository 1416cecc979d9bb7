"""Upload the single file to a target by one command.

The file is sent once, checked there, and removed with the last session.

The target only needs `sh` and Python 3.8. Its answers are untrusted: it may be slow, disconnected, hostile, or print a
login banner. At worst an answer causes an error, never a hang.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import selectors
import time
import zlib
from importlib import resources
from typing import TYPE_CHECKING, Any

from dkdbg import process
from dkdbg.agent.state import kept
from dkdbg.core import pythons
from dkdbg.core.known_errors import last_line
from dkdbg.delivery import single_file
from dkdbg.errors import DkdbgError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.pythons import PythonThere
    from dkdbg.core.target import Executor

#: Timeouts in seconds: to start Python at the target, and for progress of a transfer.
HELLO_TIMEOUT_S, STALL_TIMEOUT_S = 60.0, 60.0
#: Timeout in seconds for the target to release the file.
GOODBYE_TIMEOUT_S = 5.0
#: Maximum bytes before the receiver's first line, such as a login shell's greeting.
_MAX_NOISE_BYTES = 1 << 16
#: Program that reads the receiver (`receiver()`) from standard input. The receiver itself is not on the command line:
#: kubectl puts that into a URL, and proxies in front of an API server truncate or reject URLs beyond 8 kB.
_BOOT = "import sys, zlib; f = sys.stdin.buffer; exec(zlib.decompress(f.read(int(f.read(8)))))"
#: Modules of the receiver, sent as text, in the order of their imports.
_MODULES = ("state.runtime_dir", "state.kept", "supervisor.owner")
_ENTRY = """
import os, sys
from dkdbg.agent.state import kept, runtime_dir
from dkdbg.agent.supervisor import owner
owner.become_owner(os.environ)
kept.say(sys.argv[1], "python", list(sys.version_info[:2]))
try:
    folder = runtime_dir.open_runtime_dir()
except (OSError, runtime_dir.RuntimeDirError) as error:
    kept.say(sys.argv[1], "refused", str(error))
    sys.exit(1)
sys.exit(kept.receive(sys.argv[1], folder))
"""


class Brought:
    """The single file on a target; it is not removed before `close`.

    Attributes:
        argv: remote command line of the agent, without its verb, for the target's `wrap`.
        run: ID of the run, in the agent's environment and its record; part of `argv`.
        sent: whether the file was sent, because the target did not have it.
    """

    def __init__(self, stream: _Stream, path: str, *, sent: bool, run: str) -> None:
        self._stream = stream
        self.run = run
        self.argv = ("env", f"{kept.ENV_RUN}={self.run}", "sh", path)
        self.sent = sent

    def signal(self, number: int) -> None:
        """Send a signal to the remote agent, which passes it on to its program; do nothing if the agent has ended."""
        with contextlib.suppress(OSError):
            self._stream.write(f"signal {number} {self.run}\n".encode())

    def close(self) -> None:
        """Release the file: the target removes it unless another session needs it."""
        self._stream.close()


def bring(
    executor: Executor, *, python: str | None = None, run: str = "", command: Sequence[str] = ()
) -> Brought:
    """Upload the single file to `executor`, and return the remote command line of the agent.

    Args:
        executor: the container or node.
        python: the interpreter on the target; None to search for one.
        command: the command that the agent is to run; a Python that it names is the first to be tried.
        run: ID of the program's run, 16 hexadecimal digits; by default a new one is generated.

    Raises:
        DkdbgError: the target has no Python, refuses the file, or sends an unexpected answer.
    """
    nonce = secrets.token_hex(8)
    named = ("--", command[0]) if command else ()
    looking = ("sh", "-c", single_file.short_launcher(), "-c", _BOOT, nonce, *named)
    chosen = ("env", f"DKDBG_PYTHON={python}") if python else ()
    stream = _Stream(executor, (*chosen, *looking), nonce)
    try:
        code = zlib.compress(receiver().encode(), 9)
        stream.write(b"%8d" % len(code) + code)
        version = stream.answer(HELLO_TIMEOUT_S, "python")[1]
        if not (
            isinstance(version, list) and len(version) == 2 and all(type(each) is int for each in version)
        ):
            raise stream.garbage(version)
        content = single_file.build(tuple(version))
        digest = hashlib.sha256(content).hexdigest()
        stream.write(f"{digest} {len(content)}\n".encode())
        word, path = stream.answer(STALL_TIMEOUT_S, "want", "kept")
        sent = word == "want"
        while word == "want":  # repeats if another host's session removed the file in between
            stream.write(content)
            word, path = stream.answer(STALL_TIMEOUT_S, "want", "kept")
        if (
            not isinstance(path, str)
            or not path.endswith("/" + kept.name_of(digest))
            or not path.isprintable()
        ):
            raise stream.garbage(path)
        return Brought(stream, path, sent=sent, run=run or new_run())
    except BaseException:
        stream.kill()
        raise


def new_run() -> str:
    """Return a random ID for one run of a command; see `Target.run`."""
    return secrets.token_hex(8)


def receiver() -> str:
    """Return the source of the receiver, which needs only the standard library."""
    package = resources.files("dkdbg").joinpath("agent")
    sources = {}
    for name in _MODULES:
        room, _, module = name.partition(".")
        sources[f"dkdbg.agent.{name}"] = package.joinpath(room).joinpath(f"{module}.py").read_text("utf-8")
    return (
        f"import sys\nSOURCES = {json.dumps(sources)}\n"
        "for name in SOURCES:\n"
        "    parts = name.split('.')\n"
        "    for end in range(1, len(parts) + 1):\n"
        "        full = '.'.join(parts[:end])\n"
        "        if full not in sys.modules:\n"
        "            module = sys.modules[full] = type(sys)(full)\n"
        "            module.__path__ = []\n"
        "            if end > 1:\n"
        "                setattr(sys.modules['.'.join(parts[: end - 1])], parts[end - 1], module)\n"
        "    exec(compile(SOURCES[name], name, 'exec', dont_inherit=True), sys.modules[name].__dict__)\n"
        + _ENTRY
    )


class _Stream:
    """Standard input and output of one process at the target. Every call has a timeout."""

    def __init__(self, executor: Executor, argv: Sequence[str], nonce: str) -> None:
        self._executor, self._nonce, self._label = executor, nonce.encode(), executor.label
        self._process = process.converse(executor.wrap(argv))
        pipes = [
            pipe.fileno()
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr)
            if pipe
        ]
        self._in, self._out, self._err = pipes
        for file in (self._in, self._out, self._err):
            os.set_blocking(file, False)
        self._read, self._stderr, self._listening = b"", b"", True
        self._noise = 0

    def answer(self, limit: float, *words: str) -> tuple[str, Any]:
        """Return word and value of the next line of the protocol; the word is one of `words`.

        Args:
            limit: timeout in seconds.

        Raises:
            DkdbgError: no line in time, or another word.
        """
        deadline = time.monotonic() + limit
        while True:
            line, found, rest = self._read.partition(b"\n")
            if found:
                self._read = rest
                self._noise += len(line)
                if line.startswith(self._nonce + b" "):
                    return self._parsed(line[len(self._nonce) + 1 :], words)
            elif self._noise + len(self._read) > _MAX_NOISE_BYTES:
                raise self.garbage(self._read[:60])
            else:
                self._wait(deadline)

    def write(self, data: bytes) -> None:
        """Send `data`; the next answer reports the result.

        Raises:
            DkdbgError: the target reads nothing for STALL_TIMEOUT_S seconds, or closes its output meanwhile.
        """
        left = memoryview(data)
        while left:
            deadline = time.monotonic() + STALL_TIMEOUT_S
            try:
                left = left[os.write(self._in, left) :]
            except BlockingIOError:
                self._wait(deadline, writing=True)
            except BrokenPipeError:
                return  # `answer` reports the reason

    def garbage(self, seen: object) -> DkdbgError:
        """Return the error for an unexpected answer."""
        shown = ascii(seen)[:80]
        return DkdbgError(
            f"{self._label} gave an unexpected answer: {shown}",
            hint="does its login shell print something, or is there a wrapper around sh?",
        )

    def close(self) -> None:
        """Close the process's standard input, and wait until it ends."""
        assert self._process.stdin is not None  # noqa: S101
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(process.TimeoutExpired):
            self._process.wait(GOODBYE_TIMEOUT_S)
        self.kill()

    def kill(self) -> None:
        """Kill the local process of the stream."""
        process.end(self._process)

    def _parsed(self, line: bytes, words: tuple[str, ...]) -> tuple[str, Any]:
        word, _, value = line.decode("utf-8", "replace").partition(" ")
        try:
            read = json.loads(value)
        except ValueError:
            raise self.garbage(line) from None
        if word == "refused":
            raise DkdbgError(
                f"{self._label} rejects the agent: {last_line(str(read))}",
                hint="set DKDBG_RUNTIME_DIR on the target to another folder",
            )
        if word not in words:
            raise self.garbage(line)
        return word, read

    def _wait(self, deadline: float, *, writing: bool = False) -> None:
        """Wait until the output is readable or, with `writing`, the input writable; read the output."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._out, selectors.EVENT_READ)
            if self._listening:
                selector.register(self._err, selectors.EVENT_READ)
            if writing:
                selector.register(self._in, selectors.EVENT_WRITE)
            ready = {key.fd for key, _ in selector.select(max(0.0, deadline - time.monotonic()))}
        if not ready or time.monotonic() > deadline:  # stderr alone does not extend the deadline
            raise DkdbgError(
                f"{self._label} does not answer",
                hint="is it overloaded, paused or out of memory? try again when it is not",
            )
        if self._err in ready:
            text = self._take(self._err)
            self._stderr, self._listening = (self._stderr + text)[-4000:], bool(text)
        if self._out in ready:
            data = self._take(self._out)
            if not data:
                raise self._ended()
            self._read += data

    @staticmethod
    def _take(file: int) -> bytes:
        try:
            return os.read(file, 1 << 16)
        except BlockingIOError:
            return b""

    def _ended(self) -> DkdbgError:
        """Return the error for a process that ended before its answer."""
        with contextlib.suppress(process.TimeoutExpired):
            self._process.wait(GOODBYE_TIMEOUT_S)
        code = self._process.poll()
        with contextlib.suppress(OSError):
            while data := self._take(self._err):
                self._stderr = (self._stderr + data)[-4000:]
        whole = self._stderr.decode("utf-8", "replace")
        reason = last_line(whole)
        explained = self._executor.explain(whole)
        if explained is not None:
            return explained
        if "no Python" in whole:
            return DkdbgError(
                f"{self._label} has no Python 3.8 or newer, which the agent needs",
                hint="install one on the target, or name it: --python /path/to/python3",
                exit_code=127,
            )
        if code in {126, 127}:
            return DkdbgError(
                f"cannot start anything on {self._label}: {reason or f'exit code {code}'}",
                hint="dkdbg needs sh and Python 3.8 or newer on the target",
                exit_code=127,
            )
        return DkdbgError(f"the connection to {self._label} ended (code {code}): {reason or 'no output'}")


#: Timeout in seconds of the query in `running_at`.
_TIMEOUT_S = 60.0


def running_at(executor: Executor) -> Sequence[PythonThere]:
    """Return the target's Pythons, oldest first; empty if the target has no shell. The list is untrusted.

    Raises:
        DkdbgError: the target cannot be queried, or does not answer in time.
    """
    asked = process.read(
        executor.wrap(pythons.finding_words()), max_bytes=pythons.MAX_ANSWER_BYTES, timeout=_TIMEOUT_S
    )
    return pythons.pythons_in(asked.stdout)
