"""Random trees of processes under the agent: the same output and exit code as without it, no hang, and every stop.

usage: python -m tests.agent.process_trees [--count 500] [--seed 1] [--packages FOLDER]

Each tree runs once plainly and once under the agent, with an editor that attaches at the start, late, or not at all, with
or without a breakpoint in the line that some nodes run, and with VS Code's filter for uncaught exceptions.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from dkdbg.delivery import single_file
from tests.agent.dap_probe import Editor

NODE = Path(__file__).with_name("tree_node.py")
MARKED = "def work(n):\n    found = 0\n    for each in range(n):\n        found += each  # marked\n    return found\n"
MARKED_LINE = 4
STARTS = (
    "subprocess", "captured", "shell", "exec", "in a thread", "double fork", "fork", "multiprocessing fork",
    "multiprocessing spawn", "multiprocessing forkserver", "pool",
)  # fmt: skip
#: What runs nodes that have no children, and only return or raise; the last two need packages.
LEAVES = ("pool", "joblib", "xdist")
TESTS = """
import json, os, pytest, tree_node

@pytest.mark.parametrize("runs", [True, False])
def test_node(runs):
    assert not runs or tree_node.run(json.loads(os.environ["TREE_SPEC"])) == 0
"""
#: Seconds for one tree, on a machine with other work.
LIMIT = 180


def tree(seed: int, *, packages: bool = False) -> dict[str, Any]:
    draw = random.Random(seed)
    count = 0

    def node(depth: int) -> dict[str, Any]:
        nonlocal count
        count += 1
        name = f"n{count}"
        start = draw.choice([*STARTS, *LEAVES[1:]] if packages else STARTS)
        ends = ["return", "return", "_exit"] + (["raise"] if depth else [])
        end = draw.choice(ends) if start not in LEAVES else draw.choice(["return", "raise"])
        children = draw.choice([0, 1, 2, 3] if depth < 2 else [0, 0, 1]) if depth < 3 else 0
        return {
            "name": name, "start": start, "before": draw.choice([0, 0, 0.05, 2.5]), "after": draw.choice([0, 0, 0.3]),
            "hits": draw.choice([0, 1, 2]), "end": end, "code": draw.choice([0, 0, 3]),
            "gevent": packages and depth > 0 and start in ("subprocess", "captured", "shell") and draw.random() < 0.3,
            "children": [] if start in LEAVES else [node(depth + 1) for _ in range(children)],
        }  # fmt: skip

    root = node(0)
    root["before"] = 0.5
    return root


def hits(spec: dict[str, Any]) -> int:
    """Return how often the tree runs the marked line."""
    return int(spec["hits"]) + sum(map(hits, spec["children"]))


def compare(seed: int, agent: Path, *, packages: str = "") -> str:
    """Run one tree plainly and under the agent; return what differs, empty when nothing does."""
    spec = tree(seed, packages=bool(packages))
    mode = random.Random(-seed).choice(["early", "early", "late", "none"])
    breakpoints = random.Random(seed + 0.5).random() < 0.7
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tree_marked.py").write_text(MARKED)
        (folder / "tree_tests.py").write_text(TESTS)
        node = shutil.copy(NODE, folder)
        words = [sys.executable, node, json.dumps(spec)]
        env = {key: value for key, value in os.environ.items() if not key.startswith(("DKDBG_", "PYTHON"))}
        env |= {"PYTHONPATH": packages} if packages else {}
        plain = subprocess.run(
            words,
            env=env,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=LIMIT,
            check=False,
        )
        wait = LIMIT if mode == "early" else 0
        env |= {
            "DKDBG_RUNTIME_DIR": str(folder / "run"),
            "DKDBG_PORT": "0",
            "DKDBG_WAIT": str(wait),
            "DKDBG_JOIN_DEADLINE": "60",
        }
        with (
            (folder / "err").open("wb") as err,
            subprocess.Popen(
                [str(agent), "launch", "--", *words], env=env, cwd=folder, stdout=subprocess.PIPE, stderr=err
            ) as running,
        ):
            said = f"seed {seed}, editor {mode}, breakpoints {breakpoints}"
            stops = 0
            try:
                editor = None
                port = _port(folder / "run", running) if mode != "none" else 0
                if port:
                    lines = {str(folder / "tree_marked.py"): [MARKED_LINE]} if breakpoints else {}
                    editor = Editor(port, lines, filters=("uncaught",))
                    editor.attach()
                out = running.communicate(timeout=LIMIT)[0]
                if editor is not None:
                    stops = sum(stop["line"] == MARKED_LINE for stop in editor.stops)
                    editor.__exit__()
            except subprocess.TimeoutExpired:
                left = subprocess.run(["ps", "-ef"], capture_output=True, text=True, check=False).stdout
                lines_left = "\n".join(line[:200] for line in left.splitlines() if str(folder) in line)
                subprocess.run(["pkill", "-9", "-f", str(folder)], check=False)
                return f"{said}: hangs\n{lines_left}\n{(folder / 'err').read_text()[-2000:]}"
        if (out, running.returncode) != (plain.stdout, plain.returncode):
            return (
                f"{said}: {running.returncode} instead of {plain.returncode}\n{out.decode()}\ninstead of\n"
                f"{plain.stdout.decode()}\n{(folder / 'err').read_text()[-2000:]}"
            )
        expected = hits(spec) if mode == "early" and breakpoints else None
        if expected is not None and stops != expected:
            return f"{said}: {stops} stops instead of {expected}\n{json.dumps(spec)}\n{(folder / 'err').read_text()[-2000:]}"
        return ""


def _port(runtime: Path, running: subprocess.Popen[bytes]) -> int:
    """Return where an editor attaches; 0 when the program has ended before anybody could."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end and running.poll() is None:
        for path in runtime.glob("*/session.json"):
            record = json.loads(path.read_text())
            if record["state"] in ("waiting", "running"):
                return int(record["port"])
        time.sleep(0.01)
    assert running.poll() is not None, "no session"
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--packages", default="", help="a folder with gevent, joblib and pytest-xdist (pip install --target)"
    )
    asked = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        agent = Path(folder, single_file.NAME)
        agent.write_bytes(single_file.build(sys.version_info[:2]))
        agent.chmod(0o755)
        for seed in range(asked.seed, asked.seed + asked.count):
            differs = compare(seed, agent, packages=asked.packages)
            failed += bool(differs)
            print(f"{seed}: {differs or 'same'}", flush=True)
    print(f"{asked.count - failed} of {asked.count} the same")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
