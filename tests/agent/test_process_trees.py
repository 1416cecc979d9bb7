"""Random trees of processes under the agent: the same output and exit code as without it, no hang, and every stop.

Each tree runs once plainly and once under the agent, with an editor that attaches at the start, late, or not at all, with
or without a breakpoint in the line that some nodes run, and with VS Code's filter for uncaught exceptions. Three trees;
N with DKDBG_TEST_TREES=N.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
#: A folder with gevent, joblib and pytest-xdist (pip install --target); without it trees have none of them.
PACKAGES = os.environ.get("DKDBG_TEST_TREE_PACKAGES", "")
#: Those of the three trees that have each kind of start, of end and of editor.
SEEDS = range(1, 1 + int(os.environ["DKDBG_TEST_TREES"])) if "DKDBG_TEST_TREES" in os.environ else (1, 5, 6)


def tree(seed: int) -> dict[str, Any]:
    draw = random.Random(seed)
    count = 0

    def node(depth: int) -> dict[str, Any]:
        nonlocal count
        count += 1
        name = f"n{count}"
        start = draw.choice([*STARTS, *LEAVES[1:]] if PACKAGES else STARTS)
        ends = ["return", "return", "_exit"] + (["raise"] if depth else [])
        end = draw.choice(ends) if start not in LEAVES else draw.choice(["return", "raise"])
        children = draw.choice([0, 1, 2, 3] if depth < 2 else [0, 0, 1]) if depth < 3 else 0
        return {
            "name": name, "start": start, "before": draw.choice([0, 0, 0.05, 2.5]), "after": draw.choice([0, 0, 0.3]),
            "hits": draw.choice([0, 1, 2]), "end": end, "code": draw.choice([0, 0, 3]),
            "gevent": bool(PACKAGES) and depth > 0 and start in ("subprocess", "captured", "shell") and draw.random() < 0.3,
            "children": [] if start in LEAVES else [node(depth + 1) for _ in range(children)],
        }  # fmt: skip

    root = node(0)
    root["before"] = 0.5
    return root


def hits(spec: dict[str, Any]) -> int:
    """Return how often the tree runs the marked line."""
    return int(spec["hits"]) + sum(map(hits, spec["children"]))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_tree_of_processes_runs_as_without_the_agent_and_stops_everywhere(launch, tmp_path, seed):
    spec = tree(seed)
    comes = random.Random(-seed).choice(["early", "early", "late", "none"])
    breakpoints = random.Random(seed + 0.5).random() < 0.7
    (tmp_path / "tree_marked.py").write_text(MARKED)
    (tmp_path / "tree_tests.py").write_text(TESTS)
    words = [sys.executable, shutil.copy(NODE, tmp_path), json.dumps(spec)]
    packages = {"PYTHONPATH": PACKAGES} if PACKAGES else {}
    env = {key: value for key, value in os.environ.items() if not key.startswith(("DKDBG_", "PYTHON"))}
    try:
        plain = subprocess.run(
            words, env=env | packages, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=300, check=False
        )  # fmt: skip
    except subprocess.TimeoutExpired:  # as joblib's pool does now and then below gevent
        pytest.skip("the tree hangs without the agent too")
    running = launch(*words, wait="300" if comes == "early" else "0", env=packages)
    record = running.wait_state("waiting", "running", "exited")
    lines = {str(tmp_path / "tree_marked.py"): [MARKED_LINE]} if breakpoints else {}
    stops = []
    with contextlib.ExitStack() as stack:
        if comes != "none" and record["state"] != "exited":
            stops = stack.enter_context(Editor(record["port"], lines, filters=("uncaught",))).stops
        code, out, err = running.finish()
        marked = [stop for stop in stops if stop["line"] == MARKED_LINE]
    assert (code, out) == (plain.returncode, plain.stdout.decode()), err
    if comes == "early" and breakpoints:
        assert len(marked) == hits(spec), err
