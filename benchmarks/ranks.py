"""What a rank pays for the debugging of another one: rank 1 of two computes, an editor is attached to rank 0.

usage: python benchmarks/ranks.py [--smallest] [--rounds 7] [--steps 50000] [--only free,chosen]

Rank 1 times its own loop of calls and lines after the editor has set a breakpoint in the file that it runs; rank 0
sleeps. `free` was not chosen (`--ranks 0`), `chosen` has the same breakpoint, which it never comes to. In each round a
bare job runs beside it, and both ranks 1 share one core: whatever slows the machine down slows both. The time is CPU
time of 100 slices of the loop; of these the median, times 100.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cli")]

from shared.options import parse, parser

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

RANK = """\
import os, sys, time

def never():
    return 1

def step(n):
    total = 0
    for each in range(200):
        total += inner(each, n)
    return total

def inner(each, n):
    if each == n:
        each += 1
    return each * 2

rank, steps = int(os.environ["RANK"]), int(sys.argv[1])
if rank == 1 and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
open("up%d" % rank, "w").close()
while not os.path.exists("go"):
    time.sleep(0.01)
if rank == 1:
    for n in range(steps // 10):
        step(n)
    slices = []
    for _ in range(100):
        began = time.process_time()
        for n in range(steps // 100):
            step(n)
        slices.append(time.process_time() - began)
    with open("took.new", "w") as out:
        out.write(repr(100 * sorted(slices)[50]))
    os.rename("took.new", "took")
while not os.path.exists("took"):
    time.sleep(0.01)
"""
NEVER = 1 + RANK.splitlines().index("    return 1")
START = """\
import os, subprocess, sys
env = dict(os.environ, WORLD_SIZE="2")
ranks = [subprocess.Popen([sys.executable, "rank.py", sys.argv[1]], env=dict(env, RANK=str(n))) for n in range(2)]
sys.exit(max(rank.wait() for rank in ranks))
"""
MODES = {"free": "0", "chosen": "all"}


def wait(done, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise SystemExit("it does not come up")
        time.sleep(0.02)


@contextmanager
def job(folder: Path, steps: int, *agent: str) -> Iterator[None]:
    """A job of two ranks that are up, and wait for the word to begin."""
    folder.mkdir()
    (folder / "rank.py").write_text(RANK)
    (folder / "start.py").write_text(START)
    env = {**os.environ, "PYTHONPATH": str(HERE.parent / "cli"), "DKDBG_RUNTIME_DIR": str(folder / "run")}
    running = subprocess.Popen(
        [*agent, sys.executable, "start.py", str(steps)], cwd=folder, env=env, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait(lambda: (folder / "up0").exists() and (folder / "up1").exists())
        yield
    finally:
        (folder / "took").touch()  # the ranks end by it
        if agent:
            running.terminate()
        running.wait()


def measure(mode: str, steps: int) -> tuple[float, float]:
    """Seconds of the bare rank 1's loop, and of the other one's."""
    with tempfile.TemporaryDirectory(prefix="dkdbg-bench-") as name:
        bare, debugged, port = Path(name, "bare"), Path(name, "debugged"), free_port()
        launch = (
            sys.executable,
            "-m",
            "dkdbg.agent",
            "launch",
            "--port",
            str(port),
            "--ranks",
            MODES[mode],
            "--",
        )
        with job(bare, steps), job(debugged, steps, *launch), Debugger(AttachOptions(port=port)) as debugger:
            debugger.set_breakpoints(str(debugged / "rank.py"), [NEVER])
            debugger.attach()
            for rank in ("rank 0",) if mode == "free" else ("rank 0", "rank 1"):
                debugger.wait_session(lambda session, rank=rank: session.name.startswith(rank), rank)
            time.sleep(0.5)  # what the attach itself does is over
            for each in (bare, debugged):
                (each / "go").touch()
            for each in (bare, debugged):
                wait((each / "took").exists)
            return float((bare / "took").read_text()), float((debugged / "took").read_text())


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--rounds", type=int, default=7)
    command.add_argument("--steps", type=int, default=50_000)
    command.add_argument("--only", default=",".join(MODES), help="which")
    options = parse(command, rounds=1, steps=200)
    print(
        f"Python {sys.version.split()[0]}, {options.rounds} rounds of {options.steps} steps; medians, and of each round's ratio"
    )
    for mode in options.only.split(","):
        found = [measure(mode, options.steps) for _ in range(options.rounds)]
        bare, seconds = (statistics.median(each) for each in zip(*found, strict=True))
        ratios = sorted(b / a for a, b in found)
        print(
            f"  {mode:7} {seconds:7.3f} s, bare {bare:7.3f} s: {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"
        )


if __name__ == "__main__":
    main()
