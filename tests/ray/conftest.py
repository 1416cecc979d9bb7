"""The cluster of all tests here."""

import pytest

from tests.ray.cluster import Cluster


@pytest.fixture(scope="session")
def cluster(base_image, tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("ray"), base_image)
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture
def ray(cluster, monkeypatch):
    """The cluster without a driver, and this process's environment without a token of Ray's."""
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    yield cluster
    cluster.end_drivers()
