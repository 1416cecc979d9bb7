"""Programs of pods that would end for a time limit while an editor holds them, in a real cluster."""

import signal
import time

import pytest

from dkdbg.dap.debugger import Debugger
from tests.engine.attach_proxies import attach_proxy
from tests.engine.projects import at, dkdbg, marked_line, must, start, unique
from tests.kubernetes.real.cluster import pod

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("kubernetes")]

#: Seconds that the programs wait for what is held.
LIMIT = 6
LOADER = f"""
import torch
from torch.utils.data import DataLoader, Dataset

class Pictures(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, i):
        return torch.full((3,), float(i))  # breakpoint

if __name__ == "__main__":
    loader = DataLoader(Pictures(), batch_size=4, num_workers=1, timeout={LIMIT})
    print("result", sum(float(batch.sum()) for batch in loader))
"""
ENGINE = f"""
import multiprocessing, sys, threading, time

def engine(asked, answered, beat):
    def heart():
        while True:
            beat.value = time.time()
            time.sleep(0.2)
    threading.Thread(target=heart, daemon=True).start()
    n = asked.get()
    answered.put(n * n)  # breakpoint

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    asked, answered, beat = context.Queue(), context.Queue(), context.Value("d", time.time())
    context.Process(target=engine, args=(asked, answered, beat), daemon=True).start()
    asked.put(7)
    while answered.empty():
        if beat.value and time.time() - beat.value > {LIMIT}:
            sys.exit("no heartbeat")
        time.sleep(0.1)
    print("result", answered.get(timeout={LIMIT}))
"""
RANKS = f"""
import datetime, torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds={LIMIT}))
found = torch.ones(1)
if dist.get_rank() == 1:
    found += 0  # breakpoint
dist.all_reduce(found)
if dist.get_rank() == 0:
    print("result", float(found))
dist.destroy_process_group()
"""
TORCHRUN = ("torchrun", "--standalone", "--nproc-per-node", "2", "train.py")


@pytest.mark.parametrize(
    ("program", "command", "result"),
    [
        (LOADER, ("python3", "train.py"), "84.0"),
        (ENGINE, ("python3", "train.py"), "49"),
        (RANKS, TORCHRUN, "2.0"),
    ],
    ids=["a loader's timeout", "a heartbeat", "a process group's timeout"],
)
def test_a_limit_in_a_pod_does_not_end_what_is_held_for_longer(  # noqa: PLR0917 - fixtures
    program, command, result, root, developer, tmp_path
):
    name = unique("paused")
    target = f"k8s://ml/{name}"
    developer.apply(pod(name))
    developer.running(name)
    (root / "train.py").write_text(program)
    must(dkdbg(root, "sync", "--once", target))
    output = tmp_path / "output"
    with output.open("w") as file:
        run = start(root, "run", "--wait", "300", "--on", target, "--", *command, stdout=file, stderr=file)
    try:
        with attach_proxy(root, target) as proxy, Debugger(at(proxy.port, root, "/workspace")) as debugger:
            debugger.set_breakpoints(str(root / "train.py"), [marked_line(root / "train.py")])
            debugger.attach()
            stop = debugger.wait_stopped(300)
            time.sleep(2 * LIMIT)
            debugger.set_breakpoints(str(root / "train.py"), [])
            debugger.continue_(stop)
            assert run.wait(300) == 0, output.read_text()
        assert f"result {result}\n" in output.read_text()
    finally:
        if run.poll() is None:
            run.send_signal(signal.SIGTERM)
            run.wait(300)
        developer.delete(f"pod/{name}")
