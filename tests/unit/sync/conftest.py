"""A local root."""

from __future__ import annotations

import pytest


@pytest.fixture
def root(tmp_path):
    """An empty local root."""
    folder = tmp_path / "root"
    folder.mkdir()
    return folder
