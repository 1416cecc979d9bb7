"""The address of a batch job and the protocol of a batch system; `slurm://LOGIN/JOB[/NODE][:SESSION]`. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dkdbg import hints
from dkdbg.core.address import Address
from dkdbg.errors import EXIT_USAGE, DkdbgError, GoneError
from dkdbg.printable import printable
from dkdbg.targets.batch.hostlist import is_node
from dkdbg.targets.ssh.command import SshHosts, hosts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.jobs import Job
    from dkdbg.targets.batch.job_script import Script

#: An agent's session name, as a job script gives it: `rank3`.
_SESSION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


@dataclass(frozen=True, kw_only=True)
class JobAddress:
    """What an address of a batch system says.

    Attributes:
        login: the way to the host where the system's commands are; None: they are on this machine.
        job: its number; empty where a new job is meant.
        node: one of the job's; empty for its first.
        session: the name of the session that is meant there; empty for the newest.
    """

    login: SshHosts | None
    job: str
    node: str
    session: str

    @property
    def name(self) -> str:
        """For people: `login`, or `this machine`."""
        return self.login.name if self.login is not None else "this machine"


class BatchSystem(Protocol):
    """What a batch system is asked with, and what it answers. Texts are for a `sh` on the login node."""

    @property
    def scheme(self) -> str:
        """Of its addresses."""

    @property
    def template(self) -> str:
        """Of its job scripts."""

    @property
    def path(self) -> str:
        """The text that puts its programs on PATH; see `on_path`."""

    @property
    def job_form(self) -> re.Pattern[str]:
        """What a job may be called."""

    def show(self, job: str) -> str:
        """The text that asks for a job."""

    def read(self, job: str, code: int, said: str, complained: str) -> Job:
        """The job by the answer.

        Raises:
            DkdbgError: there is none, or several, or the answer makes no sense.
        """

    def over(self, job: str) -> str:
        """The text for `sh` on a node that ends with 0 when the job has ended, or runs no more, and else with another code."""

    def step(self, job: str, node: str, *, tty: bool) -> tuple[str, ...]:
        """The words, run on the login node, that run what follows them on a node of the job; none where there is no such program."""

    def explain(self, said: str, *, job: str, node: str) -> DkdbgError | None:
        """The error that its program's own words mean; None when they are not known."""

    def submit(self, script: Script) -> tuple[str, ...]:
        """The words, run on the login node, that submit the script."""

    def submitted(self, said: str) -> str:
        """The number of the new job in the answer; empty when there is none."""

    def jobs(self) -> str:
        """The text that lists this user's jobs that wait or run: the number, and something that holds the script's tag."""

    def cancel(self, job: str) -> tuple[str, ...]:
        """The words that end a job."""


def on_path(program: str) -> str:
    """Return the text for `sh` that reads the profile where a shell without a login does not find `program`."""
    return f"command -v {program} >/dev/null 2>&1 || . /etc/profile >/dev/null 2>&1; "


def job_address(address: Address, job_form: re.Pattern[str], *, new: bool = False) -> JobAddress:
    """Return what an address says.

    Args:
        new: it names no job, but where to submit one.

    Raises:
        DkdbgError: it makes no sense.
    """
    form = f"{address.scheme}://LOGIN/JOB[/NODE], or {address.scheme}:///JOB on the login node itself"
    first, *more = address.parts
    login = hosts_of(Address(scheme="ssh", rest=first)) if first else None
    last, colon, session = more[-1].partition(":") if more else ("", "", "")
    job, node = (last, "") if len(more) < 2 else (more[0], last)
    if new and not more:
        return JobAddress(login=login, job="", node="", session="")
    wrong = (
        (not job_form.fullmatch(job) and f"{job!r} is no job")
        or (len(more) > 2 and "it has too many parts")
        or (node and not is_node(node) and f"{node!r} is no node")
        or (colon and not _SESSION.fullmatch(session) and f"{session!r} is no session")
    )
    if wrong:
        raise DkdbgError(f"{address}: {wrong}", hint=form, exit_code=EXIT_USAGE)
    return JobAddress(login=login, job=job, node=node, session=session)


def choose_node(job: Job, address: JobAddress, shown: str) -> str:
    """The node that is meant.

    Args:
        shown: the address, for people.

    Raises:
        DkdbgError: the job has none now, or not this one.
    """
    if job.phase == "waiting":
        why = f" ({job.reason})" if job.reason else ""
        raise DkdbgError(
            f"job {job.id} has no nodes yet: it is {job.state}{why}",
            hint="wait for it: dkdbg attach waits by itself, and so does dkdbg submit",
        )
    if job.phase == "ended":
        why = f" ({job.reason})" if job.reason and job.reason != "None" else ""
        raise GoneError(f"job {job.id} has ended: {job.state}{why}", hint=another(shown))
    if job.phase == "held":
        raise DkdbgError(
            f"nothing runs in job {job.id} now: it is {job.state}", hint="try again when it runs"
        )
    if not job.nodes:
        raise DkdbgError(f"job {job.id} is {job.state}, and nothing says on which nodes", hint="try again")
    if address.node and address.node not in job.nodes:
        raise DkdbgError(
            f"{address.node} is not a node of job {job.id}: it has {in_words(job.nodes)}",
            hint=f"without a node it is the first one: {shown.rpartition('/')[0]}",
        )
    return address.node or job.nodes[0]


def an_array(job: str, ids: Sequence[str]) -> DkdbgError:
    """Return the error for a job that stands for several."""
    names = [printable(each) for each in ids]
    return DkdbgError(
        f"job {job} is an array, and several are meant: {in_words(names)}",
        hint=f"name one: {names[0]}",
        exit_code=EXIT_USAGE,
    )


def another(address: str) -> str:
    """What to type for a job that takes the place of the one at `address`."""
    return hints.JOB_ANOTHER(target="/".join(address.split("/")[:3]))


def in_words(names: Sequence[str]) -> str:
    """The first of them, and how many more."""
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if names[4:] else "")
