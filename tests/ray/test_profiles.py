"""Chosen actors of a real Ray of two nodes are profiled: by a stand-in for nsys, and by the real py-spy.

The command is that of the page. nsys is on the second node alone, py-spy on the first: what a node lacks is said.
"""

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from tests import frameworks
from tests.agent import nsys
from tests.engine.attach_proxies import docker
from tests.pages import Page, environment

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("ray")]

LIMIT = 300.0
#: On the nodes: what py-spy says; it samples once it says so.
SAID = "/tmp/py-spy.said"
#: Each actor says what the last of its command line's words above it is, and who its children are.
DRIVER = """\
    import os
    import sys
    import time

    import ray

    SAID = "WHAT_PY_SPY_SAYS"
    ray.init(address="auto", namespace="profiles")


    def is_wrapped():
        return "DKDBG_RAY_NSYS" in os.environ


    @ray.remote
    def task():
        return is_wrapped()


    @ray.remote
    class Helper:
        def wrapped(self):
            return is_wrapped()


    @ray.remote
    class DTensorPolicyWorker:
        def spin(self, watched=False):
            # For a second in which py-spy, if it watches, looks on: on a busy machine it begins late.
            limit = time.monotonic() + 300
            while watched and time.monotonic() < limit and not (os.path.exists(SAID) and "Sampling" in open(SAID).read()):
                time.sleep(0.05)
            end = time.monotonic() + 1
            while time.monotonic() < end:
                pass

        def children(self):
            return is_wrapped(), ray.get(task.remote()), ray.get(Helper.remote().wrapped.remote())


    @ray.remote
    class VllmGenerationWorker:
        def pid(self):
            return os.getpid()


    nsight = {"t": "cuda", "cuda-graph-trace": "node", "o": "'mine_%p'"}  # which Ray runs with a `python` that is not there
    first = DTensorPolicyWorker.options(resources={"node0": 1}, name="lm_policy-0").remote()
    second = DTensorPolicyWorker.options(resources={"node1": 1}, name="lm_policy-1").remote()
    vllm = VllmGenerationWorker.options(resources={"node1": 1}, runtime_env={"nsight": nsight}).remote()
    ray.get([first.spin.remote(watched=True), second.spin.remote()])
    print("children", ray.get(second.children.remote()))
    print("vllm", ray.get(vllm.pid.remote()))
    print("helper", ray.get(Helper.remote().wrapped.remote()))
    """


@pytest.fixture
def page():
    found = Page.of("how-to/profile.md")
    # Of these tests/far/test_recipe.py and tests/engine/test_profiling.py.
    with found.all_run(elsewhere=("dkdbg run --on ssh://", "dkdbg run --on docker://")):
        yield found


@pytest.fixture
def tools(ray, tmp_path):
    standin = nsys.install(tmp_path / "bin", "/usr/bin/python3 -I") / "nsys"
    py_spy = Path(frameworks.python_with("py-spy")).with_name("py-spy")
    docker("cp", "-q", "-L", str(standin), f"{ray.nodes[1]}:/usr/local/bin/nsys")
    docker("cp", "-q", "-L", str(py_spy), f"{ray.nodes[0]}:/usr/local/bin/py-spy-itself")
    wrapper = f'#!/bin/sh\nexec py-spy-itself "$@" >{SAID}\n'
    install = f"printf '%s' '{wrapper}' >/usr/local/bin/py-spy && chmod 755 /usr/local/bin/py-spy"
    docker("exec", ray.nodes[0], "sh", "-c", install)
    yield
    for node in ray.nodes:
        docker("exec", node, "sh", "-c", f"rm -f /usr/local/bin/nsys /usr/local/bin/py-spy* {SAID}")


@pytest.mark.usefixtures("tools")
def test_chosen_actors_alone_run_under_nsys_with_their_interpreter_and_all_files_come_here(
    ray, page, tmp_path
):
    ray.write("run_profiles.py", DRIVER.replace("WHAT_PY_SPY_SAYS", SAID))
    command = page.take("dkdbg run --on ray+")
    words = shlex.split(command.replace("ray+slurm://login/7", f"ray+docker://{ray.nodes[0]}"))
    words[words.index("--") :] = ["--torch-profile", "*nothing*", "--", "python3", "/job/run_profiles.py"]
    done = subprocess.run(
        words, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False, timeout=LIMIT,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    enabled = "dkdbg: nsys profiling enabled for worker"
    assert f"{enabled} 'dtensor_policy_worker' (lm_policy-1) (matched pattern '*policy*')" in said
    assert f"{enabled} 'vllm_generation_worker' (matched pattern '*vllm*')" in said
    assert said.count(enabled) == 3, "no helper"
    assert (
        "nsys is not installed on this node (node0): worker 'dtensor_policy_worker' runs unprofiled" in said
    )
    assert "children (True, False, False)" in said
    assert "helper False" in said
    assert "torch: nothing matched --torch-profile '*nothing*'; the processes were: " in said

    [folder] = tmp_path.glob("dkdbg-pulled/*/dkdbg-profiles")
    reports = {each.name.rpartition("_")[0]: each for each in folder.glob("*.nsys-rep")}
    assert set(reports) == {"dtensor_policy_worker", "vllm_generation_worker"}
    pid = next(line.partition("vllm ")[2] for line in said.splitlines() if line.startswith("vllm "))
    assert reports["vllm_generation_worker"].name == f"vllm_generation_worker_{pid}.nsys-rep"
    report = json.loads(reports["vllm_generation_worker"].read_text())
    assert report["program"][0] == "/usr/bin/python3"
    assert report["program"][1].endswith("/default_worker.py")
    assert "--cuda-graph-trace=node" in report["argv"], "as the actor asks for it"
    assert report["argv"].count("-t") == 1
    assert not any("mine_" in each for each in report["argv"])

    assert len(list(folder.glob("*.speedscope.json"))) == 1, said
    [spied] = folder.glob("*.speedscope.json")
    frames = {each["name"] for each in json.loads(spied.read_text())["shared"]["frames"]}
    assert "spin" in frames
