"""A real cluster for the tests here. `.ci/kubernetes --test` runs them; elsewhere they are skipped, in CI too."""

import pytest

from tests.kubernetes.real.cluster import RealCluster, lacks


@pytest.fixture(scope="session")
def real(tmp_path_factory):
    if missing := lacks():
        pytest.skip(missing)
    made = RealCluster(tmp_path_factory.mktemp("real"))
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture
def developer(real, monkeypatch, tmp_path):
    """This process asks the cluster as somebody who may look at pods and run commands in them, and nothing else."""
    monkeypatch.setenv("KUBECONFIG", str(real.developer()))
    monkeypatch.setenv("KUBECACHEDIR", str(tmp_path / "kube-cache"))
    return real
