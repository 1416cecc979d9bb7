"""Ranks on a real NCCL. Two ranks share one GPU: NCCL allows it where they seem to be on two hosts (NCCL_HOSTID)."""

import contextlib
import time

import pytest

from tests.agent.dap_probe import Editor, wait_for
from tests.agent.test_where import where

#: Seconds that the job's process group waits.
TIMEOUT = 10
TRAIN = f"""import datetime, os, sys, time
rank = int(os.environ["RANK"])
os.environ.update(NCCL_HOSTID="host%d" % rank, NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1")
import torch
import torch.distributed as dist

def step(n):
    x = torch.ones(1000, device="cuda")
    return x

torch.cuda.set_device(0)
while not os.path.exists("start") and "late" in sys.argv:
    time.sleep(0.01)
dist.init_process_group("nccl", timeout=datetime.timedelta(seconds={TIMEOUT}))
group = dist.group.WORLD._get_backend(torch.device("cuda"))
stop = torch.zeros(1, device="cuda")
n = 0
while not stop.item():
    x = step(n)
    if rank == 1 and os.path.exists("slow"):
        time.sleep({4 * TIMEOUT})
    dist.all_reduce(x)
    stop[0] = os.path.exists("stop")
    dist.all_reduce(stop)
    n += 1
    with open("progress%d.new" % rank, "w") as out:
        out.write("%d %d" % (n, group.options._timeout.total_seconds()))
    os.rename("progress%d.new" % rank, "progress%d" % rank)
    time.sleep(0.01)
print(x[0].item(), flush=True)
dist.destroy_process_group()
"""
LINE = 1 + TRAIN.splitlines().index("    return x")


def progress(folder, rank=0):
    """How many steps there were, and the seconds that the group of this rank waits."""
    try:
        steps, seconds = (folder / f"progress{rank}").read_text().split()
    except (OSError, ValueError):
        return 0, 0
    return int(steps), int(seconds)


@pytest.fixture
def ranks(launch, gpu_python, tmp_path):
    def start(*words, **more):
        (tmp_path / "train.py").write_text(TRAIN)
        line = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py", *words)
        return launch(gpu_python, *line, python=gpu_python, **more)

    return start


def session_of(editor, running, rank):
    pid = wait_for(
        lambda: next((p["pid"] for p in running.record()["processes"] if p.get("rank") == rank), None), bool
    )
    wait_for(lambda: pid in editor.attached, bool)
    return editor.attached[pid]


@pytest.mark.parametrize("late", [False, True])
def test_a_rank_held_for_longer_than_the_timeout_of_nccl_ends_no_job(ranks, tmp_path, late):
    running = ranks() if late else ranks(wait="300")
    if late:
        wait_for(lambda: progress(tmp_path), lambda found: found[0] > 3)
        assert progress(tmp_path)[1] == TIMEOUT
    path = str(tmp_path / "train.py")
    with Editor(running.port, {}, hold=True) as editor:
        held = session_of(editor, running, 1)
        wait_for(lambda: progress(tmp_path), lambda found: found[0] > 3 and found[1] == 86400)
        held.request("setBreakpoints", source={"path": path}, breakpoints=[{"line": LINE}])
        stop = editor.wait_stops(1)[0]
        time.sleep(3 * TIMEOUT)
        assert running.process.poll() is None
        found = held.variables(frame=stop["frame"])["x"]["value"]
        steps = progress(tmp_path)[0]
        for pid, session in list(editor.attached.items()):
            if pid:
                session.request("setBreakpoints", source={"path": path}, breakpoints=[])
        for each in editor.wait_stops(1):
            each.go_on()
        wait_for(lambda: progress(tmp_path), lambda now: now[0] > steps + 5)
    assert found.startswith("Tensor(1000,) float32 cuda:0, ")
    wait_for(lambda: progress(tmp_path)[1], lambda seconds: seconds == TIMEOUT)
    (tmp_path / "stop").touch()
    code, out, err = running.finish(120)
    assert (code, out) == (0, "2.0\n2.0\n"), err


def test_the_rank_that_is_missing_in_a_collective_of_nccl_is_named(ranks, tmp_path):
    running = ranks()
    wait_for(lambda: progress(tmp_path), lambda found: found[0] > 3)
    (tmp_path / "slow").touch()
    said = ""
    with contextlib.suppress(AssertionError):
        wait_for(
            lambda: where(running),
            lambda text: "has not reached" in text or running.process.poll() is not None,
        )
    said = where(running)
    code, _, err = running.finish(120)  # without an editor the timeout of the group holds
    assert code != 0, err
    assert "rank 1 has not reached all_reduce" in said, (said, err[-2000:])
