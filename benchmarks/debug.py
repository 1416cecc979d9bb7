"""What debugging costs: dkdbg's agent against a bare run and against stock debugpy, both sides in one run.

usage: python benchmarks/debug.py [--smallest] [--runs 5] [--latency 20] [--scale 1] [--modes MODE ...] [PYTHON ...]     (default: this interpreter)

Overhead: CPU seconds of three workloads (a loop, calls, a NumPy step where NumPy is there), modes in turn, the ratio to
the bare run beside it, median of the runs. Latency: connect to first stop, `next`, `evaluate`, medians. Only ratios mean
anything on a shared machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from shared.options import parse, parser

from dkdbg.agent.inprocess import bundle
from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from dkdbg.delivery import single_file
from dkdbg.errors import DkdbgError

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
WORKLOAD = HERE / "shared" / "workload.py"
LOOP = "import time\n\n\ndef step(n):\n    value = n + 1\n    return value\n\n\nn = 0\nwhile True:\n    step(n)\n    n += 1\n    time.sleep(0.002)\n"


class Bench:
    """One interpreter. Stock debugpy is its own, which has pydevd compiled; without one, that of dkdbg is put on its path."""

    def __init__(self, python: str, folder: Path) -> None:
        self.python = python
        self.folder = folder
        found = subprocess.run(
            [
                python,
                "-c",
                "import importlib.util as u, sys; print(*sys.version_info[:2], int(bool(u.find_spec('debugpy'))))",
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        *parts, self.has_debugpy = (int(part) for part in found.stdout.split())
        version = tuple(parts)
        try:
            self.debugpy = bundle.ensure_debugpy([str(folder)], str(folder), version)
        except bundle.NoDebugpy as error:
            raise SystemExit(str(error)) from None
        self.agent_file = folder / single_file.NAME
        self.agent_file.write_bytes(single_file.build(version))

    def environment(self, **more: str) -> dict[str, str]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("DKDBG_", "PYTHON"))}
        return {**clean, "PYDEVD_DISABLE_FILE_VALIDATION": "1", **more}

    @contextlib.contextmanager
    def stock(self, *argv: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
        """`python -m debugpy --listen`, and its port when it listens (endpoints file: nothing is connected to)."""
        endpoints = self.folder / f"endpoints-{time.monotonic_ns()}"
        path = {} if self.has_debugpy else {"PYTHONPATH": self.debugpy}
        env = self.environment(**path, DEBUGPY_ADAPTER_ENDPOINTS=str(endpoints))
        command = [self.python, "-m", "debugpy", "--listen", "127.0.0.1:0", *argv]
        with _process(command, env) as process:
            yield process, _wait(lambda: json.loads(endpoints.read_text())["client"]["port"], process)

    @contextlib.contextmanager
    def agent(self, *argv: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
        """`agent.pyz launch` without waiting, and the listener's port. As in a container, one Python executes both."""
        runtime = self.folder / f"run-{time.monotonic_ns()}"
        launch = [
            self.python,
            str(self.agent_file),
            "launch",
            "--port",
            "0",
            "--wait",
            "0",
            "--runtime",
            str(runtime),
        ]
        with _process([*launch, "--", *argv], self.environment()) as process:

            def port() -> int:
                record = json.loads(next(runtime.glob("*/session.json")).read_text())
                assert record["state"] == "running"
                return int(record["port"])

            yield process, _wait(port, process)


@contextlib.contextmanager
def _process(command: list[str], env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()


def _wait(read, process: subprocess.Popen[str]) -> int:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError, KeyError, StopIteration, AssertionError):
            return read()
        if process.poll() is not None:
            raise SystemExit(f"{process.args} ended with {process.returncode}")
        time.sleep(0.01)
    raise SystemExit(f"{process.args} did not listen")


def overhead(bench: Bench, mode: str, scale: float) -> dict[str, float]:
    """CPU seconds of the workloads in one mode."""
    go = bench.folder / f"go-{time.monotonic_ns()}"
    if mode == "bare":
        env = bench.environment()
        done = subprocess.run(
            [bench.python, str(WORKLOAD), "-", str(scale)],
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)
    start = bench.stock if mode.startswith("stock") else bench.agent
    words = [str(WORKLOAD), str(go), str(scale), *(["traced"] if mode.endswith(" attached") else [])]
    argv = words if mode.startswith("stock") else [bench.python, *words]
    with start(*argv) as (process, port):
        assert process.stdout is not None
        with contextlib.ExitStack() as stack:
            if mode.endswith(" attached"):
                debugger = stack.enter_context(Debugger(AttachOptions(port=port)))
                debugger.attach()
                if mode.startswith("dkdbg"):
                    debugger.wait_session(
                        lambda session: session.pid not in (None, process.pid), "the program's session"
                    )
            go.touch()
            return json.loads(process.stdout.readline())


