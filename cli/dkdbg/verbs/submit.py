"""`dkdbg submit`: submit a job with its ranks under the agent, wait and attach; or hold an allocation for commands."""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from typing import TYPE_CHECKING, NoReturn

from dkdbg import console, hints, process, signals
from dkdbg.core.jobs import Submission
from dkdbg.core.sessions import UNREADABLE
from dkdbg.errors import EXIT_INTERRUPTED, EXIT_USAGE, DkdbgError
from dkdbg.launchers.lines.wrappers import program_name
from dkdbg.targets import registry
from dkdbg.targets.batch.job import NoCommandsError, SeveralJobsError, after, in_words
from dkdbg.verbs import values

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from dkdbg.core.jobs import Job, Queue
    from dkdbg.verbs.parser import Parser

#: Seconds between two queries of the batch system, at first and later; all users of the cluster share that system.
_FIRST_POLL_S, _LATER_POLL_S = 1.0, 10.0
#: Maximum queries for the outcome of an ended job, which the batch system records a moment after the end.
_MAX_OUTCOME_QUERIES = 20
#: Number of queries at the shorter interval.
_QUERIES_AT_FIRST = 30
#: Maximum seconds to wait for another rank, once the first one is up.
_STRAGGLER_TIMEOUT_S = 60.0


