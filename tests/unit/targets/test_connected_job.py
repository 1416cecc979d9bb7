"""A job that connects out, as `dkdbg attach --listen` keeps it."""

import pytest

from dkdbg.targets.reverse import jobs
from dkdbg.targets.reverse.jobs import About, ConnectedJob


def test_a_job_that_is_not_connected_is_dropped_without_waiting_for_it():
    job = ConnectedJob(About(id="a", key="", name="job", port=1, answers=frozenset()))
    threads = job._relay._threads
    job.close()
    assert not any(thread.is_alive() for thread in threads)


def test_a_job_that_describes_itself_in_endlessly_nested_json_is_refused():
    with pytest.raises(ValueError, match="its description is nested too deeply"):
        jobs._read("[" * 100_000)
