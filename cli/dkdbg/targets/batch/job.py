"""Parse addresses of batch jobs (`slurm://LOGIN/JOB[/NODE][:SESSION]`), and define `BatchSystem`. No I/O."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dkdbg import hints
from dkdbg.core.address import Address
from dkdbg.core.known_errors import Known, first, line_at
from dkdbg.errors import EXIT_USAGE, DkdbgError, GoneError
from dkdbg.printable import printable
from dkdbg.targets.ssh.command import SshHosts, hosts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.jobs import Job

#: An agent's session name, as a job script sets it: `rank3`.
_SESSION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
#: Valid node names: nothing that ssh, srun or a shell would interpret.
_NODE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}")
#: Name of a job script's folder: `job-`, or `held-` for a job that only holds nodes for later commands, then 8 hex
#: digits.
_TAG = re.compile(r"\b(job|held)-[0-9a-f]{8}\b")
#: Parent of the folders with job scripts, on the login node: below the home, which a cluster's nodes share.
_BASE = '"${XDG_CACHE_HOME:-$HOME/.cache}/dkdbg"'
#: Script that creates a job's folder, accessible only to its user, and removes folders of unknown jobs after an hour.
_PREPARE = """\
umask 077 && mkdir -p {base} && cd {base} && folder=$(pwd -P) || exit 1
known=$({jobs}) && for each in "$folder"/job-* "$folder"/held-*; do
  case $known in *"${{each##*/}}"*) ;; *) [ -z "$(find "$each" -maxdepth 0 -mmin +60 2>/dev/null)" ] || rm -rf "$each" ;; esac
done
mkdir "$folder/{tag}" && printf '\\n%s %s\\n' {marker} "$folder/{tag}"
"""


@dataclass(frozen=True, kw_only=True)
class JobAddress:
    """A parsed address of a batch system.

    Attributes:
        login: address of the host with the system's commands; None if this machine has them.
        job: the job's number; empty for a new job.
        node: one of the job's nodes; empty for the first node.
        session: name of a session on the node; empty for the newest.
        nodes: the job's nodes if dkdbg chose `node`; empty if the user named it. A requeued job gets other nodes, with
            its ranks in the same order: the node at the same index replaces `node`.
    """

    login: SshHosts | None
    job: str
    node: str
    session: str
    nodes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return `login`, or `this machine`, for messages."""
        return self.login.name if self.login is not None else "this machine"


def is_node(name: str) -> bool:
    """Return whether `name` is a valid node name."""
    return _NODE.fullmatch(name) is not None


#: Start of each message in `BatchSystem.known` that reports missing programs.
NO_COMMANDS = "cannot find the commands of"


class NoCommandsError(DkdbgError):
    """The batch system's programs are missing; retrying does not help."""


