"""A job over two services of a compose project: two ranks in each, torchrun and gloo between them, one editor for all."""

import re
import subprocess
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from dkdbg.dap.debugger import Debugger
from tests.agent.dap_probe import wait_for
from tests.engine import projects
from tests.engine.attach_proxies import attach_proxy, docker
from tests.engine.projects import at, marked_line, started, unique
from tests.frameworks import python_with

pytestmark = pytest.mark.engine

COMPOSE = """\
services:
  node0: &node
    image: {image}
    init: true
    command: sleep infinity
    working_dir: /code
    environment: {{PYTHONPATH: /torch, OMP_NUM_THREADS: "1"}}
    volumes: [".:/code", "{torch}:/torch:ro"]
  node1: *node
"""
TRAIN = """\
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, step = dist.get_rank(), 0
over = torch.zeros(1)
while not over:
    over[0] = os.path.exists("stop")
    dist.all_reduce(over)
    step += 1  # breakpoint
"""
TORCHRUN = (
    "python3 -m torch.distributed.run --nnodes 2 --nproc-per-node 2 --node-rank {node} "
    "--master-addr node0 --master-port 29500 train.py"
)
RANKS = [f"rank {rank} (local {rank % 2}) on node{rank // 2}" for rank in range(4)]


@pytest.fixture
def project(tmp_path, base_image):
    """Two services that idle, as for development in their containers; dkdbg.toml lets ranks go on one by one."""
    torch = next(Path(python_with("torch")).parents[1].glob("lib/python3*/site-packages"))
    files = {"compose.yaml": COMPOSE.format(image=base_image, torch=torch), "train.py": TRAIN}
    files["dkdbg.toml"] = '[debug]\ncontinue = "one"\n'
    with projects.project(tmp_path / unique("nodes"), files) as root:
        projects.command(["docker", "compose", "up", "--detach"], root)
        yield root


def test_of_two_ranks_in_each_of_two_services_the_chosen_alone_stops_and_others_on_demand_together(project):
    with ExitStack() as stack:
        proxy = stack.enter_context(
            attach_proxy(project, "compose://node0", "compose://node1", options=("--ranks", "3"))
        )
        nodes = [
            stack.enter_context(
                started(project, "run", "--on", f"compose://node{node}", "--", *TORCHRUN.format(node=node).split(), stderr=subprocess.STDOUT)
            )
            for node in range(2)
        ]  # fmt: skip
        stack.callback((project / "stop").touch)
        options = at(proxy.port, project, "/code")
        train = str(project / "train.py")
        line = marked_line(project / "train.py")
        with Debugger(options) as debugger:
            debugger.set_breakpoints(train, [line])
            debugger.attach()
            alone = debugger.wait_stopped(300)
            assert alone.session.name == "rank 3 (local 1) on node1"
            assert debugger.evaluate("rank", debugger.stack(alone)[0]) == "3"
            assert [one.name for one in debugger.sessions if "rank" in one.name] == [alone.session.name]
        with Debugger(replace(options, extra={"dkdbgRanks": "2,3"})) as debugger:
            debugger.set_breakpoints(train, [line])
            debugger.attach()
            stops = [debugger.wait_stopped(300) for _ in range(2)]
            both = {stop.session.name: stop for stop in stops}
            two, three = both["rank 2 (local 0) on node1"], both["rank 3 (local 1) on node1"]
            [step] = {debugger.evaluate("step", debugger.stack(stop)[0]) for stop in (two, three)}
            debugger.continue_(three)  # waits for rank 2 in the next all_reduce
            assert debugger.evaluate("step", debugger.stack(two)[0]) == step
            debugger.continue_(two)
            steps = {debugger.evaluate("step", debugger.stack(debugger.wait_stopped(300))[0]) for _ in both}
            assert steps == {str(int(step) + 1)}
            debugger.set_breakpoints(train, [])
        all_of_them = {"dkdbgRanks": "all", "dkdbgContinue": "all"}
        for _ in range(2):  # the first imports the debugger, the other comes back
            with Debugger(replace(options, extra=all_of_them)) as debugger:
                debugger.set_breakpoints(train, [line])
                debugger.attach()
                stops = [debugger.wait_stopped(300) for _ in RANKS]
                assert sorted(stop.session.name for stop in stops) == RANKS
                [step] = {debugger.evaluate("step", debugger.stack(stop)[0]) for stop in stops}
                debugger.continue_(stops[0])
                stops = [debugger.wait_stopped(300) for _ in RANKS]
                steps = {debugger.evaluate("step", debugger.stack(stop)[0]) for stop in stops}
                assert steps == {str(int(step) + 1)}
                assert not [each.text for each in debugger.output if "without the others" in each.text]
                debugger.set_breakpoints(train, [])
        (project / "stop").touch()
        for node in nodes:
            said, _ = node.communicate(timeout=300)
            assert node.returncode == 0, said
    wait_for(  # the query of the proxy ends a moment after the proxy
        lambda: docker("compose", "--project-directory", str(project), "top"),
        lambda found: not re.search("train.py|agent", found),
    )
