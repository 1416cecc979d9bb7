"""A node of a job of OpenPBS, PBS Pro or Torque: `pbs://LOGIN/JOB[/NODE]`, and `pbs:///JOB` on the login node itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.targets.pbs import PBS
from dkdbg.targets.place import Kind
from dkdbg.tunnel.job_place import JobPlace
from dkdbg.tunnel.job_queue import JobQueue

if TYPE_CHECKING:
    from pathlib import Path

    from dkdbg.targets.address import Address


def _place(address: Address, _root: Path) -> JobPlace:
    return JobPlace(PBS, address)


def _queue(address: Address) -> JobQueue:
    return JobQueue(PBS, address)


KIND = Kind(place=_place, queue=_queue)
