"""A set of ranks is debugged, and the others run free: real torchrun, real gloo."""

import contextlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from dkdbg.agent.dap import messages
from dkdbg.agent.inprocess import choosing, ranks
from dkdbg.agent.state import choice, processes
from dkdbg.launchers import registry
from tests.agent.dap_probe import Client, Editor, wait_for

#: A training step with a collective; says at its end whether its process was ever traced.
TRAIN = """
import os, sys, time
import torch, torch.distributed as dist

def traced():
    return "pydevd" in sys.modules

def step(n):
    x = torch.ones(1)
    dist.all_reduce(x)
    return x

def main():
    dist.init_process_group("gloo")
    n = 0
    stop = torch.zeros(1)
    while not stop:
        step(n)
        n += 1
        stop[0] = os.path.exists("stop")
        dist.all_reduce(stop)
        time.sleep(0.005)
    with open("rank%d" % dist.get_rank(), "w") as out:
        out.write("traced" if traced() else "free")
    dist.destroy_process_group()

main()
"""
LINE = 1 + TRAIN.splitlines().index("    dist.all_reduce(x)")


@pytest.fixture
def job(torchrun, tmp_path):
    yield torchrun
    (tmp_path / "stop").touch()


def there(running: Any, count: int) -> dict[int, int]:
    def found():
        return {p["rank"]: p["pid"] for p in running.record()["processes"] if p["rank"] is not None}

    return dict(wait_for(found, lambda ranks: len(ranks) == count))


def ended(running: Any, tmp_path: Path, count: int) -> list[str]:
    (tmp_path / "stop").touch()
    running.ends()
    return [(tmp_path / f"rank{rank}").read_text() for rank in range(count)]


def stopped_in(editor: Editor, running: Any, count: int) -> set[int]:
    by_pid = {p["pid"]: p["rank"] for p in running.record()["processes"]}

    def pids():
        return {pid for pid, session in list(editor.attached.items()) if pid and "stopped" in session.seen}

    wait_for(pids, lambda found: len(found) >= count)
    return {by_pid[pid] for pid in pids()}


def clear(editor: Editor, tmp_path: Path) -> None:
    """Take the breakpoints away, and let run whoever stands at one; a process that has ended needs neither."""
    editor.hold = False
    for pid, session in list(editor.attached.items()):
        if pid:
            with contextlib.suppress(AssertionError, OSError):
                session.request("setBreakpoints", source={"path": str(tmp_path / "train.py")}, breakpoints=[])


def test_chosen_ranks_stop_from_the_start_each_attach_may_choose_others_and_a_rank_nobody_chose_is_never_traced(
    job, tmp_path
):
    running = job(TRAIN, 4, options=("--ranks", "0,3"), wait="300")
    breakpoints = {str(tmp_path / "train.py"): [LINE]}
    with Editor(running.port, dict(breakpoints)) as editor:
        running.wait_state("attached")
        pids = there(running, 4)
        assert stopped_in(editor, running, 2) == {0, 3}
        editor.wait_output("debugging ranks 0,3; the others run free")
        assert len(editor.attached) == 3  # the root session, two ranks, no launcher
        clear(editor, tmp_path)
    wait_for(running.record, lambda record: record["state"] == "running")
    for wanted, chosen in (("0-2:2", {0, 2}), ("0", {0})):
        with Editor(running.port, dict(breakpoints), more={messages.RANKS: wanted}) as editor:
            assert stopped_in(editor, running, len(chosen)) == chosen
            # Those of the one before have left.
            assert set(editor.attached) == {0} | {pids[rank] for rank in chosen}
            if wanted == "0":
                editor.sessions[0].request(messages.CHOOSE, ranks="0,2")
                assert stopped_in(editor, running, 2) == {0, 2}
                editor.sessions[0].request(messages.CHOOSE, ranks="3")
                assert stopped_in(editor, running, 3) == {0, 2, 3}
                number = editor.sessions[0].send(messages.CHOOSE, ranks="2-1")
                said = "'2-1' ends before it begins; write the lower rank first: 1-2"
                with pytest.raises(AssertionError, match=said):
                    editor.sessions[0].wait(number)
            clear(editor, tmp_path)
        wait_for(running.record, lambda record: record["state"] == "running")
    assert ended(running, tmp_path, 4) == ["traced", "free", "traced", "traced"]


FAILS = """
import os, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
open("up%d" % rank, "w").close()
while not os.path.exists("go"):
    time.sleep(0.02)
if rank == 1:
    lost = {"rank": rank}
    lost["step"]
while not os.path.exists("stop"):
    breakpoint()
    time.sleep(0.02)
"""


@pytest.mark.parametrize("late", [False, True])
def test_the_rank_that_fails_stops_where_it_failed_and_the_others_run_free(job, tmp_path, late):
    running = job(FAILS, 2, options=() if late else ("--ranks", "failing"))
    port = running.wait_state("running")["port"]
    pids = there(running, 2)
    wait_for(lambda: list(tmp_path.glob("up*")), lambda found: len(found) == 2)
    editor = Editor(port, {}, hold=True, more={messages.RANKS: "failing"} if late else {})
    with editor:
        if late:
            wait_for(lambda: [watches_for_failure(running, pid) for pid in pids.values()], all)
        (tmp_path / "go").touch()
        stop = editor.wait_stops(1)[0]
        assert stop["line"] == 1 + FAILS.splitlines().index('    lost["step"]')
        assert "{'rank': 1}" in stop.value("str(lost)")
        assert set(editor.attached) == {0, pids[1]}
        (tmp_path / "stop").touch()
        stop.go_on()
        err = running.ends(1)
    assert "KeyError: 'step'" in err


