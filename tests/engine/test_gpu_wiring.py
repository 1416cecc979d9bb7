"""The GPU request reaches the engine where the machine has one, and only there.

STAND-IN: no card here. A second daemon in a network namespace of its own has a fake nvidia runtime, a fake hook and a
CDI specification of `nvidia.com/gpu` without devices. This proves the wiring (what is asked for arrives), not CUDA.
"""

import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from tests.engine.projects import LOOP, command, dkdbg, must, project, take_away, unique
from tests.needs import give_up

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("port-5678")]

COMPOSE = """\
    services:
      train:
        image: BASE
        working_dir: /code
        command: ["python3", "train.py"]
        volumes: [".:/code"]
        deploy:
          resources:
            reservations:
              devices: [{driver: nvidia, device_ids: ["0"], capabilities: [gpu]}]
    """


@pytest.fixture
def gpu_repo(tmp_path, base_image):
    """A repository whose service asks for a GPU."""
    files = {"train.py": LOOP, "compose.yaml": COMPOSE.replace("BASE", base_image)}
    with project(tmp_path / unique("gpu"), files, "init", "--yes") as root:
        yield root


def test_without_a_gpu_the_service_of_a_gpu_project_starts_all_the_same_if_none_is_asked_for(gpu_repo):
    done = dkdbg(gpu_repo, "up", env={"DKDBG_GPU": "nvidia"})
    assert done.returncode == 3
    assert "asks for a GPU" in done.stderr
    assert "DKDBG_GPU=none" in done.stderr
    done = must(dkdbg(gpu_repo, "up"))
    assert "GPU: none" in done.stdout


@pytest.fixture
def fake_gpu_daemon(tmp_path_factory, base_image):
    """DOCKER_HOST of a daemon with a fake GPU. Never `--bridge=none` in the host's namespace: it deletes docker0."""
    if os.geteuid() != 0 or not all(shutil.which(tool) for tool in ("dockerd", "nsenter", "ip")):
        give_up("needs root, dockerd, nsenter and ip (iproute2) for a second daemon")
    folder = tmp_path_factory.mktemp("fakegpu")  # whose path is short: a socket's may have 107 bytes
    namespace = f"dkdbg{os.getpid()}"
    tools = folder / "bin"
    tools.mkdir()
    runtime = "nvidia-container-runtime"
    for name, text in ((runtime, 'exec runc "$@"'), (f"{runtime}-hook", "cat >/dev/null")):
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    (folder / "cdi").mkdir()
    device = {"name": "all", "containerEdits": {"env": ["DKDBG_STAND_IN_GPU=1"]}}
    spec = {"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": [device]}
    (folder / "cdi" / "nvidia.json").write_text(json.dumps(spec))
    config = {"features": {"cdi": True}, "cdi-spec-dirs": [str(folder / "cdi")]}
    config["runtimes"] = {"nvidia": {"path": str(tools / runtime)}}
    (folder / "daemon.json").write_text(json.dumps(config))
    socket = f"unix://{folder}/docker.sock"
    subprocess.run(["ip", "netns", "add", namespace], check=True)
    inside = ["nsenter", f"--net=/run/netns/{namespace}"]
    subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
    argv = [*inside, "dockerd", "--config-file", folder / "daemon.json", "--data-root", folder / "data",
            "--exec-root", folder / "exec", "--pidfile", folder / "pid", "-H", socket]  # fmt: skip
    with (folder / "log").open("w") as log:
        env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
        daemon = subprocess.Popen(argv, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait_for(socket, daemon, folder / "log")
        saved = subprocess.Popen(["docker", "save", base_image], stdout=subprocess.PIPE)
        subprocess.run(
            ["docker", "-H", socket, "load", "-q"], stdin=saved.stdout, check=True, capture_output=True
        )
        saved.wait()
        yield socket
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(300)
        subprocess.run(["ip", "netns", "del", namespace], check=False)


def _wait_for(socket, daemon, log):
    deadline = time.monotonic() + 300
    while subprocess.run(["docker", "-H", socket, "info"], capture_output=True, check=False).returncode:
        assert daemon.poll() is None, log.read_text()[-2000:]
        assert time.monotonic() < deadline, log.read_text()[-2000:]
        time.sleep(0.2)


def test_a_machine_with_a_gpu_grants_exactly_one_request(gpu_repo, fake_gpu_daemon):
    for kind, asked in (("nvidia", {}), ("cdi", {"DKDBG_GPU": "cdi"})):
        env = {"DOCKER_HOST": fake_gpu_daemon, **asked}
        try:
            state = json.loads(must(dkdbg(gpu_repo, "up", "--json", env=env)).stdout)
            assert state["gpu"] == kind
            words = ["docker", "inspect", "-f", "{{json .HostConfig.DeviceRequests}}", state["container"]]
            found = json.loads(command(words, env=env).stdout)
            assert [request["Driver"] for request in found] == [kind]
        finally:
            take_away(gpu_repo, env)
