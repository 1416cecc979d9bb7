"""A stand-in cluster and the real kubectl; a test without kubectl skips on a laptop and fails in CI."""

import shutil

import pytest

from tests.engine.synced import Box
from tests.kubernetes.cluster import Cluster, Pod
from tests.needs import give_up


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A stand-in for an API server that the real kubectl asks by its kubeconfig."""
    if shutil.which("kubectl") is None:
        give_up("kubectl is not installed (.ci/kubectl installs it)")
    settings = tmp_path / "kube"
    settings.mkdir()
    found = Cluster()
    monkeypatch.setenv("KUBECONFIG", str(found.kubeconfig(settings / "config")))
    monkeypatch.setenv("KUBECACHEDIR", str(settings / "cache"))
    yield found
    found.close()


@pytest.fixture
def made(start_container):
    """Make containers that stand for pods', with these flags of `docker run`."""
    return lambda *flags: Box(start_container("-w", "/srv", *flags))


@pytest.fixture
def box(cluster, made):
    """The container of the pod train-0."""
    found = made()
    cluster.put(Pod("train-0", {"main": found.name}, labels={"app": "train"}))
    return found


@pytest.fixture
def root(tmp_path):
    (tmp_path / "repository").mkdir()
    return tmp_path / "repository"
