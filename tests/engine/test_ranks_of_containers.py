"""A real torchrun job (CPU, gloo) of two containers with two ranks each, behind one port: its ranks are one job."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.agent.dap_probe import Editor, wait_for
from tests.agent.test_ranks_together import BEHIND, CODE, leave
from tests.engine.host_doors import WORK, Containers, docker, host_door, lay_out
from tests.frameworks import python_with

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.engine
RANKS = 4
#: Besides the first one: more with DKDBG_TEST_FULL=1.
ATTACHES = 9 if os.environ.get("DKDBG_TEST_FULL") else 2


@pytest.fixture
def nodes(tmp_path: Path, base_image: str) -> Iterator[list[str]]:
    """The names of two containers whose ranks have met and take a step every 20 ms."""
    torch = python_with("torch")  # the image's Python is of the same version
    packages = subprocess.check_output(
        [torch, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    ).strip()
    root = lay_out(tmp_path, train=CODE)
    pause(root, 0.02)
    containers = Containers(root, base_image)
    names = [containers.name(), containers.name()]
    network = f"{names[0]}-net"
    docker("network", "create", network)
    try:
        for number, name in enumerate(names):
            job = [
                "--nnodes",
                "2",
                "--nproc-per-node",
                "2",
                "--node-rank",
                str(number),
                "--master-addr",
                names[0],
            ]
            containers.run(
                "python3", "-m", "torch.distributed.run", *job, "train.py", name=name,
                flags=("--network", network, "-v", f"{packages}:/torch:ro"),
                DKDBG_WAIT="0", PYTHONPATH="/torch", OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1",
            )  # fmt: skip
        end = time.monotonic() + 300
        while len(list(root.glob("up?"))) < RANKS:
            assert time.monotonic() < end, [docker("logs", each) for each in names]
            time.sleep(0.05)
        yield names
    finally:
        containers.remove()
        subprocess.run(["docker", "network", "rm", network], check=False, capture_output=True)


def pause(root: Path, seconds: float) -> None:
    """Let each iteration take so long from now on."""
    (root / "pause.new").write_text(str(seconds))
    (root / "pause.new").replace(root / "pause")


def steps(editor: Editor) -> list[str]:
    """What `step` is in each rank, once all have stopped; whatever the editor was told before is forgotten."""
    stops = editor.wait_stops(RANKS)
    ask: dict[str, Any] = {"expression": "step", "context": "repl"}
    found = [one["session"].request("evaluate", frameId=one["frame"], **ask)["result"] for one in stops]
    del editor.stops[: len(stops)]
    return found


def test_all_ranks_of_two_containers_stop_at_the_same_iteration_and_go_on_by_one_key(
    nodes: list[str], tmp_path: Path
) -> None:
    more = {"pathMappings": [{"localRoot": str(tmp_path), "remoteRoot": WORK}]}
    with host_door(tmp_path, *(f"docker://{each}" for each in nodes)) as door:
        for seconds in (0.02, *[0.001] * ATTACHES):  # the first imports the debugger, the others come back
            pause(tmp_path, seconds)
            points = {str(tmp_path / "train.py"): [BEHIND]}
            editor = Editor(door.port, points, hold=True, more=more).attach()
            first = steps(editor)
            assert len(first) == RANKS
            assert len(set(first)) == 1
            assert not [line for line in editor.output if "without the others" in line]
            one = next(each for each in editor.sessions.values() if "stopped" in each.seen)
            one.request("continue", threadId=1)
            second = steps(editor)
            assert set(second) == {str(int(first[0]) + 1)}
            leave(editor)
            assert not editor.errors
    wait_for(
        lambda: [docker("inspect", "-f", "{{.State.Running}}", each) for each in nodes],
        lambda found: found == ["true", "true"],
    )