def add_options(parser: Parser) -> None:
    """Add the arguments of `dkdbg submit`."""
    parser.usage = "dkdbg submit [--on TARGET] [options] [options of the batch system] -- CMD"
    parser.shows_batch_systems = True
    parser.allow_abbrev = False  # `--no` may be an option of the batch system
    parser.add_argument(
        "--on", metavar="TARGET", help="SCHEME://LOGIN of a batch system; `dkdbg help submit` lists them"
    )
    parser.add_argument(
        "--wait", type=values.count, nargs="?", default=0, const=600, metavar="SECONDS",
        help="make each rank wait for an editor (600)",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=values.port, default=5677, metavar="PORT", help="for the editor, on 127.0.0.1 (5677)"
    )
    parser.add_argument(
        "--in",
        dest="folder",
        metavar="FOLDER",
        default="",
        help="remote working directory of the job (default: your home)",
    )
    parser.add_argument("--no-attach", action="store_true", help="submit only; print the attach command")
    parser.add_argument(
        "--interactive", action="store_true", help="hold the nodes for a shell or CMD until it ends; nodes that are already held are reused"
    )  # fmt: skip
    parser.add_argument(
        "--keep", action="store_true", help="with --interactive: keep the nodes when the shell ends"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per line for each event")


def call(options: argparse.Namespace, root: Path) -> int:
    """Submit a job, wait for its ranks and attach to them; return the exit code.

    Raises:
        DkdbgError: the batch system rejects the job, or the job ends before its ranks are up.
    """
    target, command = options.on or f"{registry.batch_systems()[0].scheme}://", options.ranks
    if not command and not options.interactive:
        raise DkdbgError(
            "there is no command to run",
            hint=hints.SUBMIT(target=target),
            exit_code=EXIT_USAGE,
        )
    with contextlib.closing(registry.queue_of(target)) as queue, _hinting(target):
        say = _Said(options.json)
        if options.interactive:
            return _hold(root, queue, options, say)
        wanted = _submission(options, command, wait=options.wait, name=program_name(command))
        job = ""
        queue.connect()  # not delayed: ssh may prompt, or another dkdbg may be connecting
        try:
            with signals.delayed():  # a job whose number is unknown cannot be cancelled
                job = queue.submit(wanted)
            address = queue.address(job)
            say("job", f"job {job} is submitted: {address}", job=job, address=address)
            if options.no_attach:
                return 0
            _wait_for_nodes(queue, job, say)
            _wait_for_ranks(root, queue, job, say)
        except SeveralJobsError as array:
            return _name_each(queue, job, array.ids, say)
        except KeyboardInterrupt:
            if not job:
                raise
            return _leave(queue, job, queue.address(job), say)
        from dkdbg.verbs.attach import attach

        end = _End(queue, job)
        code = attach(root, [address], port=options.port, ports=None, as_json=options.json, is_over=end)
        last = _with_outcome(queue, end.job) if end.job is not None else None
        if last is not None and not last.succeeded:
            raise _ended(queue, last)
    if last is not None:
        say("ended", f"job {job} has ended: {last.state}", job=job, state=last.state)
    else:
        say("left", hints.JOB_GOES_ON(job=job, target=address), job=job)
    return code


@contextlib.contextmanager
def _hinting(target: str) -> Iterator[None]:
    """Add to errors a hint on how to name a login node for `submit`, whose target is not a job."""
    try:
        yield
    except NoCommandsError as error:
        scheme = target.partition(":")[0]
        raise NoCommandsError(
            error.message,
            hint=f"name the login node: dkdbg submit --on {scheme}://LOGIN ... -- python train.py",
            exit_code=error.exit_code,
        ) from error


class _End:
    """Checks whether a job has ended, at most once in _LATER_POLL_S.

    Attributes:
        job: the ended job; None before its end.
    """

    def __init__(self, queue: Queue, job: str) -> None:
        self._queue, self._id, self._next = queue, job, 0.0
        self.job: Job | None = None

    def __call__(self) -> bool:
        """Query the job unless the last query is too recent; return whether the job has ended."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _LATER_POLL_S
            with contextlib.suppress(DkdbgError):  # the login node does not answer at the moment
                seen = self._queue.read(self._id)
                self.job = seen if seen.phase == "ended" else None
        return self.job is not None


class _Said:
    """Reports events to a user or a program."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def __call__(self, kind: str, text: str, **more: object) -> None:
        if self._as_json:
            console.say(console.event_line(kind, text, **more))
        else:
            console.warn(f"dkdbg: {text}")


def _wait_for_nodes(queue: Queue, job: str, say: _Said) -> Job:
    """Wait until the job runs, and return it; report each change of its state. Raises DkdbgError: the job has ended."""
    shown = ""
    for count in range(sys.maxsize):
        seen = queue.read(job)
        text = seen.state + (f" ({seen.reason})" if seen.reason else "")
        if seen.phase == "running" and seen.nodes:
            say("nodes", f"job {job} runs on {', '.join(seen.nodes)}", job=job, nodes=seen.nodes)
            return seen
        if text != shown:
            say("state", f"job {job}: {text}", job=job, state=seen.state, reason=seen.reason)
            shown = text
        if seen.phase == "ended":
            raise _ended(queue, _with_outcome(queue, seen))
        time.sleep(_FIRST_POLL_S if count < _QUERIES_AT_FIRST else _LATER_POLL_S)
    raise AssertionError  # the loop is endless


def _wait_for_ranks(root: Path, queue: Queue, job: str, say: _Said) -> None:
    """Wait until all ranks are up, or no further rank has come up for _STRAGGLER_TIMEOUT_S.

    Raises:
        DkdbgError: the job ended before its ranks were up.
    """
    last, since = -1, time.monotonic()
    with contextlib.closing(registry.target_of(queue.address(job), root)) as target:
        while True:
            seen = queue.read(job)
            if seen.phase == "ended":
                raise _ended(queue, _with_outcome(queue, seen))
            up = 0
            if seen.phase == "running":
                with contextlib.suppress(DkdbgError):  # the node does not answer yet
                    up = sum(not each.is_ended and each.state != UNREADABLE for each in target.sessions())
            if up != last:
                last, since = up, time.monotonic()
                say(
                    "ranks",
                    f"job {job}: {up} of {seen.tasks or '?'} ranks are up",
                    job=job,
                    up=up,
                    tasks=seen.tasks,
                )
            if up and (up >= (seen.tasks or 1) or time.monotonic() - since > _STRAGGLER_TIMEOUT_S):
                return
            time.sleep(_FIRST_POLL_S)


def _with_outcome(queue: Queue, job: Job) -> Job:
    """Return an ended job with its outcome; wait until the batch system has recorded that."""
    for _ in range(_MAX_OUTCOME_QUERIES):
        if job.succeeded is not None:
            break
        time.sleep(_FIRST_POLL_S)
        with contextlib.suppress(DkdbgError):  # keep the state that is known
            job = queue.read(job.id)
    return job


def _ended(queue: Queue, job: Job) -> DkdbgError:
    reason = f" ({job.reason})" if job.reason else ""
    argv = queue.output_tail(job)
    text = f"job {job.id} has ended: {job.state}{reason}"
    return DkdbgError(
        f"{text}\n{argv}" if argv else text,
        hint=after(job, queue.address(job.id)),
    )


def _name_each(queue: Queue, job: str, ids: Sequence[str], say: _Said) -> int:
    """Print the attach commands for an array's jobs or a heterogeneous job's parts; return exit code 0.

    Args:
        ids: the jobs, if the batch system lists them one by one. If empty, print the address of the whole array: an
            attach to that lists the jobs later.
    """
    addresses = [queue.address(each) for each in ids] or [queue.address(job)]
    commands = in_words([f"dkdbg attach {shlex.quote(each)}" for each in addresses])
    say(
        "array",
        f"job {job} consists of several jobs; each has its own session once it runs: {commands}; "
        f"they keep running, and {queue.cancelling(job)} on the login node cancels them all",
        job=job,
        addresses=addresses,
    )
    return 0


def _leave(queue: Queue, job: str, address: str, say: _Said) -> int:
    """Handle Ctrl-C before an attach: cancel the job, unless the user says no."""
    try:
        keeps = sys.stdin.isatty() and sys.stderr.isatty() and _answers_no(job)
    except KeyboardInterrupt:  # a second Ctrl-C
        keeps = False
    if keeps:
        say("left", f"job {job} was not cancelled; dkdbg attach {address} waits for it", job=job)
        return EXIT_INTERRUPTED
    queue.cancel(job)
    say("cancelled", f"job {job} is cancelled", job=job)
    return EXIT_INTERRUPTED


def _answers_no(job: str) -> bool:
    console.warn(f"\ndkdbg: cancel job {job}? [Y/n] ")
    return sys.stdin.readline().strip().lower() in {"n", "no"}


def _submission(options: argparse.Namespace, command: Sequence[str], *, wait: int, name: str) -> Submission:
    return Submission(
        command=tuple(command),
        options=tuple(options.others),
        wait=wait,
        name=f"dkdbg-{name}",
        folder=options.folder,
    )


def _hold(root: Path, queue: Queue, options: argparse.Namespace, say: _Said) -> int:
    """Run a shell or a command on the first node of an allocation; reuse an allocation that is already held."""
    signals.handle(signals.interrupt_once)  # for a closed terminal, too: held nodes cost money
    job = queue.held()
    taken, code = bool(job), EXIT_INTERRUPTED
    if taken:
        if options.others:
            raise DkdbgError(
                f"job {job} already holds nodes, and options only apply to a new one",
                hint=f"omit the options to reuse it, or: dkdbg run --on {queue.address(job)} -- CMD",
                exit_code=EXIT_USAGE,
            )
        say("job", f"job {job} already holds nodes and is reused", job=job, address=queue.address(job))
    try:
        if not taken:
            with signals.delayed():
                job = queue.submit(_submission(options, (), wait=0, name="interactive"))
            say("job", f"job {job} is submitted: {queue.address(job)}", job=job, address=queue.address(job))
        _wait_for_nodes(queue, job, say)
        code = _run_in_job(root, queue.address(job), options.ranks, options.wait)
    except KeyboardInterrupt:
        if not job:
            raise
    finally:
        if taken or (options.keep and code != EXIT_INTERRUPTED):
            say(
                "left",
                f"job {job} still holds its nodes: dkdbg run --on {queue.address(job)} -- python train.py",
                job=job,
            )
        elif job:
            with signals.ignored():
                queue.cancel(job)
            say("cancelled", f"job {job} is cancelled", job=job)
    return code


def _run_in_job(root: Path, address: str, command: Sequence[str], wait: int) -> int:
    """Run a command under the agent; without a command, run a login shell in this terminal."""
    if command:
        from dkdbg.verbs.run import run

        return run(root, address, command, port=None, wait=wait)
    tty = all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
    shell = ("sh", "-c", 'exec "${SHELL:-/bin/sh}" ' + ("-l" if tty else ""))
    with contextlib.closing(registry.target_of(address, root)) as target:
        return process.attached(target.wrap(shell, tty=tty), tty=tty, on_signal=_interrupt)


def _interrupt(_number: int) -> NoReturn:
    raise KeyboardInterrupt