def watches_for_failure(running: Any, pid: int) -> bool:
    """The agent asks processes that run already; asked once more, such a process answers at once."""
    folder = next(running.runtime.glob(f"{running.name}-*/p"))
    return processes.ask(str(folder.resolve() / f"{pid}.sock"), "failing") == "watching"


WORKERS = """
import os, time
from torch.utils.data import DataLoader

class Data:
    def __len__(self):
        return 4
    def __getitem__(self, number):
        return number * 10

while not os.path.exists("stop"):
    for batch in DataLoader(Data(), num_workers=2, batch_size=1):
        time.sleep(0.01)
open("done" + os.environ["RANK"], "w").close()
"""


def test_workers_of_a_dataloader_are_debugged_with_their_rank(job, tmp_path):
    line = 1 + WORKERS.splitlines().index("        return number * 10")
    running = job(WORKERS, 2, options=("--ranks", "1"), wait="300")
    with Editor(running.wait_state("waiting")["port"], {str(tmp_path / "train.py"): [line]}) as editor:
        names = re.compile(r"DataLoader worker [01] of rank (\d)")
        editor.wait_stops(4)
        record = running.record()["processes"]
        joined = {found.group(1) for p in record if p["joined"] and (found := names.match(p["name"]))}
        assert joined <= {"1"}
        attached = set(editor.attached)  # more of them come meanwhile
        assert attached & {p["pid"] for p in record if p["rank"] == 0} == set()
        (tmp_path / "stop").touch()
        clear(editor, tmp_path)
        code, _, err = running.finish(300)
    assert (code, editor.errors) == (0, []), err


def test_the_users_own_launcher_is_no_rank_of_the_job_that_it_starts(program, tmp_path):
    own = """\
    import os, subprocess, sys
    ranks = [{**os.environ, "RANK": str(n), "LOCAL_RANK": str(n), "WORLD_SIZE": "2"} for n in range(2)]
    for each in [subprocess.Popen([sys.executable, "train.py"], env=env) for env in ranks]:
        each.wait()
    """
    (tmp_path / "train.py").write_text(
        "import os, time\nwhile not os.path.exists('stop'):\n    time.sleep(0.02)\n"
    )
    running = program(inspect.cleandoc(own), name="start.py", options=("--ranks", "1"))
    running.wait_state("running")
    there(running, 2)
    named = {each["name"]: each["rank"] for each in running.record()["processes"]}
    assert named == {"start.py": None, "rank 0": 0, "rank 1": 1}
    (tmp_path / "stop").touch()
    running.ends(0)


def test_ranks_that_are_not_there_are_named():
    assert (
        choice.missing(ranks.parse("0,5-7"), [0, 1, 2, 3])
        == "ranks 5, 6, 7: not here; the ranks here are 0-3"
    )
    assert choice.missing(ranks.parse("2"), []) == "rank 2: not here; no process here has a rank"
    assert choice.missing(ranks.parse("all"), []) == ""


def test_what_is_no_set_of_ranks_is_refused_before_the_program_starts_and_by_an_attach(
    launch, loop, tmp_path
):
    running = launch(sys.executable, "-c", "open('started', 'w')", options=("--ranks", "0,x"))
    err = running.ends(2)
    assert "dkdbg: --ranks (DKDBG_RANKS): 'x' in '0,x' is not a rank; write ranks separated by commas" in err
    assert not (tmp_path / "started").exists()
    with Client(loop().port) as client:
        answer = client.refusal("attach", **{messages.RANKS: "first"})
    assert "\"dkdbgRanks\": not a set of ranks: 'first'; write ranks" in answer["message"]


# -- rules, without processes -------------------------------------------------------------------------------------


def test_the_variables_of_ranks_are_those_of_the_launchers():
    first = [name for launcher in registry.launchers() for name in launcher.ranks]
    assert list(choosing.VARIABLES) == first
    for environment in (
        {"LOCAL_RANK": "2", "NODE_RANK": "0"},
        {"LOCAL_RANK": "2"},
        {"LOCAL_RANK": "2", "NODE_RANK": "1"},
    ):
        mine = choosing.rank_of(environment, ["python", "x.py"], "", below=True, parents=None)
        assert mine == registry.ranks(environment)[0]


def test_the_launchers_that_are_no_ranks_are_those_that_spread():
    spread = {word for one in registry.launchers() if one.spreads for word in (*one.programs, *one.modules)}
    assert spread == choosing.LAUNCHERS


@pytest.mark.parametrize(
    ("argv", "origin", "below", "parents", "rank"),
    [
        (["python", "train.py"], "", False, None, 0),
        (["python", "/usr/bin/torchrun", "train.py"], "", False, None, None),
        (["python", "-m", "torch.distributed.run", "train.py"], "", False, None, None),
        (["python", "-u", "/usr/bin/accelerate", "launch"], "", False, None, None),
        (["python", "train.py"], "fork", True, 3, 3),
        (["python", "train.py"], "dataloader:1", True, 3, 3),
        (["python", "train.py"], "multiprocessing:Process-1", True, 0, None),
        (["python", "-c", "x", "--multiprocessing-fork"], "", True, 0, None),
        (["python", "helper.py"], "", True, 0, None),
    ],
)
def test_a_process_that_was_given_no_rank_belongs_to_its_parents_or_to_none(
    argv, origin, below, parents, rank
):
    assert choosing.rank_of({}, argv, origin, below=below, parents=parents) == rank
    assert choosing.rank_of({"RANK": "7"}, argv, origin, below=below, parents=parents) == 7
