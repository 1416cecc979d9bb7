"""Ray in pods: the real kubectl, a stand-in for the API server, and a real Ray in the containers that stand for its pods."""

import shutil

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.engine.attach_proxies import attach_proxy
from tests.kubernetes.cluster import Cluster, Pod
from tests.ray.cluster import wait_until
from tests.ray.test_paused import LIMIT, listed

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("ray")]

WAITS = """\
    import ray

    ray.init(address="auto")


    @ray.remote
    def crunch(n):
        total = n * 2
        breakpoint()
        return total


    print(ray.get([crunch.options(resources={f"node{n}": 1}).remote(n + 1) for n in range(2)]))
    """


@pytest.fixture
def head(ray, tmp_path, monkeypatch):
    if shutil.which("kubectl") is None:
        pytest.fail("kubectl is not installed (.ci/kubectl installs it)", pytrace=False)
    api = Cluster()
    api.put(Pod("head", {"main": ray.nodes[0]}))
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path / "kubeconfig")))
    monkeypatch.setenv("KUBECACHEDIR", str(tmp_path / "cache"))
    yield "ray+k8s://ml/head"
    api.close()


def test_workers_of_two_pods_that_wait_stand_behind_one_port_by_way_of_the_head(ray, head, tmp_path):
    ray.write("waits.py", WAITS)
    driver = ray.drive("waits.py")
    wait_until(lambda: [each["state"] for each in listed(head)] == ["paused"] * 2, "two are listed")
    with attach_proxy(tmp_path, head) as proxy, Debugger(AttachOptions(port=proxy.port)) as debugger:
        debugger.attach(timeout=LIMIT)
        totals = set()
        for _ in range(2):
            stop = debugger.wait_stopped(LIMIT)
            frame = debugger.stack(stop, timeout=LIMIT)[0]
            assert (frame.path, frame.name) == ("/job/waits.py", "crunch")
            totals.add(debugger.local_values(frame, timeout=LIMIT)["total"])
            debugger.continue_(stop, timeout=LIMIT)
        assert totals == {"2", "4"}
    assert "[2, 4]" in driver.communicate(timeout=LIMIT)[0]
