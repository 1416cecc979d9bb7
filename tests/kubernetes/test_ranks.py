"""One job's ranks in two pods, each with an agent of its own: the real kubectl, a stand-in for the API server."""

from __future__ import annotations

import signal

import pytest

from tests.engine.host_doors import host_door
from tests.engine.synced import docker
from tests.kubernetes.cluster import Pod
from tests.kubernetes.runs import launch, wait_until_no_relay_is_left
from tests.kubernetes.test_verbs import made  # noqa: F401
from tests.one_job import FILES, stop_and_go_together

pytestmark = pytest.mark.engine
PODS = ("k8s://ml/train-0", "k8s://ml/train-1")


def test_ranks_in_two_pods_attached_to_late_stop_at_one_iteration_and_go_on_by_one_key(root, cluster, made):  # noqa: F811
    boxes, programs = [made(), made()], []
    address = docker("inspect", "-f", "{{.NetworkSettings.IPAddress}}", boxes[0].name).strip()
    for number, box in enumerate(boxes):
        cluster.put(Pod(f"train-{number}", {"main": box.name}))
        for name, text in FILES.items():
            (root / name).write_text(text)
            docker("cp", str(root / name), f"{box.name}:/srv/{name}")
    try:
        for number, pod in enumerate(PODS):
            programs.append(launch(root, pod, "python3", "launcher.py", str(number), address))
        for box in boxes:
            box.sh("until [ $(ls | grep -c ^up) = 2 ]; do sleep 0.05; done")
        with host_door(root, *PODS) as door:
            names = [f"rank {rank} (local {rank % 2}) on train-{rank // 2}" for rank in range(4)]
            stop_and_go_together(door.port, root, "/srv", names)
            assert door.end() == 0
        boxes[0].sh("touch /srv/stop")
        assert [each.wait(300) for each in programs] == [0, 0]
    finally:
        for each in programs:
            each.send_signal(signal.SIGTERM)
            each.communicate(timeout=300)
    wait_until_no_relay_is_left()