class BatchSystem(Protocol):
    """Commands and parsers of a batch system. Scripts are for a `sh` on the login node.

    Attributes:
        name: its name for users.
        scheme: scheme of its addresses.
        template: template of its job scripts.
        path: script that puts its programs on PATH; see `on_path`.
        job_form: pattern of valid job numbers.
        known: error messages of its programs: (pattern of a line, problem, hint). {0} stands for the pattern's first
            group, {job} and {node} for the request's job and node. The first match counts.
    """

    name: str
    scheme: str
    template: str
    path: str
    job_form: re.Pattern[str]
    known: Sequence[tuple[str, str, str]]

    def show(self, job: str) -> str:
        """Return the script that queries a job."""

    def read(self, job: str, code: int, stdout: str, stderr: str) -> Job:
        """Parse the answer to `show`. Raises DkdbgError: no job, or several, match, or the answer is invalid."""

    def over(self, job: str) -> str:
        """Return a script for `sh` on a node that exits with 0 only if the job has ended, or was requeued and waits."""

    def step(self, job: str, node: str, *, tty: bool) -> tuple[str, ...]:  # noqa: ARG002
        """Return the words that, before a command line, run it on a node of the job; empty if unsupported.

        They are for the login node.
        """
        return ()

    def explain(self, stderr: str, *, job: str, node: str) -> DkdbgError | None:
        """Return the DkdbgError for an error message of its programs, with the matching line; None if unknown."""
        if (found := first((Known(*each) for each in self.known), stderr)) is None:
            return None
        (_, problem, hint, _), match = found
        groups = [printable((each or "").strip())[:200] for each in match.groups()]
        quoted = line_at(stderr, match.start())
        text = problem.format(*groups, job=job or "the job", node=node or "the node")
        kind = NoCommandsError if problem.startswith(NO_COMMANDS) else DkdbgError
        return kind(f"{text}\n{quoted}" if quoted not in text else text, hint=hint.format(*groups, job=job))

    def submit(self, script: Script) -> tuple[str, ...]:
        """Return the command, for the login node, that submits the script. Raises DkdbgError: its options cannot be used."""

    def submitted(self, stdout: str) -> str:
        """Return the new job's number from the output of `submit`; empty if it has no number."""

    def jobs(self) -> str:
        """Return the script that lists this user's waiting and running jobs, one per line: number, text with tag."""

    def cancel(self, job: str) -> tuple[str, ...]:
        """Return the command that cancels a job."""


def on_path(program: str) -> str:
    """Return the script for `sh` that reads /etc/profile if `program` is not on PATH, as in a non-login shell."""
    return f"command -v {program} >/dev/null 2>&1 || . /etc/profile >/dev/null 2>&1; "


def absolute(path: str) -> str:
    """Return an absolute, printable path unchanged; empty for other texts, such as `$HOME/code`."""
    return path if path.startswith("/") and path.isprintable() else ""


def duration(text: str) -> float | None:
    """Return the seconds of `1-02:03:04`, `02:03:04` or `03:04`; None for other texts, such as UNLIMITED."""
    found = re.fullmatch(r"(?:(\d{1,5})-)?(?:(\d{1,6}):)?(\d{1,6}):(\d\d)", text.strip())
    if found is None:
        return None
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def job_address(address: Address, job_form: re.Pattern[str], *, new: bool = False) -> JobAddress:
    """Parse an address.

    Args:
        new: the address has no job, only the system to submit one to.

    Raises:
        DkdbgError: the address is invalid.
    """
    form = f"{address.scheme}://LOGIN/JOB[/NODE], or {address.scheme}:///JOB on the login node itself"
    first, *more = address.parts
    login = hosts_of(Address(scheme="ssh", rest=first)) if first else None
    last, colon, session = more[-1].partition(":") if more else ("", "", "")
    job, node = (last, "") if len(more) < 2 else (more[0], last)
    if new and not more:
        return JobAddress(login=login, job="", node="", session="")
    wrong = (
        (not job_form.fullmatch(job) and f"{job!r} is not a job")
        or (len(more) > 2 and "it has too many parts")
        or (node and not is_node(node) and f"{node!r} is not a node")
        or (colon and not _SESSION.fullmatch(session) and f"{session!r} is not a session")
    )
    if wrong:
        raise DkdbgError(f"{address}: {wrong}", hint=form, exit_code=EXIT_USAGE)
    return JobAddress(login=login, job=job, node=node, session=session)


