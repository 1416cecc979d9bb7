"""Values of batch jobs: a job as its system describes it, a submission, and the queue for submissions. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

#: Phase of a job: commands cannot run on its nodes yet, can run now, can never run again, or cannot run while it is
#: suspended.
Phase = Literal["waiting", "running", "ended", "held"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A batch job.

    Attributes:
        id: as the system writes it.
        state: state as the system names it, such as RUNNING.
        user: its owner.
        nodes: its nodes, starting with the node that runs its script; empty before the job runs.
        reason: why it waits or has failed; may be empty.
        folder: remote path of the folder that its script runs in; may be empty.
        tasks: number of tasks that it starts, 0 if unknown.
        output: remote file that receives its output; may be empty.
        left_s: seconds from the query until the system ends the job; None if unknown or unlimited.
        succeeded: whether an ended job succeeded; None if its system does not report this, or not yet.
    """

    id: str
    phase: Phase
    state: str
    user: str
    nodes: tuple[str, ...]
    reason: str
    folder: str
    tasks: int = 0
    output: str = ""
    succeeded: bool | None = None
    left_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A request for a job.

    Attributes:
        command: command line of each rank, word by word; empty for a job that only holds nodes for later commands.
        options: options of the batch system's own program, as typed.
        wait: seconds that each rank waits for an editor before its first line.
        name: name of the job, for listings of the batch system.
        folder: remote folder to run in, absolute or relative to the home; empty for the home.
    """

    command: tuple[str, ...]
    options: tuple[str, ...]
    wait: int
    name: str
    folder: str


class Queue(Protocol):
    """A batch system, with the operations that `dkdbg submit` needs."""

    def connect(self) -> None:
        """Connect to the system, with ssh's prompts. Raises DkdbgError: connecting failed."""

    def submit(self, wanted: Submission) -> str:
        """Submit one job and return its number. Call `connect` or `held` first: this method shows no prompts.

        If it fails, no job exists, unless the error says that one may exist.

        Raises:
            DkdbgError: the job is refused, or it is unknown whether it exists.
        """

    def held(self) -> str:
        """Return the ID of this user's job that holds nodes for commands; empty if no such job exists.

        Raises:
            DkdbgError: the system cannot be queried.
        """

    def read(self, job: str) -> Job:
        """Return the current description of the job.

        Raises:
            DkdbgError: the system cannot be queried, or does not know the job.
        """

    def output_tail(self, job: Job) -> str:
        """Return the end of the job's output; empty if it is unavailable."""

    def cancelling(self, job: str) -> str:
        """Return the command that cancels a job, for a shell on the login node."""

    def cancel(self, job: str) -> None:
        """Cancel the job. Raises DkdbgError: the system refuses."""

    def address(self, job: str) -> str:
        """Return the address of the job, as any verb accepts it."""

    def close(self) -> None:
        """Close the connection."""
