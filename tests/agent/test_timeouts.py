"""Timeouts of process groups while a rank is held: real torchrun, real gloo."""

import contextlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dkdbg.agent.inprocess.clocks import timeouts
from dkdbg.errors import DkdbgError
from tests.agent.conftest import torchrun_words
from tests.agent.dap_probe import Editor, wait_for
from tests.commands import command
from tests.engine.attach_proxies import attach_proxy
from tests.frameworks import python_with
from tests.ports import free_port

#: Seconds that the job's process group waits.
TIMEOUT = 3
TRAIN = f"""
import datetime, os, time
import torch
import torch.distributed as dist

def step(n):
    x = torch.ones(1)
    return x

open("here" + os.environ["RANK"], "w").close()
while not (os.path.exists("here0") and os.path.exists("here1")):  # who imports longer is waited for no longer than that
    time.sleep(0.01)
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds={TIMEOUT}))
rank = dist.get_rank()
group = dist.group.WORLD._get_backend(torch.device("cpu"))
stop = torch.zeros(1)
n = 0
while not stop:
    step(n)
    if rank == 1 and os.path.exists("slow"):
        time.sleep({2 * TIMEOUT})
    stop[0] = os.path.exists("stop")
    dist.all_reduce(stop)
    n += 1
    if rank == 0:
        with open("progress.new", "w") as out:
            out.write("%d %d" % (n, group.options._timeout.total_seconds()))
        os.rename("progress.new", "progress")
    time.sleep(0.01)
"""
LINE = 1 + TRAIN.splitlines().index("    return x")


def progress(folder: Path) -> tuple[int, int]:
    """How many steps there were, and the seconds that the group of rank 0 waits."""
    try:
        steps, seconds = (folder / "progress").read_text().split()
    except (OSError, ValueError):
        return 0, 0
    return int(steps), int(seconds)


@pytest.mark.parametrize("late", [False, True])
def test_a_rank_held_for_longer_than_the_timeout_of_its_group_ends_no_job_and_the_timeout_comes_back(
    torchrun, tmp_path, late
):
    running = torchrun(TRAIN, 2, wait="0" if late else "300")
    if late:
        wait_for(lambda: progress(tmp_path), lambda found: found[0] > 0)
        assert progress(tmp_path)[1] == TIMEOUT  # a run that nobody debugs keeps its own
    path = str(tmp_path / "train.py")
    with Editor(running.port, {} if late else {path: [LINE]}, hold=True) as editor:
        if late:
            wait_for(lambda: progress(tmp_path)[1], lambda seconds: seconds == timeouts.RAISED_S)
            pid = next(p["pid"] for p in running.record()["processes"] if p["rank"] == 1)
            wait_for(lambda: pid in editor.attached, bool)
            rank = editor.attached[pid]
            rank.request("setBreakpoints", source={"path": path}, breakpoints=[{"line": LINE}])
        stops = editor.wait_stops(1)
        time.sleep(1.5 * TIMEOUT)
        assert running.process.poll() is None
        steps = progress(tmp_path)[0]
        for pid, session in list(editor.attached.items()):
            if pid:
                session.request("setBreakpoints", source={"path": path}, breakpoints=[])
        for stop in editor.wait_stops(len(stops)):
            stop.go_on()
        wait_for(lambda: progress(tmp_path), lambda found: found[0] > steps + 5)
        editor.wait_output("process groups wait for 24 h instead of failing")
    wait_for(lambda: progress(tmp_path)[1], lambda seconds: seconds == TIMEOUT)
    (tmp_path / "slow").touch()
    code, _, err = running.finish(300)
    assert code != 0
    assert "imed out" in err, err


OWN_LAUNCHER = f"""
import datetime, os, subprocess, sys
if len(sys.argv) == 1:
    words = [[sys.executable, __file__, rank] for rank in "01"]
    raise SystemExit(max(rank.wait() for rank in [subprocess.Popen(each) for each in words]))
import torch
import torch.distributed as dist

address, rank = "tcp://127.0.0.1:" + os.environ["OWN_PORT"], int(sys.argv[1])
limit = datetime.timedelta(seconds={TIMEOUT})
dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2, timeout=limit)
x = torch.ones(1)
dist.all_reduce(x)
if rank == 1:
    x += 1  # held
dist.all_reduce(x)
"""