def choose_node(job: Job, address: JobAddress, shown: str) -> str:
    """Return the node that the address selects.

    Args:
        shown: the address, for messages.

    Raises:
        DkdbgError: the job has no nodes now, or none of this name.
    """
    if job.phase == "waiting":
        why = f" ({job.reason})" if job.reason else ""
        raise DkdbgError(
            f"job {job.id} has no nodes yet: it is {job.state}{why}",
            hint="wait for it: dkdbg attach and dkdbg submit wait for it automatically",
        )
    if job.phase == "ended":
        why = f" ({job.reason})" if job.reason and job.reason != "None" else ""
        raise GoneError(f"job {job.id} has ended: {job.state}{why}", hint=after(job, shown))
    if job.phase == "held":
        raise DkdbgError(
            f"nothing runs in job {job.id} now: it is {job.state}", hint="try again when it runs"
        )
    if not job.nodes:
        raise DkdbgError(f"job {job.id} is {job.state}, and its nodes are unknown", hint="try again")
    if address.node in address.nodes and len(address.nodes) == len(job.nodes):
        return job.nodes[address.nodes.index(address.node)]
    if address.node and address.node not in job.nodes:
        raise DkdbgError(
            f"{address.node} is not a node of job {job.id}: it has {in_words(job.nodes)}",
            hint=f"without a node it is the first one: {shown.rpartition('/')[0]}",
        )
    return address.node or job.nodes[0]


class SeveralJobsError(DkdbgError):
    """A job number stands for several jobs.

    Attributes:
        ids: the numbers that are valid in an address; jobs listed as a range are missing.
    """

    ids: Sequence[str] = ()


def an_array(job: str, ids: Sequence[str], job_form: re.Pattern[str]) -> SeveralJobsError:
    """Return the error for a job number that stands for several jobs.

    Args:
        job_form: see `BatchSystem`; waiting jobs may be listed as a range, which is not valid in an address.
    """
    fitting = [each for each in ids if job_form.fullmatch(each)]
    names = fitting or [printable(each) for each in ids]
    is_heterogeneous = all("+" in each for each in ids)
    several = (
        "has several parts" if is_heterogeneous else "is an array; the address matches several of its jobs"
    )
    error = SeveralJobsError(
        f"job {job} {several}: {in_words(names)}",
        hint=f"name one: {names[0]}",
        exit_code=EXIT_USAGE,
    )
    error.ids = fitting
    return error


def after(job: Job, address: str) -> str:
    """Return the hint for an ended job: the file with its output, and how to start another."""
    output = f"its output is in {printable(job.output)} on the login node; " if job.output else ""
    return output + hints.JOB_ANOTHER(target="/".join(address.split("/")[:3]))


def in_words(names: Sequence[str]) -> str:
    """Join the first four names, and the number of the others, as text."""
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if names[4:] else "")


@dataclass(frozen=True, kw_only=True)
class Script:
    """A job script on the login node.

    Attributes:
        path: its path.
        tag: name of its folder.
        name: name of the job.
        options: see Submission.
    """

    path: str
    tag: str
    name: str
    options: tuple[str, ...]


def preparing(tag: str, marker: str, jobs: str) -> str:
    """Return the script for `sh` that creates the folder `tag` and prints its path after `marker`.

    Args:
        jobs: script that lists this user's jobs, each with its tag. Folders of other tags are removed after an hour.
    """
    return _PREPARE.format(base=_BASE, tag=tag, marker=marker, jobs=jobs)


def prepared(marker: str, tag: str, stdout: str) -> str:
    """Return the folder from the output of `preparing`; empty if missing, or if a script cannot contain its path."""
    path = stdout.rpartition(f"\n{marker} ")[2].partition("\n")[0] if f"\n{marker} " in stdout else ""
    fits = path.startswith("/") and path.endswith(f"/{tag}") and shlex.quote(path) == path
    return path if fits else ""


def filling(folder: str, size: int) -> str:
    """Return the `sh` script that writes the agent (`size` bytes) and the job script from stdin to `folder`."""
    return f"umask 077 && cd {folder} && head -c {size} >agent.pyz && cat >job.sh && echo filled"


def tags_of(listing: str) -> dict[str, str]:
    """Return tag -> job number from the output of `BatchSystem.jobs`."""
    found = {}
    for line in listing.splitlines():
        tag = _TAG.search(line)
        if tag and line.split():
            found[tag[0]] = line.split()[0]
    return found
