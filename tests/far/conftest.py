"""The hosts of all tests here."""

import pytest

from tests.attacks.conftest import other_user  # noqa: F401
from tests.far.hosts import Hosts, build_image


@pytest.fixture(scope="session")
def hosts(base_image, tmp_path_factory):
    build_image(base_image)
    made = Hosts(tmp_path_factory.mktemp("far"))
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture
def laptop(hosts, monkeypatch):
    """This process's environment is a laptop's that knows the hosts; at the end nothing is left anywhere."""
    for name, value in hosts.environment.items():
        monkeypatch.setenv(name, value)
    yield hosts
    hosts.wait_until_nothing_is_left()
