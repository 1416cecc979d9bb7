"""Entering Pythons that run already: the agent is brought beside them, has them let it in, and goes with `dkdbg attach`."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import secrets
import shlex
import threading
import time
from typing import TYPE_CHECKING, Protocol

from dkdbg import hints, process
from dkdbg.core.pythons import is_debugpy, programs_of
from dkdbg.core.target import Capability
from dkdbg.delivery.bring import bring, running_at
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.printable import is_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dkdbg.core.pythons import PythonThere
    from dkdbg.core.target import Reach, Target
    from dkdbg.delivery.bring import Brought

#: Seconds until the agent there has said what comes of it, and that it gets to leave.
_LIMIT, _GOODBYE = 120.0, 10.0
_TIMEOUT_S = 0.5
#: Bytes of a line of it, and lines that are kept until they are read.
_MOST, _KEPT = 1 << 14, 100
#: Ports that nobody is given by name, for where ours is taken.
_FREE = range(49152, 65536)
#: Words of the agent's (agent/run, agent/inprocess/entered.py).
_TAKEN, _IN_ANOTHER = "cannot listen on", "in another session of dkdbg already"


class Reporter(Protocol):
    """Who hears of it."""

    def line(self, text: str) -> None:
        """One line for a person."""


class Entered:
    """Running Pythons of a target under an agent that dkdbg has brought.

    Attributes:
        mappings: where the code lies, here and there.
    """

    def __init__(self, agent: _Agent, mappings: tuple[tuple[str, str], ...]) -> None:
        self._agent = agent
        self.mappings = mappings

    def close(self) -> None:
        """Leave them; they run on."""
        self._agent.close()


def enter(target: Target, pids: Sequence[int], root: Path, reporter: Reporter) -> Entered | None:
    """Attach to running Pythons of a target without an agent; return None if no PID is given.

    Args:
        target: that was named.
        pids: which; without any it is said how each program that runs there is entered.
        root: of the repository here.

    Raises:
        DkdbgError: those pids are no Pythons there, or none of them lets us in.
    """
    words: Sequence[str] = ()
    if Capability.LIST_PROCESSES in target.capabilities:
        if not (pids or target.is_meant):
            return None
        try:
            found = target.pythons()
        except DkdbgError:
            if pids:
                raise
            return None  # it may come
        programs = [] if is_debugpy(found) else programs_of(found)
        if not pids:
            _tell_how(target, programs, reporter)
            return None
        chosen = _chosen(target, found, programs, pids)
        if not chosen:
            raise DkdbgError(
                f"{target.label} runs a plain debugpy, and no second debugger enters its program",
                hint=f"dkdbg attach {target.address} says how to get to it",
            )
        words, numbers = chosen[0].words, [each.pid for each in chosen]
        reach = target.within(chosen[0].user)
    elif pids:
        numbers, reach = list(pids), target.find()
    else:
        return None
    try:
        agent = _in(target, reach, numbers, reporter)
    except DkdbgError as error:
        words = words or _words_of(reach, numbers[0])
        again = hints.RUN_AGAIN(target=target.address, command=shlex.join(words))
        hint = again + _in_its_place(target, words)
        if _IN_ANOTHER in error.message:
            hint = hints.JOIN_SESSION(target=target.address)
        raise DkdbgError(f"{target.label} cannot be entered: {error.message}", hint=hint) from error
    return Entered(agent, _mappings(target, agent.folder, root))


def _words_of(reach: Reach, pid: int) -> Sequence[str]:
    """The command line of a Python there; CMD where its system does not tell it."""
    found: Sequence[PythonThere] = ()
    with contextlib.suppress(DkdbgError):
        found = running_at(reach)
    return next((each.words for each in found if each.pid == pid), ("CMD",))


def _in_its_place(target: Target, words: Sequence[str]) -> str:
    """Return the line that recreates the target under the agent; empty if that is unknown."""
    try:
        line, variables = target.recreation(words)
    except DkdbgError:
        return ""
    if not line:
        return ""
    without = f" without {', '.join(variables)}, whose values have several lines" if variables else ""
    return (
        "\n  or have a new container in its place, with the same image, mounts, network, ports and environment"
        f"{without} (this one is stopped and kept):\n  {line}"
    )


def _tell_how(target: Target, programs: Sequence[Sequence[PythonThere]], reporter: Reporter) -> None:
    # Not by itself: what runs now may be what `dkdbg run` is about to debug, seen a moment too early.
    theirs = [each for each in programs if not any(word.endswith(".pyz") for word in each[0].words)]
    for program in theirs[:8]:
        reporter.line(f"{target.label} runs process {program[0].pid}: {shlex.join(program[0].words)[:120]}")
        reporter.line(hints.ENTER(target=target.address, pid=program[0].pid))


def _chosen(
    target: Target,
    found: Sequence[PythonThere],
    programs: Sequence[Sequence[PythonThere]],
    pids: Sequence[int],
) -> Sequence[PythonThere]:
    """Return the processes of these numbers, and what they have started."""
    wanted = [each for each in found if each.pid in pids]
    if missing := sorted(set(pids) - {each.pid for each in wanted}):
        there = ", ".join(f"{each.pid}" for each in found) or "none that could be entered"
        raise DkdbgError(
            f"process {missing[0]} of {target.label} is no Python without dkdbg; there are: {there}",
            hint=f"dkdbg attach {target.address}",
            exit_code=EXIT_USAGE,
        )
    return [each for program in programs for each in program if each in wanted or program[0] in wanted]


def _in(target: Target, reach: Reach, pids: Sequence[int], reporter: Reporter) -> _Agent:
    host, port = target.listen_address()
    if Capability.LIST_PROCESSES not in target.capabilities:
        port = 0
    brought = bring(reach)
    try:
        for again in range(3):
            words = ("--host", host, "--port", str(port), "--name", target.label)
            argv = (*brought.argv, "enter", ",".join(map(str, pids)), *words)
            agent = _Agent(brought, reach.wrap(argv), reporter, len(pids))
            try:
                agent.wait()
            except DkdbgError as error:
                agent.end()
                if again == 2 or not port or _TAKEN not in error.message:
                    raise
                port = secrets.choice(
                    _FREE
                )  # a number that others may guess: who may connect, the agent checks
            except BaseException:
                agent.end()
                raise
            else:
                return agent
    except BaseException:
        brought.close()
        raise
    raise AssertionError("unreachable")


class _Agent:
    """The agent at the target, which says a JSON object a line, and goes when its input ends."""

    def __init__(self, brought: Brought, argv: Sequence[str], reporter: Reporter, count: int) -> None:
        self._brought, self._reporter, self._count = brought, reporter, count
        self.folder = ""
        self._lines: queue.Queue[bytes | None] = queue.Queue(_KEPT)
        self._is_over = False
        self._words = b""
        self._process = process.converse(argv)
        self._readers = [
            threading.Thread(target=self._read_lines, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for each in self._readers:
            each.start()

    def wait(self) -> None:
        """Until each process has answered, or is said to be late.

        Raises:
            DkdbgError: none lets us in; why.
        """
        end, answered, reasons, is_in = time.monotonic() + _LIMIT, 0, [], False
        while answered < self._count:
            try:
                line = self._lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise DkdbgError("its agent does not answer") from None
            if line is None:
                break
            word, pid, text = _said(line)
            if word == "folder":
                self.folder = text
            elif word == "entered":
                answered, is_in = answered + 1, True
                self._reporter.line(f"entered process {pid}; it runs on when you leave")
            elif word == "late":
                answered, is_in = answered + 1, True
                self._reporter.line(f"process {pid}: {text}")
            elif word == "skipped":
                answered += 1
            elif word == "refused":
                answered += 1
                reasons.append(text)
        self._is_over = True
        if not is_in:
            with contextlib.suppress(process.TimeoutExpired):
                self._process.wait(_GOODBYE)
            self._readers[1].join(_GOODBYE)
            raise DkdbgError(reasons[0] if reasons else self._last_words())
        for reason in reasons:
            self._reporter.line(f"not entered: {reason}")

    def close(self) -> None:
        """Let the agent leave, and take it away."""
        self.end()
        self._brought.close()

    def end(self) -> None:
        """Let the agent leave."""
        self._is_over = True
        assert self._process.stdin is not None  # noqa: S101
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(process.TimeoutExpired):
            self._process.wait(_GOODBYE)
        self._process.kill()
        self._process.wait()

    def _read_lines(self) -> None:
        assert self._process.stdout is not None  # noqa: S101
        rest = b""
        with contextlib.suppress(OSError):
            while data := os.read(self._process.stdout.fileno(), _MOST):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._put(line[:_MOST])
                rest = rest[:_MOST]
        self._put(None)

    def _put(self, line: bytes | None) -> None:
        """For `wait`; what comes afterwards nobody reads, and it must not hold up who says it."""
        while not self._is_over:
            with contextlib.suppress(queue.Full):
                self._lines.put(line, timeout=_TIMEOUT_S)
                return

    def _read_errors(self) -> None:
        assert self._process.stderr is not None  # noqa: S101
        with contextlib.suppress(OSError):
            while data := os.read(self._process.stderr.fileno(), _MOST):
                self._words = (self._words + data)[-_MOST:]

    def _last_words(self) -> str:
        lines = [each for each in self._words.decode("utf-8", "replace").splitlines() if each.strip()]
        last = lines[-1].removeprefix("dkdbg: ") if lines else "its agent has ended and said nothing"
        return "".join(each if is_text(each) else "?" for each in last)[:400]


def _said(line: bytes) -> tuple[str, int, str]:
    """What the agent says; a container may have made it up: it is shown, and nothing else."""
    try:
        said = json.loads(line)
        word, pid, text = str(said["word"]), int(said["pid"]), str(said["text"])[:400]
    except (ValueError, KeyError, TypeError, RecursionError):
        return "", 0, ""
    return word, pid, "".join(each if is_text(each) else "?" for each in text)


def _mappings(target: Target, folder: str, root: Path) -> tuple[tuple[str, str], ...]:
    """Where the code lies: by what is mounted there, else the working folder is the repository."""
    if not folder.startswith("/") or folder == "/":
        return ()
    if (found := target.code_at(folder)) is not None:
        here, there = found
        with contextlib.suppress(ValueError):
            return ((os.path.relpath(here, root), there),) if _is_below(here, root) else ()
    return ((".", folder),)


def _is_below(path: str, root: Path) -> bool:
    real = os.path.realpath(path)
    return real == str(root) or real.startswith(f"{root}/")
