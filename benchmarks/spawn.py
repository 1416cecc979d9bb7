"""What a child costs a program while it is debugged: spawned Pythons and forks, against a bare run and stock debugpy.

usage: python benchmarks/spawn.py [--smallest] [--runs 5] [--children 8] [--modes MODE ...] [PYTHON ...]     (default: this interpreter)

Milliseconds a child, CPU (of the child) and wall, one child after the other, modes in turn, median of the runs; and the
ratio to the bare run beside it. Only ratios mean anything on a shared machine. The editor has one breakpoint, in the
program. `no breakpoint`: `python -c pass`; `breakpoint`: a child that imports a file with one, which is never
reached: it has to be debugged from its start; `fork`: a child that ends at once.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from debug import Bench
from shared.options import parse, parser

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions

#: Waits for its go and for a debugger as workload.py does, and prints milliseconds a child as one JSON line.
PROGRAM = """
import json, os, resource, subprocess, sys, time

def measured(start):
    start()
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    for _ in range(COUNT):
        start()
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": wall / COUNT * 1000, "cpu": cpu / COUNT * 1000}

def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)

def is_traced():
    monitoring = getattr(sys, "monitoring", None)
    return sys.gettrace() is not None or (monitoring and monitoring.get_tool(monitoring.DEBUGGER_ID) is not None)

COUNT = int(sys.argv[2])
while sys.argv[1] != "-" and not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
end = time.monotonic() + 30
while sys.argv[3:] == ["traced"] and not is_traced():
    assert time.monotonic() < end, "no debugger traces this thread"
    time.sleep(0.005)
if sys.argv[3:] == ["traced"]:
    time.sleep(1)
here = os.path.dirname(os.path.abspath(__file__))
kinds = {
    "no breakpoint": lambda: subprocess.run([sys.executable, "-c", "pass"], check=True),
    "breakpoint": lambda: subprocess.run([sys.executable, "-c", "import stepped"], check=True, cwd=here),
    "fork": fork,
}
print(json.dumps({name: measured(start) for name, start in kinds.items()}), flush=True)
if False:
    never = 1
"""
STEPPED = "def never():\n    return 1\n"
MODES = ("bare", "dkdbg unattached", "dkdbg attached", "stock attached")


def measure(bench: Bench, mode: str, count: int) -> dict[str, dict[str, float]]:
    """Milliseconds a child by kind, in one mode."""
    script, stepped = bench.folder / "program.py", bench.folder / "stepped.py"
    script.write_text(PROGRAM)
    stepped.write_text(STEPPED)
    if mode == "bare":
        command = [bench.python, str(script), "-", str(count)]
        done = subprocess.run(command, env=bench.environment(), capture_output=True, text=True, check=True)
        return json.loads(done.stdout)
    go = bench.folder / f"go-{time.monotonic_ns()}"
    words = [str(script), str(go), str(count), *(["traced"] if mode.endswith(" attached") else [])]
    is_stock = mode.startswith("stock")
    start = bench.stock if is_stock else bench.agent
    with (
        start(*(words if is_stock else [bench.python, *words])) as (process, port),
        contextlib.ExitStack() as stack,
    ):
        assert process.stdout is not None
        if mode.endswith(" attached"):
            debugger = stack.enter_context(Debugger(AttachOptions(port=port)))
            debugger.set_breakpoints(str(stepped), [2])
            debugger.attach()
        go.touch()
        return json.loads(process.stdout.readline())


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--runs", type=int, default=5)
    command.add_argument("--children", type=int, default=8)
    command.add_argument("--modes", nargs="*", default=list(MODES), choices=MODES)
    command.add_argument("pythons", nargs="*", default=[sys.executable])
    options = parse(command, runs=1, children=1, modes=["bare", "dkdbg attached"])
    for python in options.pythons:
        with tempfile.TemporaryDirectory(prefix="dkdbg-bench-") as folder:
            bench = Bench(python, Path(folder))
            rounds = [
                {mode: measure(bench, mode, options.children) for mode in options.modes}
                for _ in range(options.runs)
            ]
        print(f"\n{python}: milliseconds a child and the ratio to bare, median of {options.runs}")
        print(
            f"  {'':18}"
            + "".join(f"{kind + ': ' + what:>26}" for kind in rounds[0]["bare"] for what in ("cpu", "wall"))
        )
        for mode in options.modes:
            cells = []
            for kind, found in rounds[0]["bare"].items():
                for what in ("cpu", "wall"):
                    value = statistics.median(each[mode][kind][what] for each in rounds)
                    bare = statistics.median(
                        each[mode][kind][what] / max(each["bare"][kind][what], 1e-9) for each in rounds
                    )
                    cells.append(f"{value:18.1f} ({bare:5.1f})")
                del found
            print(f"  {mode:18}" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
