"""From `breakpoint()` in an actor of Ray to its name before a person: by dkdbg and by Ray's own means, in turns, in one run.

usage: python benchmarks/ray_listed.py [--smallest] [--rounds 5] [--only session,state API,ray list]

A real Ray of two nodes (tests/ray). Each round is a new actor, which notes the time and comes to its `breakpoint()`, and one
who looks: `session`, an editor at `dkdbg attach ray+...`, which was there before; `state API`, the dashboard asked without a
pause for what waits and for the actors, which is the least that anybody needs; `ray list`, Ray's command line in a loop,
as one types it. All of them wait for the actor's name. It includes what Ray's debugger needs to come up in the worker.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cli")]

from shared.options import parse, parser

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.engine.attach_proxies import attach_proxy
from tests.frameworks import python_with
from tests.ray.cluster import Cluster, wait_until

#: tests/frameworks.py installs Ray itself.
NEEDS = ("docker",)
DRIVER = """\
    import time

    import ray

    ray.init(address="auto", namespace="listed")


    @ray.remote
    class Policy:
        def ready(self):
            import debugpy

        def step(self):
            with open("/job/paused-at", "w") as out:
                out.write(repr(time.time()))
            breakpoint()


    policy = Policy.options(resources={"node1": 1}).remote()
    ray.get(policy.ready.remote())
    ray.get(policy.step.remote())
    """
NAME = "Policy"
WAITING = (
    "workers?detail=true&limit=10000&filter_keys=num_paused_threads&filter_predicates=!%3D&filter_values=0"
)
ALIVE = "actors?detail=true&limit=10000&filter_keys=state&filter_predicates=%3D&filter_values=ALIVE"


def asked(cluster: Cluster, query: str) -> list[dict[str, object]]:
    with urllib.request.urlopen(f"http://{cluster.address}:8265/api/v0/{query}", timeout=30) as answer:
        return json.load(answer)["data"]["result"]["result"]


def by_state_api(cluster: Cluster) -> float:
    """The time at which the two questions name it."""

    def named() -> bool:
        waiting = {(each["node_id"], each["pid"]) for each in asked(cluster, WAITING) if each["is_alive"]}
        return bool(waiting) and any(
            (each["node_id"], each["pid"]) in waiting and each["class_name"] == NAME
            for each in asked(cluster, ALIVE)
        )

    wait_until(named, "the state API names it")
    return time.time()


def by_command_line(cluster: Cluster) -> float:
    """The same by `ray list`, typed again and again."""

    def listed(what: str, condition: str) -> str:
        words = ("list", what, "--detail", "--format", "json", "--limit", "10000", "--filter", condition)
        done = subprocess.run(
            ["docker", "exec", cluster.nodes[0], "python3", "-m", "ray.scripts.scripts", *words],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        return done.stdout

    def named() -> bool:
        return "worker_id" in listed("workers", "num_paused_threads!=0") and NAME in listed(
            "actors", "state=ALIVE"
        )

    wait_until(named, "ray list names it")
    return time.time()


def main() -> int:
    command = parser(__doc__)
    command.add_argument("--rounds", type=int, default=5)
    command.add_argument("--only", default="session,state API,ray list")
    options = parse(command, NEEDS, rounds=1, only="session,state API")
    try:
        python_with("ray")
    except (pytest.fail.Exception, pytest.skip.Exception) as error:
        command.error(f"Ray cannot be installed: {error}")
    took: dict[str, list[float]] = {way: [] for way in options.only.split(",")}
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder) / "job", "dkdbg-test/python:3.11")
        cluster.folder.mkdir()
        try:
            cluster.start()
            cluster.write("listed.py", DRIVER)
            for number in range(options.rounds):
                for way, seconds in took.items():
                    seconds.append(once(cluster, way, Path(folder) / f"{way}-{number}"))
                    print(f"{way:10} {seconds[-1]:.2f} s", flush=True)
        finally:
            cluster.end_drivers()
            cluster.stop()
    print("\nfrom breakpoint() to the actor's name, seconds: median (least to most)")
    for way, seconds in took.items():
        print(f"{way:10} {statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})")
    return 0


def once(cluster: Cluster, way: str, folder: Path) -> float:
    """Seconds from the actor's `breakpoint()` to its name before who looks."""
    wait_until(lambda: not asked(cluster, WAITING), "nothing waits any more")
    (cluster.folder / "paused-at").unlink(missing_ok=True)
    folder.mkdir()
    with contextlib.ExitStack() as opened:
        if way == "session":
            proxy = opened.enter_context(attach_proxy(folder, f"ray+docker://{cluster.nodes[0]}"))
            debugger = opened.enter_context(Debugger(AttachOptions(port=proxy.port)))
            debugger.attach(timeout=300)
            cluster.drive("listed.py")
            debugger.wait_stopped(300)
            seen = next(e["time"] for e in proxy.events if e["event"] == "process" and NAME in e["text"])
        else:
            cluster.drive("listed.py")
            wait_until((cluster.folder / "paused-at").exists, "it is at its breakpoint")
            seen = by_state_api(cluster) if way == "state API" else by_command_line(cluster)
        paused = float(wait_until((cluster.folder / "paused-at").read_text, "when that was"))
        cluster.end_drivers()
    return float(seen) - paused


if __name__ == "__main__":
    sys.exit(main())
