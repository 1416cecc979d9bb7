"""Attach to N ranks of one machine at once: seconds, CPU seconds and memory a rank; and the hang map of them beside py-spy.

usage: python benchmarks/attach_all.py [--smallest] [--ranks 2,8,32,64,128] [--rounds 3] [--processes 64] [--py-spy PATH]

`late`: to ranks that have run for a few seconds; `start`: an editor is there first, and they wait for their breakpoints. Both from the
attach, or the start of the first rank, until a session of each rank has its breakpoints. CPU is that of all ranks, the
agent and its adapter, without the client. `floor` is what one bare Python needs to import debugpy's server and pydevd,
times N: no attach with debugpy is below it. `where` is `dkdbg where` as a command, beside it `py-spy dump` on each pid,
one after another and side by side on all cores, their CPU
with that of the ranks and the agent. Only ratios of one run mean anything: a busy machine is busy for all.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cli")]

from shared.options import parse, parser, rival

from dkdbg.agent.inprocess import bundle
from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.ports import free_port

RANK = """\
import os, time
def step():
    time.sleep(0.05)
def never():
    return 1
open("up%s" % os.environ["RANK"], "w").close()
while True:
    step()
"""
NEVER = 1 + RANK.splitlines().index("    return 1")
START = """\
import os, subprocess, sys, time
count = int(sys.argv[1])
while not os.path.exists("go"):
    time.sleep(0.01)
env = dict(os.environ, WORLD_SIZE=str(count))
ranks = [subprocess.Popen([sys.executable, "rank.py"], env=dict(env, RANK=str(n), LOCAL_RANK=str(n))) for n in range(count)]
for rank in ranks:
    rank.wait()
"""
TICK = os.sysconf("SC_CLK_TCK")


def wait(done, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise SystemExit("it does not come up")
        time.sleep(0.01)


def family(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for each in found:
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            found += [int(word) for word in task.read_text().split()]
    return found


def cpu(pids: list[int]) -> float:
    """Seconds that these and their children which have ended have computed."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += sum(int(field) for field in fields[11:15])
    return total / TICK


def memory(pids: list[int]) -> float:
    """MB of these, what they share counted once (Pss)."""
    found = 0
    for pid in pids:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        found += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return found / 1024


