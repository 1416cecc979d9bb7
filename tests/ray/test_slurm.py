"""Ray inside a job of a real Slurm, behind a login node: from a laptop that reaches nothing else."""

import json
import subprocess

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.engine.attach_proxies import attach_proxy
from tests.engine.projects import dkdbg, start
from tests.far.hosts import build_image
from tests.ray.cluster import mount, wait_until
from tests.slurm.cluster import IMAGE, RECIPE, Cluster

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("ray")]

LIMIT = 300.0
#: As ray.sub does: the head on the first node, with a dashboard on the node's address, the others join.
SCRIPT = """\
export PYTHONPATH=/opt/ray PYTHONUNBUFFERED=1
ray="python3 -m ray.scripts.scripts"
start="start --num-cpus=4 --object-store-memory=80000000 --disable-usage-stats"
address=$(hostname -i)
until $ray $start --head --node-ip-address=$address --dashboard-host=$address --resources={\\"node-12\\":9}; do $ray stop --force; done
srun --overlap -w node-22 -N1 -n1 sh -c \\
  "until $ray $start --address=$address:6379 --resources={\\\\\\"node-22\\\\\\":9}; do $ray stop --force; done; sleep 100000" &
until python3 /home/me/two.py; do sleep 1; done
python3 /home/me/job.py > /home/me/said
sleep 100000
"""
TWO = """\
import ray

ray.init(address="auto")
assert len([node for node in ray.nodes() if node["Alive"]]) == 2
"""
JOB = """\
import ray

ray.init(address="auto")


@ray.remote
def crunch(n):
    total = n * 2
    breakpoint()
    return total


print(ray.get([crunch.options(resources={node: 1}).remote(n) for n, node in enumerate(("node-12", "node-22"), 1)]))
"""
#: The same without a word for a debugger.
RUN = """\
import ray

ray.init(address="auto")


@ray.remote
def crunch(n):
    total = n * 2
    return total


totals = ray.get([crunch.options(resources={node: 1}).remote(n) for n, node in enumerate(("node-12", "node-22"), 1)])
print("totals", totals)
"""


@pytest.fixture
def slurm(base_image, tmp_path_factory, monkeypatch):
    build_image(base_image, IMAGE, RECIPE)
    made = Cluster(tmp_path_factory.mktemp("slurm"), mounts=(mount(),))
    try:
        made.start()
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        yield made
    finally:
        made.stop()


def test_workers_on_both_nodes_of_a_job_stand_behind_one_port_of_the_laptop(slurm, tmp_path):
    """Those that wait at `breakpoint()`, and then a driver that the laptop starts there and its workers, at the editor's."""
    for name, text in (("two.py", TWO), ("job.py", JOB), ("run.py", RUN), ("ray.sh", SCRIPT)):
        slurm.put(f"/home/me/{name}", text)
    job = slurm.job(nodes=2, line="bash /home/me/ray.sh > /home/me/log 2>&1")
    target = f"ray+slurm://login/{job}"

    def waiting():
        done = dkdbg(tmp_path, "ps", target, "--json")
        found = json.loads(done.stdout)["sessions"] if done.returncode == 0 else ()
        return sum(each["state"] == "paused" for each in found) == 2

    wait_until(waiting, "two workers of the job are listed", 600)
    behind_ssh = "ray://login,node-12:8265"  # the same cluster, by who knows only its head
    with attach_proxy(tmp_path, behind_ssh) as proxy, Debugger(AttachOptions(port=proxy.port)) as debugger:
        debugger.attach(timeout=LIMIT)
        totals = set()
        for _ in range(2):
            stop = debugger.wait_stopped(LIMIT)
            frame = debugger.stack(stop, timeout=LIMIT)[0]
            assert (frame.path, frame.line) == ("/home/me/job.py", 9)
            totals.add(debugger.local_values(frame, timeout=LIMIT)["total"])
        assert totals == {"2", "4"}
    wait_until(
        lambda: "[2, 4]" in slurm.sh("login", "cat /home/me/said", check=False), "the job's driver goes on"
    )
    _run_in_the_job(target, tmp_path)


def _run_in_the_job(target, folder):
    command = ["sh", "-c", "PYTHONPATH=/opt/ray:$PYTHONPATH exec python3 run.py"]
    with (folder / "said").open("w") as said:
        words = ("run", "--on", target, "--wait", "--workers", "crunch", "--", *command)
        running = start(folder, *words, stdout=said, stderr=subprocess.STDOUT)
    try:
        with attach_proxy(folder, target) as proxy, Debugger(AttachOptions(port=proxy.port)) as debugger:
            debugger.set_breakpoints("/home/me/run.py", [9, 13], timeout=LIMIT)
            debugger.attach(timeout=LIMIT)
            seen = []
            for _ in range(3):
                stop = debugger.wait_stopped(LIMIT)
                frame = debugger.stack(stop, timeout=LIMIT)[0]
                assert frame.path == "/home/me/run.py"
                values = debugger.local_values(frame, timeout=LIMIT)
                seen.append((frame.line, values["total" if frame.line == 9 else "totals"]))
                debugger.continue_(stop, timeout=LIMIT)
            assert sorted(seen) == [(9, "2"), (9, "4"), (13, "[2, 4]")], (folder / "said").read_text()
            assert running.wait(LIMIT) == 0, (folder / "said").read_text()
        assert "totals [2, 4]" in (folder / "said").read_text()
    finally:
        if running.poll() is None:
            running.terminate()
            running.wait(LIMIT)
