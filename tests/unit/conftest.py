"""What all unit tests share."""

import functools

import pytest

from dkdbg.delivery import debugpy, single_file


@pytest.fixture(scope="session", autouse=True)
def _one_single_file():
    """Build the agent's single file once for each debugpy: it is half of the time of each `init` in this process.

    Other tests of the same worker find the cache too, since it lasts until the session ends.
    """
    build = single_file.build
    cached = functools.cache(lambda python, _debugpy: build(python))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(single_file, "build", lambda python: cached(python, debugpy.for_python(python)))
        yield