class Job:
    """N ranks under the agent."""

    def __init__(self, count: int, folder: Path) -> None:
        self.count, self.folder, self.port = count, folder, free_port()
        (folder / "rank.py").write_text(RANK)
        (folder / "start.py").write_text(START)
        agent = [
            sys.executable,
            "-m",
            "dkdbg.agent",
            "launch",
            "--port",
            str(self.port),
            "--name",
            "bench",
            "--",
        ]
        self.env = {
            **os.environ,
            "PYTHONPATH": str(HERE.parent / "cli"),
            "DKDBG_RUNTIME_DIR": str(folder / "run"),
        }
        self.running = subprocess.Popen(
            [*agent, sys.executable, "start.py", str(count)], cwd=folder, env=self.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def go(self) -> None:
        (self.folder / "go").touch()

    def are_up(self) -> bool:
        return len(list(self.folder.glob("up*"))) == self.count

    def pids(self) -> list[int]:
        return family(self.running.pid)

    def warms_up(self) -> bool:
        """Whether the agent still writes debugpy's byte code, which it does once a machine, in a second or two."""
        for pid in self.pids():
            with suppress(OSError):
                if b"import debugpy.server.api" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return True
        return False

    def ranks(self) -> list[int]:
        return [pid for pid in self.pids() if b"rank.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def attach_to_all(self) -> Debugger:
        debugger = Debugger(AttachOptions(port=self.port))
        debugger.set_breakpoints(str(self.folder / "rank.py"), [NEVER])
        debugger.attach()
        return debugger

    def wait_for_all(self, debugger: Debugger) -> None:
        def there() -> int:
            return sum(one.name.startswith("rank ") and one.has_seen("process") for one in debugger.sessions)

        wait(lambda: there() == self.count)

    def end(self) -> None:
        self.running.terminate()
        self.running.wait()


def late(count: int) -> tuple[float, float, float]:
    """Seconds, CPU seconds, MB a rank."""
    with tempfile.TemporaryDirectory(prefix="dkdbg-bench-") as name:
        job = Job(count, Path(name))
        try:
            job.go()
            wait(job.are_up)
            wait(lambda: len(list(Path(name).glob("run/*/p/*.json"))) > count)
            wait(lambda: not job.warms_up())
            time.sleep(1)
            ranks, before = job.ranks(), cpu(job.pids())
            used = memory(ranks)
            began = time.monotonic()
            debugger = job.attach_to_all()
            job.wait_for_all(debugger)
            took = time.monotonic() - began
            spent = cpu(job.pids()) - before
            more = memory(ranks) - used
            debugger.disconnect()
            return took, spent, more / count
        finally:
            job.end()


def from_start(count: int) -> float:
    with tempfile.TemporaryDirectory(prefix="dkdbg-bench-") as name:
        job = Job(count, Path(name))
        try:
            wait(lambda: _answers(job.port))
            debugger = job.attach_to_all()
            began = time.monotonic()
            job.go()
            job.wait_for_all(debugger)
            wait(job.are_up)
            took = time.monotonic() - began
            debugger.disconnect()
            return took
        finally:
            job.end()


def bare_start(count: int) -> float:
    """The same N ranks from the start, under the agent and without an editor."""
    with tempfile.TemporaryDirectory(prefix="dkdbg-bench-") as name:
        job = Job(count, Path(name))
        try:
            wait(lambda: _answers(job.port))
            began = time.monotonic()
            job.go()
            wait(job.are_up)
            return time.monotonic() - began
        finally:
            job.end()


def _answers(port: int) -> bool:
    """Whether the agent says on its own status page that it is there."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def floor(folder: str, tries: int) -> float:
    """CPU seconds of importing debugpy's server and pydevd, with .pyc files, less those of a bare start."""
    line = "import sys; sys.path.insert(0, %r); from debugpy.server import api; import pydevd"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found = []
    for code in (line % folder, "pass"):
        best = []
        for _ in range(tries):
            before = os.times()
            subprocess.run([sys.executable, "-Xfrozen_modules=off", "-c", code], check=True, env=env)
            after = os.times()
            best.append(
                after.children_user + after.children_system - before.children_user - before.children_system
            )
        found.append(min(best))
    return found[0] - found[1]


def where(count: int, rounds: int, py_spy: str) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="dkdbg-bench-") as name:
        job = Job(count, Path(name))
        try:
            job.go()
            wait(job.are_up)
            wait(lambda: len(list(Path(name).glob("run/*/p/*.json"))) > count)
            time.sleep(1)
            ranks = job.ranks()
            asked = [sys.executable, "-m", "dkdbg", "where", "local:bench", "--json"]
            dump = [py_spy, "dump", "--pid"]

            def each(pid: int) -> None:
                subprocess.run([*dump, str(pid)], check=True, stdout=subprocess.DEVNULL)

            def together() -> None:
                with ThreadPoolExecutor(os.cpu_count()) as pool:
                    list(pool.map(each, ranks))

            lines = []

            def ask() -> None:
                said = subprocess.run(
                    asked, check=True, env=job.env, stdout=subprocess.PIPE, text=True
                ).stdout
                if said.count('"pid"') < count:
                    raise SystemExit(f"dkdbg where names fewer than {count} processes: {said[:2000]}")

            ways = {"dkdbg where": ask}
            if py_spy:
                ways["py-spy, one after another"] = lambda: [each(pid) for pid in ranks]
                ways["py-spy, on all cores"] = together
            for what, do in ways.items():
                took = []
                for _ in range(rounds):
                    before, there, began = os.times(), cpu(job.pids()), time.monotonic()
                    do()
                    seconds, after = time.monotonic() - began, os.times()
                    spent = (
                        after.children_user
                        + after.children_system
                        - before.children_user
                        - before.children_system
                    )
                    took.append((seconds, spent + cpu(job.pids()) - there))
                least = min(took)
                lines.append(f"  {what:26} {count:4} {least[0]:7.2f} s  {least[1]:7.2f} CPU s")
            return lines
        finally:
            job.end()


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--ranks", default="2,8,32,64,128")
    command.add_argument("--rounds", type=int, default=3)
    command.add_argument("--processes", type=int, default=64, help="ranks of the job that `where` shows")
    command.add_argument("--py-spy", help="path of py-spy, for `where`; by default the one on PATH")
    command.add_argument("--only", default="late,start,where")
    options = parse(command, ranks="2", rounds=1, processes=2)
    folder = bundle.ensure_debugpy([str(HERE.parent / "cli"), *sys.path], tempfile.mkdtemp())
    one = floor(folder, 1 if options.smallest else 5)
    print(
        f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; floor: {one:.3f} CPU s a rank"
    )
    for count in map(int, options.ranks.split(",")):
        if "late" in options.only:
            runs = [late(count) for _ in range(options.rounds)]
            took, spent, more = (statistics.median(column) for column in zip(*runs, strict=True))
            print(
                f"  late  {count:4} {took:7.2f} s  {spent:7.2f} CPU s = {spent / (one * count):4.1f} floors"
                f"  {1000 * took / count:6.0f} ms a rank  {more:5.1f} MB a rank", flush=True,
            )  # fmt: skip
        if "start" in options.only:
            took = statistics.median(from_start(count) for _ in range(options.rounds))
            bare = statistics.median(bare_start(count) for _ in range(options.rounds))
            print(f"  start {count:4} {took:7.2f} s  without an editor {bare:7.2f} s", flush=True)
    if "where" in options.only:
        py_spy = rival("py-spy") if options.py_spy is None else options.py_spy
        print(*where(options.processes, options.rounds, py_spy), sep="\n")


if __name__ == "__main__":
    main()
