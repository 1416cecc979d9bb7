"""Attach to running Python processes: send their target an agent, which joins them and exits with `dkdbg attach`."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import secrets
import shlex
import threading
import time
from typing import TYPE_CHECKING

from dkdbg import hints, process
from dkdbg.core.pythons import is_debugpy, programs_of
from dkdbg.core.target import Capability
from dkdbg.delivery.bring import bring, running_at
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.printable import is_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from dkdbg.core.pythons import PythonThere
    from dkdbg.core.target import Executor, Target
    from dkdbg.delivery.bring import Brought

#: Seconds for the agent to report on all processes, and to exit.
_JOIN_TIMEOUT_S, _EXIT_TIMEOUT_S = 120.0, 10.0
_TIMEOUT_S = 0.5
#: Maximum bytes of a line of the agent, and maximum number of unread lines.
_MAX_LINE_BYTES, _MAX_UNREAD_LINES = 1 << 14, 100
#: Dynamic ports (RFC 6335), to try if the default port is taken.
_FREE = range(49152, 65536)
#: Fragments by which the agent's error messages are recognized (agent/inject, agent/inprocess/entered.py).
_TAKEN, _IN_ANOTHER = "cannot listen on", "in another session of dkdbg already"


def enter(target: Target, pids: Sequence[int], root: Path, report: Callable[[str], None]) -> Entered | None:
    """Attach to running Pythons of a target without an agent; return None if no PID is given.

    Args:
        target: as the user named it.
        pids: processes to attach to; if empty, print for each running program how to attach to it.
        root: local root of the repository.
        report: prints a line for the user.

    Raises:
        DkdbgError: a PID is not a Python process of the target, or no process could be joined.
    """
    argv: Sequence[str] = ()
    if Capability.LIST_PROCESSES in target.capabilities:
        if not (pids or target.is_meant):
            return None
        try:
            found = target.pythons()
        except DkdbgError:
            if pids:
                raise
            return None  # a program may start later
        programs = [] if is_debugpy(found) else programs_of(found)
        if not pids:
            _tell_how(target, programs, report)
            return None
        chosen = _chosen(target, found, programs, pids)
        if not chosen:
            raise DkdbgError(
                f"{target.label} runs a plain debugpy; a second debugger cannot attach to its program",
                hint=f"dkdbg attach {target.address} shows how to attach to it",
            )
        argv, numbers = chosen[0].argv, [each.pid for each in chosen]
        executor = target.within(chosen[0].user)
    elif pids:
        numbers, executor = list(pids), target.find()
    else:
        return None
    try:
        agent = _in(target, executor, numbers, report)
    except DkdbgError as error:
        argv = argv or _words_of(executor, numbers[0])
        again = hints.RUN_AGAIN(target=target.address, command=shlex.join(argv))
        hint = again + _in_its_place(target, argv)
        if _IN_ANOTHER in error.message:
            hint = hints.JOIN_SESSION(target=_session_named(target, error.message))
        raise DkdbgError(f"{target.label} cannot be attached to: {error.message}", hint=hint) from error
    agent.mappings = _mappings(target, agent.folder, root)
    return agent


def _session_named(target: Target, message: str) -> str:
    """Return the address of the session whose id ends an agent's message, or else the target's address."""
    with contextlib.suppress(DkdbgError):
        for each in target.sessions():
            if message.endswith(f" {each.id}"):
                return each.address
    return str(target.address)


def _words_of(executor: Executor, pid: int) -> Sequence[str]:
    """Return the command line of a Python process of the target; `CMD` if it cannot be read."""
    found: Sequence[PythonThere] = ()
    with contextlib.suppress(DkdbgError):
        found = running_at(executor)
    return next((each.argv for each in found if each.pid == pid), ("CMD",))


def _in_its_place(target: Target, argv: Sequence[str]) -> str:
    """Return the hint with the command that recreates the target under the agent; empty if it cannot be recreated."""
    try:
        line, variables = target.recreation(argv)
    except DkdbgError:
        return ""
    if not line:
        return ""
    without = f" without {', '.join(variables)}, whose values have several lines" if variables else ""
    return (
        "\n  or replace the container by a new one with the same image, mounts, network, ports and environment"
        f"{without} (this one is stopped and kept):\n  {line}"
    )


def _tell_how(
    target: Target, programs: Sequence[Sequence[PythonThere]], report: Callable[[str], None]
) -> None:
    # Do not attach without a PID: `dkdbg run` may be about to debug one of these programs.
    undebugged = [each for each in programs if not any(word.endswith(".pyz") for word in each[0].argv)]
    for program in undebugged[:8]:
        report(f"{target.label} runs process {program[0].pid}: {shlex.join(program[0].argv)[:120]}")
        report(hints.ENTER(target=target.address, pid=program[0].pid))


def _chosen(
    target: Target,
    found: Sequence[PythonThere],
    programs: Sequence[Sequence[PythonThere]],
    pids: Sequence[int],
) -> Sequence[PythonThere]:
    """Return the processes with these PIDs; for the first process of a program also its child processes."""
    wanted = [each for each in found if each.pid in pids]
    if missing := sorted(set(pids) - {each.pid for each in wanted}):
        candidates = ", ".join(f"{each.pid}" for each in found) or "none"
        raise DkdbgError(
            f"PID {missing[0]} on {target.label} is not an undebugged Python process; candidates: {candidates}",
            hint=f"dkdbg attach {target.address}",
            exit_code=EXIT_USAGE,
        )
    return [each for program in programs for each in program if each in wanted or program[0] in wanted]


def _in(target: Target, executor: Executor, pids: Sequence[int], report: Callable[[str], None]) -> Entered:
    host, port = target.listen_address()
    if Capability.LIST_PROCESSES not in target.capabilities:
        port = 0
    brought = bring(executor)
    try:
        for again in range(3):
            arguments = ("--host", host, "--port", str(port), "--name", target.label)
            argv = (*brought.argv, "enter", ",".join(map(str, pids)), *arguments)
            agent = Entered(brought, executor.wrap(argv), report, len(pids))
            try:
                agent.wait()
            except DkdbgError as error:
                agent.end()
                if again == 2 or not port or _TAKEN not in error.message:
                    raise
                port = secrets.choice(_FREE)  # not a secret: the agent checks each client's user
            except BaseException:
                agent.end()
                raise
            else:
                agent.pin(target)
                return agent
    except BaseException:
        brought.close()
        raise
    raise AssertionError("unreachable")


class Entered:
    """The agent at a target, which joins running Python processes and leaves them running.

    The agent prints one JSON object per line, and exits when its standard input is closed.

    Attributes:
        folder: working directory of the processes; empty if unknown.
        mappings: (local folder relative to the repository, remote folder) of the code.
    """

    def __init__(
        self, brought: Brought, argv: Sequence[str], report: Callable[[str], None], count: int
    ) -> None:
        self._brought, self._report, self._count = brought, report, count
        self.folder = ""
        self.mappings: tuple[tuple[str, str], ...] = ()
        self._lines: queue.Queue[bytes | None] = queue.Queue(_MAX_UNREAD_LINES)
        self._is_over = False
        self._pinned: Target | None = None
        self._stderr = b""
        self._process = process.converse(argv)
        self._readers = [
            threading.Thread(target=self._read_lines, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for each in self._readers:
            each.start()

    def wait(self) -> None:
        """Wait until the agent has reported each process: joined, late (will join), skipped or refused.

        Raises:
            DkdbgError: no process was joined, with the first reason.
        """
        end, answered, reasons, is_in = time.monotonic() + _JOIN_TIMEOUT_S, 0, [], False
        while answered < self._count:
            try:
                line = self._lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise DkdbgError("its agent did not report in time") from None
            if line is None:
                break
            word, pid, text = _parsed(line)
            if word == "folder":
                self.folder = text
            elif word == "entered":
                answered, is_in = answered + 1, True
                self._report(f"attached to process {pid}; it keeps running when you detach")
            elif word == "late":
                answered, is_in = answered + 1, True
                self._report(f"process {pid}: {text}")
            elif word == "skipped":
                answered += 1
            elif word == "refused":
                answered += 1
                reasons.append(text)
        self._is_over = True
        if not is_in:
            with contextlib.suppress(process.TimeoutExpired):
                self._process.wait(_EXIT_TIMEOUT_S)
            self._readers[1].join(_EXIT_TIMEOUT_S)
            raise DkdbgError(reasons[0] if reasons else self._stderr_tail())
        for reason in reasons:
            self._report(f"not attached: {reason}")

    def pin(self, target: Target) -> None:
        """Make this agent's session the target's endpoint until the agent ends, even if a newer session starts."""
        self._pinned, target.run = target, self._brought.run
        if not self._readers[0].is_alive():  # the agent has ended meanwhile
            target.run = ""

    def close(self) -> None:
        """End the agent, and remove its file."""
        self.end()
        self._brought.close()

    def end(self) -> None:
        """End the agent."""
        self._is_over = True
        assert self._process.stdin is not None  # noqa: S101
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(process.TimeoutExpired):
            self._process.wait(_EXIT_TIMEOUT_S)
        self._process.kill()
        self._process.wait()

    def _read_lines(self) -> None:
        assert self._process.stdout is not None  # noqa: S101
        rest = b""
        with contextlib.suppress(OSError):
            while data := os.read(self._process.stdout.fileno(), _MAX_LINE_BYTES):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._put(line[:_MAX_LINE_BYTES])
                rest = rest[:_MAX_LINE_BYTES]
        if self._pinned is not None:
            self._pinned.run = ""
        self._put(None)

    def _put(self, line: bytes | None) -> None:
        """Queue a line for `wait`; drop lines after `wait` has returned, so that the agent never blocks."""
        while not self._is_over:
            with contextlib.suppress(queue.Full):
                self._lines.put(line, timeout=_TIMEOUT_S)
                return

    def _read_errors(self) -> None:
        assert self._process.stderr is not None  # noqa: S101
        with contextlib.suppress(OSError):
            while data := os.read(self._process.stderr.fileno(), _MAX_LINE_BYTES):
                self._stderr = (self._stderr + data)[-_MAX_LINE_BYTES:]

    def _stderr_tail(self) -> str:
        lines = [each for each in self._stderr.decode("utf-8", "replace").splitlines() if each.strip()]
        last = lines[-1].removeprefix("dkdbg: ") if lines else "its agent has ended without a message"
        return "".join(each if is_text(each) else "?" for each in last)[:400]


def _parsed(line: bytes) -> tuple[str, int, str]:
    """Return kind, PID and text of an agent's line. A container may forge the text: use it only for printing."""
    try:
        answer = json.loads(line)
        word, pid, text = str(answer["word"]), int(answer["pid"]), str(answer["text"])[:400]
    except (ValueError, KeyError, TypeError, RecursionError):
        return "", 0, ""
    return word, pid, "".join(each if is_text(each) else "?" for each in text)


def _mappings(target: Target, folder: str, root: Path) -> tuple[tuple[str, str], ...]:
    """Return the mapping of the code from the target's mounts; without them, `folder` is the repository."""
    if not folder.startswith("/") or folder == "/":
        return ()
    if (found := target.code_at(folder)) is not None:
        local, remote = found
        with contextlib.suppress(ValueError):
            return ((os.path.relpath(local, root), remote),) if _is_below(local, root) else ()
    return ((".", folder),)


def _is_below(path: str, root: Path) -> bool:
    real = os.path.realpath(path)
    return real == str(root) or real.startswith(f"{root}/")
