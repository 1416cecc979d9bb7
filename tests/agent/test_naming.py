"""Names of processes: what is known is said, the rest keeps its pid."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from dkdbg.agent import naming

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
