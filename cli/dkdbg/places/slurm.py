"""A node of a Slurm job: `slurm://LOGIN/JOB[/NODE]`, and `slurm:///JOB` on the login node itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.targets.place import Kind
from dkdbg.targets.slurm import SLURM
from dkdbg.tunnel.job_place import JobPlace
from dkdbg.tunnel.job_queue import JobQueue

if TYPE_CHECKING:
    from pathlib import Path

    from dkdbg.targets.address import Address


def _place(address: Address, _root: Path) -> JobPlace:
    return JobPlace(SLURM, address)


def _queue(address: Address) -> JobQueue:
    return JobQueue(SLURM, address)


KIND = Kind(place=_place, queue=_queue)