def latency(bench: Bench, side: str, count: int) -> dict[str, list[float]]:
    """Milliseconds: connect to first stop (the run's first editor, then later ones), `next` and `evaluate`."""
    script = bench.folder / "loop.py"
    script.write_text(LOOP)
    start = bench.stock if side == "stock" else bench.agent
    argv = (str(script),) if side == "stock" else (bench.python, str(script))
    found: dict[str, list[float]] = {FIRST: [], LATER: [], "next": [], "evaluate": []}
    with start(*argv) as (_, port):
        for editor in (FIRST, LATER, LATER):
            time.sleep(
                1
            )  # the program's start is over; stock debugpy refuses an editor just after another has left
            began = time.perf_counter()
            with Debugger(AttachOptions(port=port)) as debugger:
                debugger.set_breakpoints(str(script), [5])
                debugger.attach()
                stop = debugger.wait_stopped(30)
                frame = debugger.stack(stop)[0]
                found[editor].append((time.perf_counter() - began) * 1000)
                for _ in range(count):
                    began = time.perf_counter()
                    debugger.evaluate("n", frame)
                    found["evaluate"].append((time.perf_counter() - began) * 1000)
                debugger.set_breakpoints(str(script), [])
                for _ in range(count):
                    began = time.perf_counter()
                    debugger.next(stop)
                    stop = debugger.wait_stopped(30)
                    found["next"].append((time.perf_counter() - began) * 1000)
    return found


def runs(bench: Bench, side: str, count: int) -> dict[str, list[float]]:
    """`latency` of a program that took all three editors: stock debugpy's adapter dies of about every tenth that leaves."""
    for _ in range(5):
        with contextlib.suppress(*[DkdbgError] * (side == "stock")):
            return latency(bench, side, count)
    raise SystemExit("stock debugpy did not take three editors, five times")


FIRST, LATER = "first editor to stop", "later editor to stop"
MODES = ("bare", "dkdbg unattached", "stock listening", "dkdbg attached", "stock attached")


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--runs", type=int, default=5)
    command.add_argument("--latency", type=int, default=20)
    command.add_argument("--scale", type=float, default=1, help="share of the workloads' iterations to run")
    command.add_argument("--modes", nargs="*", default=list(MODES), choices=MODES, help="bare among them")
    command.add_argument("pythons", nargs="*", default=[sys.executable])
    options = parse(command, runs=1, latency=2, scale=0.01, modes=["bare", "dkdbg attached"])
    for python in options.pythons:
        with tempfile.TemporaryDirectory(prefix="dkdbg-bench-") as folder:
            bench = Bench(python, Path(folder))
            version = subprocess.run(
                [python, "-V"], capture_output=True, text=True, check=True
            ).stdout.strip()
            print(
                f"\n{version}, stock debugpy {'compiled' if bench.has_debugpy else 'without binaries'}: CPU seconds as a ratio to the bare run beside it, median of {options.runs}"
            )
            rounds = [
                {mode: overhead(bench, mode, options.scale) for mode in options.modes}
                for _ in range(options.runs)
            ]
            kinds = list(rounds[0]["bare"])
            print(f"  {'':18}" + "".join(f"{kind:>14}" for kind in kinds))
            for mode in options.modes[1:]:
                ratios = [
                    statistics.median(each[mode][kind] / each["bare"][kind] for each in rounds)
                    for kind in kinds
                ]
                print(f"  {mode:18}" + "".join(f"{ratio:14.2f}" for ratio in ratios))
            print(f"  milliseconds, median of {options.runs} programs ({options.latency * 3} requests each)")
            sides = {
                side: [runs(bench, side, options.latency) for _ in range(options.runs)]
                for side in ("stock", "dkdbg")
            }
            for what in (FIRST, LATER, "next", "evaluate"):
                stock, ours = (
                    statistics.median(ms for run in sides[side] for ms in run[what])
                    for side in ("stock", "dkdbg")
                )
                print(
                    f"  {what:24} stock {stock:8.1f}   dkdbg {ours:8.1f}   stock/dkdbg {stock / ours:6.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
