"""Names of processes: what is known is said, the rest keeps its pid."""

from typing import Any

import pytest

from dkdbg.agent.state import job, naming
from dkdbg.launchers import registry
from tests.agent.dap_probe import Editor, wait_for


def process(*argv: str, **more: Any) -> Any:
    usual = {"pid": 42, "ppid": 41, "rank": None, "origin": "", "local_rank": None, "spread": False}
    return {**usual, "argv": ["python", *argv], **more}


@pytest.mark.parametrize(
    ("naming_it", "argv", "name"),
    [
        (naming.program, ["python", "train.py", "--lr", "1"], "train.py"),
        (naming.program, ["python", "-u", "-X", "dev", "-W", "ignore", "/w/src/train.py"], "train.py"),
        (naming.program, ["python", "-m", "pkg.train"], "python -m pkg.train"),
        (naming.program, ["python", "-c", "import x"], "python -c"),
        (naming.program, ["python", "/usr/local/bin/torchrun", "train.py"], "torchrun"),
        (naming.program, ["python"], "python"),
        (naming.command, ["python3.11", "-u", "train.py", "--key", "secret"], "train.py"),
        (naming.command, ["/usr/bin/python", "-c", "secret"], "python -c"),
        (naming.command, ["/opt/bin/torchrun", "--nproc-per-node", "4", "train.py"], "torchrun"),
        (naming.command, ["sh", "-c", "KEY=secret python train.py"], "sh"),
        (naming.command, [], ""),
    ],
)
def test_a_program_is_named_by_its_command_line_and_a_command_without_its_arguments(naming_it, argv, name):
    assert naming_it(argv) == name


def test_processes_are_named_by_what_they_are():
    rank = process("train.py", rank=3, pid=41)
    assert naming.describe(rank) == "rank 3"
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


def test_processes_with_one_command_line_are_named_by_what_their_parent_knows():
    main = process("train.py", pid=41)
    spawned = ("-c", "from multiprocessing.spawn import spawn_main", "--multiprocessing-fork")
    told = process(*spawned, origin="spawned:SpawnProcess-2")
    assert naming.describe(told, main) == "multiprocessing worker SpawnProcess-2 of train.py (41)"
    uvicorn = process("/bin/uvicorn", "--workers", "2", pid=41)
    assert naming.describe(told, uvicorn) == "uvicorn server process 2"
    gunicorn = process("/bin/gunicorn", pid=41)
    assert naming.describe(process("/bin/gunicorn", origin="worker:3"), gunicorn) == "gunicorn worker 3"
    assert naming.describe(process("-c", origin="xdist:gw1"), main) == "pytest gw1"
    assert naming.describe(process(*spawned, origin="rank:1", rank=1), main) == "rank 1"
    around = process(*spawned, origin="rank:1", rank=4)
    assert naming.describe(around, main) == "worker 1 of rank 4"  # srun has started train.py as rank 4


def test_what_starts_ranks_is_none_of_them():
    """With `--ranks` the first process of a job counts as rank 0, and torch.multiprocessing has another one."""
    main = {**process("train.py", rank=0, pid=41, ppid=1), "world_size": None}
    spawned = [{**process(rank=n, origin=f"rank:{n}", pid=50 + n), "world_size": None} for n in (0, 1)]
    worker = {**process(rank=1, origin="dataloader:0", pid=60, ppid=51), "world_size": None}
    assert [each["pid"] for each in job.ranks([main, *spawned, worker])] == [50, 51]


def test_ranks_of_a_job_on_several_machines_say_which_they_are_on_their_own():
    assert naming.describe(process("train.py", rank=3, local_rank=3)) == "rank 3"
    assert naming.describe(process("train.py", rank=3, local_rank=1)) == "rank 3 (local 1)"
    assert naming.describe(process("train.py", rank=1, local_rank=1, spread=True)) == "rank 1 (local 1)"
    for environment in (
        {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"},
        {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
        {"SLURM_NTASKS": "4", "SLURM_NNODES": "2"},
    ):
        assert registry.is_spread(environment)
    assert not registry.is_spread({"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4", "SLURM_NNODES": "1"})


def test_names_that_are_the_same_get_what_tells_them_apart():
    rank = process("eval.py", rank=3)
    assert naming.qualified("rank 3", rank, ["rank 2", "train.py"]) == "rank 3"
    assert naming.qualified("rank 3", rank, ["rank 3"]) == "eval.py of rank 3"
    assert naming.qualified("rank 3", rank, ["rank 3", "eval.py of rank 3"]) == "rank 3 (42)"
    assert naming.qualified("work.py", process("work.py"), ["work.py"]) == "work.py (42)"


def test_processes_that_serve_others_are_named_by_what_they_are():
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
def test_processes_that_serve_others_can_be_debugged_when_asked_for(program, tmp_path, asked):
    options = ("--housekeeping",) if asked == "flag" else ()
    running = program(SERVED, options=options, env={"DKDBG_HOUSEKEEPING": "1"} if asked == "variable" else {})
    worker = "multiprocessing worker ForkServerProcess-1 of train.py"
    serving = {"multiprocessing forkserver of train.py", "multiprocessing resource tracker of train.py"}
    wanted = {"train.py", worker} | (serving if asked else set())
    with Editor(running.port, {}) as editor:
        wait_for(
            lambda: {one["name"].partition(" (")[0] for one in running.record()["processes"]}, wanted.__eq__
        )
        wait_for(lambda: [one["joined"] for one in running.record()["processes"]], all)
        editor.wait_attached(len(wanted) + 1)  # a process that ends meanwhile cannot be attached to
        (tmp_path / "stop").touch()
        code, _, err = running.finish()
    assert (code, editor.errors) == (0, []), err
