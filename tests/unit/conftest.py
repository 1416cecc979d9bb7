"""What all unit tests share."""

import functools

import pytest

from dkdbg.delivery import single_file


@pytest.fixture(scope="session", autouse=True)
def _one_single_file():
    """Build the agent's single file once for each Python: it is half of the time of each `init` in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(single_file, "build", functools.cache(single_file.build))
        yield
