"""A local root, and a pair of folders: one here, one that stands for the target's."""

import sys
from pathlib import Path

import pytest

from dkdbg.sync.roots import Roots


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def roots(tmp_path):
    """Both, empty; the target is this machine."""
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    return Roots(local=str(tmp_path / "here"), remote=str(tmp_path / "there"), pythons=(sys.executable,))


@pytest.fixture
def here(roots):
    return Path(roots.local)


@pytest.fixture
def there(roots):
    return Path(roots.remote)
