"""JSON that is nested without end, from a job that has called or an editor, is no JSON, and nothing falls over it."""

from __future__ import annotations

import pytest

from dkdbg.door import plain
from dkdbg.tunnel import callers

NESTED = "[" * 100_000


def test_a_job_that_says_that_of_itself_is_refused_as_one_that_says_nothing():
    with pytest.raises(ValueError, match="it says nothing of itself"):
        callers._read(NESTED)


def test_to_an_editor_that_says_that_it_is_no_goodbye():
    assert not plain._is_leave(NESTED.encode())
