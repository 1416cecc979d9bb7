"""Four ranks in one pod, as torchrun starts them, and an editor's session with all of them from here."""

import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import Stop
from tests.agent.dap_probe import wait_for
from tests.engine.projects import at, marked_line
from tests.kubernetes.runs import relays, send

RANKS = 4
#: Trains until it is ended. The mark is where an editor stops.
TRAIN = """\
import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1_000_000):
        batch = torch.full((4, 8), float(rank))
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # breakpoint


if __name__ == "__main__":
    main()
"""
COMMAND = ("torchrun", "--nproc-per-node", str(RANKS), "train.py")


@contextmanager
def editor(port: int, root: Path, remote: str) -> Iterator[Debugger]:
    """An editor that has attached to `dkdbg attach` with a breakpoint at the mark of train.py."""
    with Debugger(at(port, root, remote)) as debugger:
        debugger.set_breakpoints(str(root / "train.py"), [marked_line(root / "train.py")])
        debugger.attach(timeout=300)
        yield debugger


def all_stopped(debugger: Debugger, *, limit: float = 300) -> dict[int, Stop]:
    stops: dict[int, Stop] = {}
    end = time.monotonic() + limit
    while len(stops) < RANKS:
        stop = debugger.wait_stopped(max(1.0, end - time.monotonic()))
        top = debugger.stack(stop)[0]
        stops[int(debugger.evaluate("rank", top))] = stop
    assert set(stops) == set(range(RANKS))
    return stops


def cut_again_and_again(debugger: Debugger, stop: Stop, times: int) -> float:
    """Kill the tunnel's kubectl while a rank is stopped, so often; seconds until it answers again each time: the median."""
    took = []
    for _ in range(times):
        killed = wait_for(relays, bool)
        began = time.monotonic()
        send(signal.SIGKILL, killed)
        assert debugger.evaluate("6 * 7", debugger.stack(stop)[0]) == "42"
        took.append(time.monotonic() - began)
    return statistics.median(took)
