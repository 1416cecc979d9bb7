"""What all unit tests share."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest

from dkdbg.delivery import single_file

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def _one_single_file() -> Iterator[None]:
    """Build the agent's single file once for each Python: it is half of the time of each `init` in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(single_file, "build", functools.cache(single_file.build))
        yield
