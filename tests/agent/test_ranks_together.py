"""Ranks of a real torchrun job (CPU, gloo): they stop at the same iteration, go on and pause by one key, leave by one."""

from pathlib import Path
from typing import Any

import pytest

from tests.agent.dap_probe import Editor, wait_for

CODE = """import os, sys, time, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, step = dist.get_rank(), 0
def tick():
    global step
    over = torch.zeros(1) + float(os.path.exists("stop"))
    dist.all_reduce(over)
    step += 1  # all ranks come here
    if rank == 0:
        step += 0  # one does
    end = time.monotonic() + float(open("pause").read())
    while time.monotonic() < end:
        time.sleep(0.001)
    return over.item() > 0
open("up%d" % rank, "w").close()
while not tick():
    pass
print("end", rank)
"""
BEHIND = 1 + next(n for n, line in enumerate(CODE.splitlines()) if "all ranks" in line)
OF_ONE = BEHIND + 2


class Job:
    def __init__(self, running: Any, folder: Path, ranks: int) -> None:
        self.running, self.folder, self.ranks = running, folder, ranks
        self.port = running.wait_state("running", "attached")["port"]
        wait_for(lambda: list(folder.glob("up?")), lambda found: len(found) == ranks)

    def attach(self, line: int = BEHIND, **more: Any) -> Editor:
        return Editor(self.port, {str(self.folder / "train.py"): [line]}, hold=True, more=more).attach()

    def pause(self, seconds: float) -> None:
        (self.folder / "pause.new").write_text(str(seconds))
        (self.folder / "pause.new").replace(self.folder / "pause")

    def steps(self, editor: Editor, count: int | None = None) -> list[str]:
        """What `step` is in each rank, once as many have stopped; whatever the editor was told before is forgotten."""
        stops = editor.wait_stops(count or self.ranks, 300)
        found = [one.value("step", context="repl") for one in stops]
        del editor.stops[: len(stops)]
        return found

    def held(self) -> set[int]:
        return {each["pid"] for each in self.running.record()["processes"] if each["stopped"]}

    def pids(self) -> dict[int, int]:
        found = self.running.record()["processes"]
        return {each["rank"]: each["pid"] for each in found if each["rank"] is not None}


@pytest.fixture
def job(torchrun, tmp_path):
    (tmp_path / "pause").write_text("0.02")
    return lambda ranks: Job(torchrun(CODE, ranks), tmp_path, ranks)


def leave(editor: Editor) -> None:
    """One Stop: of one rank's session; all others end with it."""
    session = next(one for pid, one in list(editor.sessions.items()) if pid)
    session.request("disconnect", terminateDebuggee=False)
    wait_for(lambda: [one.closed for one in list(editor.sessions.values())], all)
    for one in list(editor.sessions.values()):
        one.close()


def test_ranks_stop_at_the_same_iteration_and_one_key_lets_them_go_on_pauses_and_leaves_them(job):
    one = job(3)
    one.pause(0.3)
    editor = one.attach()
    first = one.steps(editor)
    sessions = [each for pid, each in editor.sessions.items() if "stopped" in each.seen]
    held, ranks = sessions[0], set(one.pids().values())
    assert len(set(first)) == 1
    held.request("continue", threadId=1)
    second = one.steps(editor)
    assert len(set(second)) == 1
    assert set(second) != set(first)
    for session in sessions:
        path = str(one.folder / "train.py")
        session.request("setBreakpoints", source={"path": path}, breakpoints=[])
    held.request("continue", threadId=1)
    wait_for(one.held, lambda stopped: not stopped)
    held.request("pause", threadId=1)
    wait_for(one.held, lambda stopped: ranks <= stopped)
    leave(editor)
    wait_for(one.held, lambda stopped: not stopped)

    one.pause(0.02)
    editor = one.attach(OF_ONE)
    assert len(one.steps(editor, 1)) == 1
    editor.wait_output("without the others: rank 1, rank 2")
    leave(editor)
