"""Submit jobs to a batch system from its login node; never submit a job twice, nor lose track of one."""

from __future__ import annotations

import contextlib
import secrets
import shlex
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.core.address import Address
from dkdbg.core.known_errors import last_line
from dkdbg.delivery import single_file
from dkdbg.errors import EXIT_TIMEOUT, EXIT_USAGE, DkdbgError
from dkdbg.printable import printable, printable_lines
from dkdbg.repository.artefacts import render
from dkdbg.targets.batch.job import Script, filling, job_address, prepared, preparing, tags_of
from dkdbg.targets.ssh.command import FAILED, enter, quoted
from dkdbg.targets.ssh.login import Login

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.jobs import Job, Submission
    from dkdbg.core.target import Executor
    from dkdbg.targets.batch.job import BatchSystem

#: Timeouts for an answer of the batch system, and to send the agent to the login node.
_ANSWER_TIMEOUT_S, _SEND_TIMEOUT_S = 60.0, 120.0
#: Line printed after the submitting program has exited. Exit code 255 alone may be its own, or a lost ssh connection's.
_ENDED = "dkdbg-submit-ended"
#: Number of last lines of a job's output to show.
_SHOWN_LINES = 8
_PYTHON = "import sys; print('dkdbg-python %d %d' % sys.version_info[:2])"


