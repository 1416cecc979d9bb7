"""Names of processes: what is known is said, the rest keeps its pid."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from dkdbg.agent.record import naming
from tests.agent.dap_probe import Editor, wait_for

if TYPE_CHECKING:
    from pathlib import Path


def process(*argv: str, rank: int | None = None, origin: str = "", pid: int = 42, ppid: int = 41) -> Any:
    return {"pid": pid, "ppid": ppid, "argv": ["python", *argv], "rank": rank, "origin": origin}


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["train.py", "--lr", "1"], "train.py"),
        (["-u", "-X", "dev", "-W", "ignore", "/w/src/train.py"], "train.py"),
        (["-m", "pkg.train"], "python -m pkg.train"),
        (["-c", "import x"], "python -c"),
        (["/usr/local/bin/torchrun", "train.py"], "torchrun"),
        ([], "python"),
    ],
)
def test_a_program_is_named_by_its_command_line(argv: list[str], name: str) -> None:
    assert naming.program(["python", *argv]) == name


def test_processes_are_named_by_what_they_are() -> None:
    rank = process("train.py", rank=3, pid=41)
    assert naming.describe(rank) == "rank 3 (train.py)"
    assert naming.describe(process("prep.py", rank=3), rank) == "prep.py (42) of rank 3"
    worker = process("train.py", rank=3, origin="dataloader:2")
    assert naming.describe(worker, rank) == "DataLoader worker 2 of rank 3"
    plain = process("train.py", pid=41)
    assert naming.describe(process("train.py", origin="dataloader:0"), plain) == (
        "DataLoader worker 0 of train.py (41)"
    )
    assert naming.describe(process("train.py", origin="fork"), plain) == "train.py (42), forked from 41"
    spawned = process("-c", "from multiprocessing.spawn import spawn_main", "--multiprocessing-fork")
    assert naming.describe(spawned) == "multiprocessing worker of 41"


def test_processes_that_serve_others_are_named_by_what_they_are() -> None:
    train = process("train.py", pid=41)
    tracker = process("-c", "from multiprocessing.resource_tracker import main;main(5)")
    assert naming.describe(tracker, train) == "multiprocessing resource tracker of train.py (41)"
    line = ("-c", "from multiprocessing.forkserver import main; main(3, 4)")
    server = process(*line)
    assert naming.describe(server, train) == "multiprocessing forkserver of train.py (41)"
    assert (
        naming.describe(process(*line, pid=43, ppid=42), train) == "multiprocessing worker of train.py (41)"
    )


SERVED = """
import multiprocessing, os, time

def work(n):
    while not os.path.exists("stop"):
        time.sleep(0.02)

if __name__ == "__main__":
    worker = multiprocessing.get_context("forkserver").Process(target=work, args=(1,))
    worker.start()
    worker.join()
    raise SystemExit(worker.exitcode)
"""


@pytest.mark.parametrize("asked", ["", "flag", "variable"])
def test_processes_that_serve_others_can_be_debugged_when_asked_for(
    launch, tmp_path: Path, asked: str
) -> None:
    (tmp_path / "train.py").write_text(SERVED)
    options = ("--housekeeping",) if asked == "flag" else ()
    env = {"DKDBG_HOUSEKEEPING": "1"} if asked == "variable" else {}
    running = launch(sys.executable, "train.py", options=options, env=env)
    port = running.wait_state("running")["port"]
    worker = "multiprocessing worker of train.py"
    serving = {"multiprocessing forkserver of train.py", "multiprocessing resource tracker of train.py"}
    wanted = {"train.py", worker} | (serving if asked else set())
    with Editor(port, {}) as editor:
        found = wait_for(lambda: running.record()["processes"], lambda f: len(f) >= len(wanted))
        assert {one["name"].partition(" (")[0] for one in found} == wanted
        wait_for(lambda: [one["joined"] for one in running.record()["processes"]], all)
        editor.wait_attached(len(wanted) + 1)  # a process that ends meanwhile cannot be attached to
        (tmp_path / "stop").touch()
        code, _, err = running.finish()
    assert (code, editor.errors) == (0, []), err


def test_a_worker_forked_by_a_dataloader_is_known_by_its_number(launch, tmp_path: Path) -> None:
    """A stand-in with the path and the loop of torch's DataLoader; torch itself is not needed for it."""
    folder = tmp_path / "torch" / "utils" / "data"
    folder.mkdir(parents=True)
    for package in (folder, folder.parent, folder.parent.parent):
        (package / "__init__.py").touch()
    (folder / "dataloader.py").write_text(
        "import multiprocessing, time\n\ndef start(count):\n    for i in range(count):\n"
        "        w = multiprocessing.get_context('fork').Process(target=time.sleep, args=(20,), daemon=True)\n"
        "        w.start()\n"
    )
    (tmp_path / "train.py").write_text(
        "import os, time\nfrom torch.utils.data import dataloader\ndataloader.start(2)\n"
        "while not os.path.exists('stop'):\n    time.sleep(0.02)\n"
    )
    running = launch(sys.executable, "train.py", env={"RANK": "1"})
    wanted = {"rank 1 (train.py)", "DataLoader worker 0 of rank 1", "DataLoader worker 1 of rank 1"}
    running.wait_state("running")
    for _ in range(200):
        if {one["name"] for one in running.record()["processes"]} == wanted:
            break
        time.sleep(0.05)
    (tmp_path / "stop").touch()
    assert {one["name"] for one in running.record()["processes"]} == wanted
    assert running.finish()[0] == 0


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["python3.11", "-u", "train.py", "--key", "secret"], "train.py"),
        (["/usr/bin/python", "-c", "secret"], "python -c"),
        (["/opt/bin/torchrun", "--nproc-per-node", "4", "train.py"], "torchrun"),
        (["sh", "-c", "KEY=secret python train.py"], "sh"),
        ([], ""),
    ],
)
def test_a_command_is_named_without_its_arguments(argv: list[str], name: str) -> None:
    assert naming.command(argv) == name
