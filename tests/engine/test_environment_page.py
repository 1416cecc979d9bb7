"""The whole examples of docs/environment.md: their commands, environments and mounts, read from the page, on a real engine.

The schedulers are stand-ins: what a cluster's agent makes of a pod's containers is a `docker run` here, and what
Kubeflow's operator sets for a pod is set by this test.
"""

import contextlib
import io
import json
import secrets
import shlex
import subprocess
import textwrap

import pytest
from ruamel.yaml import YAML

from dkdbg.dap.debugger import Debugger
from dkdbg.errors import DkdbgError
from tests.attacks import listening
from tests.engine.attach_proxies import attach_proxy, docker, lay_out
from tests.engine.projects import at, unique
from tests.engine.weather import line_to
from tests.pages import Page
from tests.ports import free_port

pytestmark = pytest.mark.engine

IMAGE = "registry.example.com/train:1"
DOOR = "workstation.example.com:5670#sha256:..."
TRAIN = """\
#!/usr/bin/env python3
import os
import sys


def step(n):
    return n + 1  # breakpoint


if __name__ == "__main__":
    step(len(sys.argv))
    print("trained", sys.argv, sorted(name for name in os.environ if "TOKEN" in name and name != "DKDBG_PDB_TOKEN"))
    sys.exit(3)
"""
SCRIPT = "gpus=$(python3 -c 'print(0)') && python3 prepare.py && python3 train.py --gpus $gpus | tee /tmp/train.log"
BREAKPOINT = next(n for n, text in enumerate(TRAIN.splitlines(), 1) if "# breakpoint" in text)


class Cluster:
    """What runs the containers of the page, and takes them away."""

    def __init__(self, folder, base, token):
        self.name, self.proxy = unique("dkdbg-test-environment"), ""
        self.image = f"{self.name}:1"
        self.names: list[str] = []
        context = folder / "image"
        context.mkdir()
        for name, text in {"train.py": TRAIN, "prepare.py": "print('prepared')\n"}.items():
            (context / name).write_text(text)
        (context / "Dockerfile").write_text(
            f"FROM {base}\nWORKDIR /app\nCOPY . .\nRUN ln -s /app/train.py /usr/local/bin/train && chmod +x train.py\n"
        )
        docker("build", "-q", "-t", self.image, str(context))
        self.volumes = folder / "volumes"
        self.volumes.mkdir()
        (self.volumes / "agent.pyz").write_bytes((folder / ".dkdbg" / "agent.pyz").read_bytes())
        (self.volumes / "token").write_text(token)

    def run_pod(self, pod, hostname, **more):
        """Run the containers of a pod's specification."""
        for container in pod["spec"]["containers"]:
            assert container["image"] == IMAGE
            environment = {each["name"]: each["value"] for each in container["env"]} | more
            flags = [word for mount in container["volumeMounts"] for word in self._volume(pod, mount)]
            words = [*container["command"][1:], *container.get("args", [])]
            self.run(hostname, flags, environment, container["command"][0], words)

    def _volume(self, pod, mount):
        (volume,) = [each for each in pod["spec"]["volumes"] if each["name"] == mount["name"]]
        held = "token" if "secret" in volume else "agent.pyz"
        return ["-v", f"{self.volumes / held}:{mount['mountPath']}/{held}:ro"]

    def run(self, hostname, flags, environment, entry, words):
        """Run a container of this name."""
        assert environment["DKDBG_CONNECT"] == DOOR
        environment["DKDBG_CONNECT"] = self.proxy
        settings = [word for pair in environment.items() for word in ("-e", "=".join(pair))]
        self.names.append(f"{self.name}-{hostname}")
        docker(
            "run", "-d", "--name", self.names[-1], "--hostname", hostname, *settings, *flags, "--entrypoint", entry,
            self.image, *words,
        )  # fmt: skip

    def log(self, hostname):
        done = subprocess.run(
            ["docker", "logs", f"{self.name}-{hostname}"], check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )  # fmt: skip
        return done.stdout

    def remove(self):
        for name in self.names:
            docker("rm", "-f", name, check=False)
        docker("rmi", "-f", self.image, check=False)


