"""A node of a Slurm job: `slurm://LOGIN/JOB[/NODE]`, and `slurm:///JOB` on the login node itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.core.target import Kind
from dkdbg.targets.batch.job_queue import JobQueue
from dkdbg.targets.batch.job_target import JobTarget
from dkdbg.targets.batch.slurm import SLURM

if TYPE_CHECKING:
    from pathlib import Path

    from dkdbg.core.address import Address


def _target(address: Address, _root: Path) -> JobTarget:
    return JobTarget(SLURM, address)


def _queue(address: Address) -> JobQueue:
    return JobQueue(SLURM, address)


KIND = Kind(target=_target, queue=_queue)
