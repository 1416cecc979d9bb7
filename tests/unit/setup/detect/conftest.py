"""A small synthetic repository."""

import pytest

from tests.unit.project import Project


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    return Project(root)