def test_the_examples_of_the_page_are_debugged_by_their_own_commands(tmp_path, base_image, monkeypatch):
    page = Page.of("environment.md")
    yaml = YAML(typ="safe")
    token = secrets.token_hex(32)
    monkeypatch.setenv("DKDBG_TOKEN", token)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    root = lay_out(tmp_path, train=TRAIN)
    port = free_port()
    cluster = Cluster(root, base_image, token)
    try:
        with line_to(port) as line, attach_proxy(root, options=("--listen", f"127.0.0.1:{port}")) as proxy:
            cluster.proxy = line.address + "#" + proxy.wait("calls")["connect"].partition("#")[2]
            job = yaml.load(
                io.StringIO(page.block("yaml", "kind: Job\nmetadata:\n  name: train\nspec:\n  backoff"))
            )
            pod = job["spec"]["template"]
            cluster.run_pod(pod, "job-0")
            for rank in range(2):
                world = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "m"}
                cluster.run_pod(pod, f"pytorch-{rank}", **world)
            cluster.run_pod(_scripted(pod), "volcano-0", PYTHONPATH="/opt/dkdbg/agent.pyz:/app/lib")
            _run_line(cluster, page.block("sh", "docker run"))
            jobs = {"job-0", "pytorch-0", "pytorch-1", "volcano-0", "train"}
            for name in jobs:
                proxy.wait("called", target=name)
            with Debugger(at(proxy.port, root, "/app")) as debugger:
                debugger.set_breakpoints(str(root / "train.py"), [BREAKPOINT])
                debugger.attach(timeout=300)
                stops = [debugger.wait_stopped(300) for _ in jobs]
                for each in stops:
                    assert debugger.stack(each)[0].line == BREAKPOINT
                # One continue is for all ranks of a job; by then the second rank may be gone, which is no failure.
                for each in stops:
                    with contextlib.suppress(DkdbgError):
                        debugger.continue_(each)
                codes = {name: int(docker("wait", f"{cluster.name}-{name}")) for name in jobs}
            said = listening.command_lines(proxy.process.pid)
            assert proxy.end() == 0
        assert codes == dict.fromkeys(jobs, 3) | {"volcano-0": 0}  # that of `tee`
        logs = {name: cluster.log(name) for name in jobs}
        printed = {
            name: [each for each in text.splitlines() if not each.startswith("dkdbg:")]
            for name, text in logs.items()
        }
        assert printed["job-0"] == ["trained ['train.py', '--epochs', '3'] []"]
        assert printed["volcano-0"] == ["prepared", "trained ['train.py', '--gpus', '0'] []"]
        assert printed["train"] == ["trained ['/usr/local/bin/train'] []"]
        for text in (*said, *(log.encode() for log in logs.values()), json.dumps(proxy.events).encode()):
            assert token.encode() not in text
    finally:
        cluster.remove()


def _scripted(pod):
    """Return the pod with a command of several programs."""
    container = {**pod["spec"]["containers"][0], "command": ["sh", "-c", SCRIPT], "args": []}
    return {"spec": {**pod["spec"], "containers": [container]}}


def _run_line(cluster, block):
    """Run the page's `docker run`; its options as they are, but for the folder, the name and the image."""
    words = shlex.split(textwrap.dedent(block).replace("\\\n", " "))
    assert words[:5] == ["docker", "run", "--rm", "--name", "train"]
    at = words.index(IMAGE)
    flags, environment = [], {}
    for option, value in zip(words[5:at:2], words[6:at:2], strict=True):
        if option == "-e":
            environment[value.partition("=")[0]] = value.partition("=")[2]
        else:
            flags += [option, value.replace("$PWD/dkdbg", str(cluster.volumes))]
    (entry,) = words[at + 1 :]
    cluster.run("train", flags, environment, entry, [])
