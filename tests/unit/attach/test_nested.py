"""Endlessly nested JSON, from a job or an editor, is rejected without a crash."""

import pytest

from dkdbg.attach import plain_debugpy
from dkdbg.targets.reverse import jobs

NESTED = "[" * 100_000


def test_it_is_refused_from_a_job_that_calls_and_no_goodbye_of_an_editor():
    with pytest.raises(ValueError, match="it does not describe itself"):
        jobs._read(NESTED)
    assert not plain_debugpy._is_leave(NESTED.encode())
