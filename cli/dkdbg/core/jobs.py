"""Values of batch jobs: a job as its system describes it, a submission, and the queue that takes one. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

#: Whether a job's nodes can be used: not yet, now, no more, or not at this moment (suspended).
Phase = Literal["waiting", "running", "ended", "held"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A batch job.

    Attributes:
        id: as the system writes it.
        state: its word for it, such as RUNNING.
        user: whose it is.
        nodes: those that it has, the one that its script runs on first; none before it runs.
        reason: why it waits or has failed; may be empty.
        folder: where its script runs, a path there; may be empty.
        tasks: how many it starts, 0 where that is not said.
        output: the file there that what it prints goes to; may be empty.
        succeeded: how an ended job ended, as far as its system tells; None while that is not noted yet.
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


@dataclass(frozen=True, kw_only=True)
class Submission:
    """What is asked for.

    Attributes:
        command: of each rank, word by word; none for a job that is only held, for commands that come later.
        options: of the batch system's own program, as a person has typed them.
        wait: seconds that each rank waits for an editor before its first line.
        name: of the job, for listings of the batch system.
        folder: where it runs, a path there; below the home or absolute; empty for the home.
    """

    command: tuple[str, ...]
    options: tuple[str, ...]
    wait: int
    name: str
    folder: str


class Queue(Protocol):
    """A batch system, as `dkdbg submit` needs it."""

    def submit(self, wanted: Submission) -> str:
        """Submit a job once, and return its number. What hinders it leaves no job, or is said to have left one.

        Raises:
            DkdbgError: it is refused, or nobody knows whether there is a job now.
        """

    def held(self) -> str:
        """The number of this user's job that is held for commands; empty when there is none.

        Raises:
            DkdbgError: the system cannot be asked.
        """

    def look(self, job: str) -> Job:
        """What is said of the job now.

        Raises:
            DkdbgError: the system cannot be asked, or knows no such job.
        """

    def last_words(self, job: Job) -> str:
        """The end of what the job has printed; empty where that is not to be had."""

    def cancel(self, job: str) -> None:
        """End the job.

        Raises:
            DkdbgError: it is refused.
        """

    def address(self, job: str) -> str:
        """The job's, as any verb takes it."""

    def close(self) -> None:
        """End the connection."""
