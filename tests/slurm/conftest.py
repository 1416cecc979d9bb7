"""The cluster of all tests here."""

import pytest

from tests.far.hosts import build_image
from tests.slurm.cluster import IMAGE, RECIPE, Cluster


@pytest.fixture(scope="session")
def cluster(base_image, tmp_path_factory):
    build_image(base_image, IMAGE, RECIPE)
    made = Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture
def laptop(cluster, monkeypatch):
    """This process's environment is a laptop's that knows the login node; at the end nothing is left anywhere."""
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    yield cluster
    cluster.cancel_all()
    cluster.wait_until_nothing_is_left()


@pytest.fixture(params=["ssh to nodes open", "ssh to nodes closed"])
def ways(request, laptop):
    """Both kinds of sites: the nodes of one's jobs let ssh in, or they do not."""
    if request.param == "ssh to nodes closed":
        laptop.close_ssh()
    yield laptop
    laptop.open_ssh()