class JobQueue:
    """Queue of a batch system; see `Queue` in `core/jobs.py`."""

    def __init__(self, system: BatchSystem, address: Address) -> None:
        parsed = job_address(address, system.job_form, new=True)
        if parsed.job:
            raise DkdbgError(
                f"{address} names an existing job; `submit` creates a new one",
                hint=f"a new one: dkdbg submit --on {system.scheme}://{address.parts[0]}; in this one: dkdbg run --on {address}",
                exit_code=EXIT_USAGE,
            )
        self._system = system
        self._rest = address.parts[0]
        self._login = Login(parsed.login).enter()

    def connect(self) -> None:
        """Connect to the login node."""
        self._login.executor()

    def submit(self, wanted: Submission) -> str:
        """Send the agent and the job script, submit the script, and return the job's number."""
        login = self._login.executor(asks=False)
        self._check_folder(login, wanted.folder)
        tag = f"{'job' if wanted.command else 'held'}-{secrets.token_hex(4)}"
        folder = self._prepare(login, tag)
        script = render(
            self._system.template, folder=folder, wait=wanted.wait, command=shlex.join(wanted.command)
        )
        found = Script(path=f"{folder}/job.sh", tag=tag, name=wanted.name, options=wanted.options)
        try:
            argv = self._system.submit(found)
            self._fill(login, folder, script, wanted)
        except BaseException:
            self._remove(folder)
            raise
        text = (
            f"{self._system.path}{enter(wanted.folder)}{shlex.join(argv)}; code=$?; echo {_ENDED}; exit $code"
        )
        return self._hand_over(login, text, tag, folder, argv[0])

    def held(self) -> str:
        """Return the number of a job that waits for commands, known by its `held-` folder; empty without such a job."""
        return next((job for tag, job in self._tags(asks=True).items() if tag.startswith("held-")), "")

    def read(self, job: str) -> Job:
        """Query a job; see `BatchSystem.read`."""
        done = self._run(("sh", "-c", self._system.show(job)))
        return self._system.read(job, done.code, done.stdout, done.stderr)

    def output_tail(self, job: Job) -> str:
        """Return the end of the job's output file, as the login node sees it."""
        if not job.output:
            return ""
        with contextlib.suppress(DkdbgError):
            done = self._run(("tail", "-n", str(_SHOWN_LINES), "--", job.output))
            return printable_lines(done.stdout).rstrip()
        return ""

    def cancelling(self, job: str) -> str:
        """Return the command that cancels a job, for a shell on the login node."""
        return shlex.join(self._system.cancel(job))

    def cancel(self, job: str) -> None:
        """Cancel a job with the system's own program."""
        argv = self.cancelling(job)
        done = self._run(("sh", "-c", self._system.path + argv))
        if done.code:
            raise self._system.explain(done.stderr, job=job, node="") or DkdbgError(
                f"job {job} was not cancelled: {printable(done.stderr.strip()[-300:])}",
                hint=f"on the login node: {argv}",
            )

    def address(self, job: str) -> str:
        """Return the job's address through the same login node."""
        return str(Address(scheme=self._system.scheme, rest=f"{self._rest}/{job}"))

    def close(self) -> None:
        """Close the connection."""
        self._login.close()

    def _run(self, argv: Sequence[str]) -> process.Result:
        return self._login.read(self._login.executor(asks=False).wrap(argv), limit=_ANSWER_TIMEOUT_S)

    def _tags(self, *, asks: bool) -> dict[str, str]:
        """Return the numbers of this user's waiting and running jobs by tag. Raises DkdbgError."""
        login = self._login.executor(asks=asks)
        done = self._login.read(login.wrap(("sh", "-c", self._system.jobs())), limit=_ANSWER_TIMEOUT_S)
        if done.code:
            raise self._system.explain(done.stderr, job="", node="") or DkdbgError(
                f"{self._system.scheme} does not list your jobs: {printable(done.stderr.strip()[-300:])}",
                hint=f"does {self._system.scheme} answer on {self._rest or 'this machine'}?",
            )
        return tags_of(done.stdout)

    def _check_folder(self, login: Executor, folder: str) -> None:
        """Raise DkdbgError if the folder, absolute or below the home, cannot be entered; an empty one is the home."""
        if not folder:
            return
        done = self._login.read(login.wrap(("sh", "-c", f"cd {quoted(folder)}")), limit=_ANSWER_TIMEOUT_S)
        if done.code > 0 and done.code != FAILED:
            below = folder if folder.startswith(("/", "~")) else f"~/{folder}"
            raise DkdbgError(
                f"there is no folder {folder} on {login.label}, or you may not enter it",
                hint=f"dkdbg sync ssh://{self._rest}/{below.lstrip('/')} --once creates it and copies your files into it"
                if self._rest
                else "create it, or name another: --in FOLDER",
                exit_code=EXIT_USAGE,
            )

    def _prepare(self, login: Executor, tag: str) -> str:
        """Create the folder for the script and the agent, accessible only to its user; return its path."""
        marker = f"dkdbg-{secrets.token_hex(8)}"
        done = self._login.read(
            login.wrap(("sh", "-c", preparing(tag, marker, self._system.jobs()))), limit=_ANSWER_TIMEOUT_S
        )
        folder = prepared(marker, tag, done.stdout)
        if not folder:
            last = last_line(done.stderr) or "its path contains unsupported characters"
            raise DkdbgError(
                f"cannot make a folder for the job's script on {login.label}: {last}",
                hint="set XDG_CACHE_HOME on the login node to a folder that all nodes share",
            )
        return folder

    def _fill(self, login: Executor, folder: str, script: str, wanted: Submission) -> None:
        agent = single_file.build(self._python(login, wanted))
        running = process.converse(login.wrap(("sh", "-c", filling(folder, len(agent)))))
        try:
            out, stderr = running.communicate(agent + script.encode(), timeout=_SEND_TIMEOUT_S)
        except process.TimeoutExpired as error:
            raise DkdbgError(f"{login.label} did not receive the agent in time", hint="try again") from error
        finally:
            process.end(running)
        if running.returncode or b"filled" not in out:
            last = last_line(stderr.decode("utf-8", "replace")) or "no output"
            raise DkdbgError(
                f"the job's script cannot be written on {login.label}: {last}",
                hint="is your home on the login node full? df -h ~; quota",
            )

    def _python(self, login: Executor, wanted: Submission) -> tuple[int, int]:
        """Return the Python version of the login node, which selects the debugpy to send; the nodes are not known yet."""
        argv = ("sh", "-c", single_file.short_launcher(), "-c", _PYTHON, "--", *wanted.command[:1])
        text = enter(wanted.folder) + shlex.join(argv)
        lines = self._login.read(login.wrap(("sh", "-c", text)), limit=_ANSWER_TIMEOUT_S).stdout.split()
        with contextlib.suppress(ValueError, IndexError):
            at = lines.index("dkdbg-python")
            return int(lines[at + 1]), int(lines[at + 2])
        return (3, 10)

    def _hand_over(self, login: Executor, text: str, tag: str, folder: str, submitter: str) -> str:
        """Submit once and return the job's number, taken from the system's list of jobs if the answer is lost.

        Raises:
            DkdbgError: the job was refused, or is not in the list, where it may still appear.
        """
        missing = ""
        try:
            done = self._login.read(login.wrap(("sh", "-c", text)), limit=_ANSWER_TIMEOUT_S)
            out, ended, _ = done.stdout.rpartition(_ENDED)
            out = out if ended else done.stdout
            job = self._system.submitted(out) if done.code == 0 else ""
            is_cut = not ended and (done.code < 0 or done.code == FAILED)  # a cut, whatever was printed
            if not job and not is_cut and self._login.is_connected():
                self._remove(folder)
                reason = done.stderr.strip() or out.strip()  # Torque's commands on Slurm write to both
                raise self._system.explain(f"{done.stderr}\n{out}", job="", node="") or DkdbgError(
                    f"{submitter} refused the job: {printable(reason[-300:])}",
                    hint=f"dkdbg passes the options before -- to {submitter}",
                )
        except DkdbgError as error:
            job = ""
            if error.exit_code == EXIT_TIMEOUT:  # sbatch retries for minutes while its controller is busy
                missing = f"{submitter} did not end within {_ANSWER_TIMEOUT_S:g} s"
            elif self._login.is_connected():
                raise
        if job:
            return job
        why = "it is not among your jobs yet"
        try:
            if not missing:
                self._login.drop()
            # no password prompt: signals are delayed, so Ctrl-C could not end the prompt
            job = self._tags(asks=False).get(tag, "")
        except DkdbgError as error:
            why = error.message
        if not job:
            raise DkdbgError(
                f"{missing or 'the connection was lost during submission'}; the job may or may not have been submitted: {why}",
                hint=f"list your jobs on the login node before you submit again; the job's script is {folder}/job.sh",
            )
        return job

    def _remove(self, folder: str) -> None:
        with contextlib.suppress(DkdbgError):
            self._run(("rm", "-rf", "--", folder))
