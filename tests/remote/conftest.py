"""The machine with an engine of its own, for all tests here."""

import pytest

from tests.far.hosts import build_image
from tests.remote.box import Box


@pytest.fixture(scope="session")
def box(base_image, tmp_path_factory):
    build_image(base_image)
    made = Box(tmp_path_factory.mktemp("box"))
    try:
        yield made.start((base_image,))
    finally:
        made.stop()


@pytest.fixture
def laptop(box, base_image, monkeypatch):
    """This process's environment is that of a laptop whose DOCKER_HOST is the engine of the box."""
    for name, value in box.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DKDBG_BASE", base_image)
    return box
