"""A submission whose connection is lost; the login node is a fake."""

import types

import pytest

from dkdbg.core import address
from dkdbg.errors import DkdbgError
from dkdbg.targets.batch.job_queue import JobQueue
from dkdbg.targets.batch.slurm import SLURM


def test_after_a_lost_connection_the_job_is_looked_for_without_a_prompt(monkeypatch):
    """Signals are delayed during the submission: nothing could interrupt a prompt."""
    queue, asked = JobQueue(SLURM, address.parse("slurm://login")), []

    def lost(*_, **options):
        asked.append(options.get("asks", "by default"))
        raise DkdbgError("login does not answer")

    def cut(*_, **__):
        raise DkdbgError("the connection was lost")

    monkeypatch.setattr(
        queue, "_login", types.SimpleNamespace(executor=lost, read=cut, is_connected=lambda: False, drop=list)
    )
    with pytest.raises(DkdbgError, match="may or may not have been submitted: login does not answer"):
        queue._hand_over(types.SimpleNamespace(wrap=list), "sbatch", "job-1", "/folder", "sbatch")
    assert asked == [False]