def test_ranks_whose_environment_does_not_say_so_wait_too(program):
    env = {"OWN_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    running = program(OWN_LAUNCHER, wait="300", python=python_with("torch"), env=env)
    line = 1 + OWN_LAUNCHER.splitlines().index("    x += 1  # held")
    with Editor(running.port, {running.script: [line]}, hold=True) as editor:
        (stop,) = editor.wait_stops(1)
        time.sleep(1.5 * TIMEOUT)
        stop.go_on()
        running.ends()


WITHOUT_TORCH = """
import os, subprocess, sys
if "RANK" not in os.environ:
    variables = [dict(os.environ, RANK=rank, WORLD_SIZE="2") for rank in "01"]
    ranks = [subprocess.Popen([sys.executable, __file__], env=each) for each in variables]
    raise SystemExit(max(rank.wait() for rank in ranks))
x = 1
"""


def test_ranks_without_torch_have_no_timeouts_to_tell_of(program):
    running = program(WITHOUT_TORCH, wait="300")
    with Editor(running.port, {running.script: [7]}) as editor:
        editor.wait_stops(1)  # one Continue lets both go on
        assert "process groups" not in editor.wait_output("the program exited")
        running.ends()


WAITING = """
import datetime, os, threading, time
import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace_json as recorded

def tell():
    while b"gloo:barrier" not in recorded(True, False):
        time.sleep(0.01)
    open("waits%d" % rank, "w").close()

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=90))
rank = dist.get_rank()
if rank:
    threading.Thread(target=tell).start()
while not rank and not os.path.exists("stop"):
    time.sleep(0.01)
dist.barrier()
"""


def test_ranks_that_wait_since_before_the_attach_are_told_with_the_time_that_is_left(torchrun, tmp_path):
    running = torchrun(WAITING, 3)
    wait_for(lambda: all((tmp_path / f"waits{rank}").exists() for rank in (1, 2)), bool)
    told = re.compile(
        r"waiting in barrier for \d+ s \(since before you attached\): ranks 1, 2; .* it gives up in (\d+) s"
    )
    with Editor(running.port, {}) as editor:
        found = wait_for(lambda: told.search("".join(editor.output)), bool)
        assert 0 < int(found[1]) <= 90
        (tmp_path / "stop").touch()
        running.ends()


CRASHING = """
import datetime, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=3))
rank = dist.get_rank()
print("began", flush=True)
if rank == 1:
    denominator = 0
    1 / denominator
try:
    dist.all_reduce(torch.ones(1))
except RuntimeError as error:
    raise SystemExit("rank 0 was not to fail: %s" % error if "imed out" in str(error) else 1)
"""


@pytest.mark.parametrize("options", [("--on-crash", "hold=10m"), ("--ranks", "failing")], ids=" ".join)
def test_a_held_crash_outlives_the_timeout_of_the_group_and_is_shown_first(torchrun, options):
    running = torchrun(CRASHING, 2, options=options)
    assert running.port  # it has begun

    def held():
        return [p["rank"] for p in running.record().get("processes", []) if p["state"] == "post-mortem"]

    wait_for(held, [1].__eq__)
    time.sleep(6)  # twice the timeout of the group
    assert held() == [1]
    with running.debugged() as debugger:
        stop = debugger.wait_stopped(300)
        assert stop.session.name == "rank 1"
        assert debugger.evaluate("denominator", debugger.stack(stop)[0]) == "0"
        debugger.continue_(stop)
        while running.process.poll() is None:  # the launcher's own exception is held too
            with contextlib.suppress(DkdbgError):
                debugger.continue_(debugger.wait_stopped(5))
    log = running.ends(1)
    assert re.search(r"rank 1 \(pid \d+\) has crashed: train.py:11: ZeroDivisionError", log)
    assert "rank 0 was not to fail" not in log


#: Waits of rank 0 for rank 1 that end after `limit`, and what rank 1 does after it was held.
WAITS = {
    "monitored_barrier": ("dist.monitored_barrier(timeout=limit)",) * 2,
    "store.wait": ("store.wait(['waited'], limit)", "store.set('waited', '1')"),
    "store.get": ("own.get('got')", "own.set('got', '1')"),
    "work.wait": ("dist.all_reduce(torch.ones(1), group=patient, async_op=True).wait(limit)",) * 2,
    "new_group": ("dist.barrier(group=dist.new_group([0, 1], timeout=limit))",) * 2,
}
WAITING_IN_C = f"""
import datetime, os
import torch
import torch.distributed as dist

limit = datetime.timedelta(seconds={TIMEOUT})
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=300))
rank = dist.get_rank()
store = dist.distributed_c10d._get_default_store()
own = dist.TCPStore("127.0.0.1", int(os.environ["OWN_PORT"]), is_master=rank == 0, timeout=limit)
patient = dist.new_group([0, 1])
for wait in {WAITS!r}.values():
    dist.barrier()
    if rank == 1:
        held = wait
    exec(wait[rank])
dist.barrier()
"""


def test_waits_of_torch_that_are_one_call_last_longer_by_a_hold(torchrun, tmp_path):
    running = torchrun(WAITING_IN_C, 2, wait="300", env={"OWN_PORT": str(free_port())})
    line = 1 + WAITING_IN_C.splitlines().index("        held = wait")
    with Editor(running.port, {str(tmp_path / "train.py"): [line]}, hold=True) as editor:
        for number, kind in enumerate(WAITS):
            stop = editor.wait_stops(number + 1)[number]
            time.sleep(1.5 * TIMEOUT)
            assert running.process.poll() is None, kind
            stop.go_on()
        running.ends()


ALONE = """
import datetime, os, time
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=77))
open("pid%d" % dist.get_rank(), "w").write(str(os.getpid()))
while not os.path.exists("stop"):
    time.sleep(0.05)
"""


def test_one_rank_of_a_job_without_dkdbg_is_told_what_the_others_will_do(tmp_path):
    (tmp_path / "train.py").write_text(ALONE)
    job = subprocess.Popen(torchrun_words(3), cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        files = [tmp_path / f"pid{rank}" for rank in range(3)]
        pids = wait_for(
            lambda: [each.read_text() for each in files if each.exists()],
            lambda found: len(found) == 3 and all(found),
        )
        with (
            attach_proxy(tmp_path, "local:", options=("--pid", pids[1])) as proxy,
            Editor(proxy.port, {}) as editor,
        ):
            others = (
                "keeps running while you hold the program: ranks 0, 2, not under dkdbg: timing out in a collective after 77 s without "
                f"an answer (more time: attach with --pid {pids[0]} --pid {pids[2]} too)"
            )
            said = editor.wait_output(others)
            assert "process groups of the attached processes wait for 24 h" in said
    finally:
        (tmp_path / "stop").touch()
        assert job.wait(300) == 0


#: A fake of torch.distributed: groups by name, and their timeouts.
GROUPS = """
import datetime, os, sys, types
from dkdbg.agent.inprocess.clocks import timeouts

class Backend:
    def __init__(self, timeout):
        self.options = types.SimpleNamespace(_timeout=timeout)
    def _set_default_timeout(self, timeout):
        self.options._timeout = timeout

class Group:
    _device_types = ["cpu"]
    def __init__(self, name, timeout):
        self.group_name, self.backend = name, Backend(timeout)
    def _get_backend(self, device):
        return self.backend

class Store:
    timeout = datetime.timedelta(minutes=5)
    def set_timeout(self, timeout):
        self.timeout = timeout

def helper(name, timeout=None, store=None):
    group = Group(name, timeout)
    torch._world.pg_map[group] = 1
    return group, None

torch, store = types.ModuleType(timeouts.MODULE), Store()
torch._world = types.SimpleNamespace(pg_map={})
torch._new_process_group_helper = helper
torch.rendezvous = torch._store_based_barrier = lambda *_, **__: None
torch._get_default_store = lambda: store
torch.ProcessGroup = type("ProcessGroup", (), {"monitored_barrier": lambda *_: None})
sys.modules[timeouts.MODULE] = torch
folder = sys.argv[1]
timeouts.follow(folder)
torch._new_process_group_helper("0", timeout=datetime.timedelta(seconds=30))
torch._world.pg_map.clear()  # destroyed: torch gives the name again
group, _ = torch._new_process_group_helper("0", timeout=datetime.timedelta(minutes=30))
print(group.backend.options._timeout)
os.unlink(folder + "/join.json")
timeouts.follow(folder)
print(group.backend.options._timeout)
"""


def test_a_group_with_the_name_of_a_destroyed_one_gets_its_own_timeout_back(tmp_path):
    (tmp_path / "join.json").write_text("{}")
    done = command([sys.executable, "-c", GROUPS, str(tmp_path)])
    assert done.stdout == "1 day, 0:00:00\n0:30:00\n"
