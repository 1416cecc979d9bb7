"""What a test needs of its machine."""

import os
import shutil
from typing import NoReturn

import pytest


def give_up(lacks: str) -> NoReturn:
    """Skip a test for which this machine lacks something; in CI, where nothing may be missing, fail it."""
    if os.environ.get("CI"):
        pytest.fail(lacks, pytrace=False)
    pytest.skip(lacks)


def browser() -> str:
    """Return the path of Chromium, or of Chrome."""
    found = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
    return next(filter(None, found), None) or give_up("no Chromium on this machine: apt install chromium")
