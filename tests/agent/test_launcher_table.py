"""Every launcher's processes stop by one port, from the start and attached late, and each has a name that says what it is.

Real launchers, one run each: an editor is there from the start, leaves, and another one comes.
"""

import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.agent.dap_probe import Editor
from tests.frameworks import python_with
from tests.ports import free_port

STEP = """
import os, time

def step():
    time.sleep(0.02)
    return os.path.exists("stop")

def rounds():
    while not step():
        pass
"""
LINE = 1 + STEP.splitlines().index('    return os.path.exists("stop")')
#: A rank that meets the others in each step, as training does.
TRAIN = """
import os, torch, torch.distributed as dist
from steps import step

def main(*_):
    stop = torch.zeros(1)
    while not stop:
        stop[0] = step()
        dist.all_reduce(stop)
    dist.destroy_process_group()
"""
SPAWN = (
    TRAIN
    + """
def rank(number, port):
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=number, world_size=2)
    main()

if __name__ == "__main__":
    import sys
    torch.multiprocessing.spawn(rank, (int(sys.argv[1]),), nprocs=2)
"""
)
LIGHTNING = """
import sys, torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader
from steps import step

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, _):
        stop = torch.tensor(float(step()))
        self.trainer.should_stop = bool(self.trainer.strategy.reduce(stop, reduce_op="sum") > 0)
        return self.layer(batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

if __name__ == "__main__":
    trainer = Trainer(
        accelerator="cpu", devices=2, strategy=sys.argv[1], max_epochs=-1, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )
    trainer.fit(Model(), DataLoader(torch.ones(64, 1), batch_size=1))
"""
ACCELERATE = """
import torch
from accelerate import Accelerator
from steps import step

accelerator = Accelerator(cpu=True)
stop = torch.zeros(1)
while not stop:
    stop = accelerator.reduce(torch.tensor([float(step())]), "sum")
"""
PROCESSES = """
import multiprocessing
from steps import rounds

if __name__ == "__main__":
    contexts = [multiprocessing.get_context(method) for method in ("fork", "spawn", "forkserver")]
    workers = [context.Process(target=rounds) for context in contexts for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
"""
LOKY = """
import joblib
from steps import rounds

if __name__ == "__main__":
    joblib.Parallel(n_jobs=2)(joblib.delayed(rounds)() for _ in range(2))
"""
XDIST = """
import pytest
from steps import rounds

@pytest.mark.parametrize("n", [1, 2])
def test_it(n):
    rounds()
"""
APP = """
import threading
from steps import rounds

threading.Thread(target=rounds, daemon=True).start()

def wsgi(environ, start_response):
    start_response("200 OK", [])
    return [b""]

async def app(scope, receive, send):
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return
"""


class Case(NamedTuple):
    """One launcher.

    Attributes:
        script: what it starts. command: `{bin}` is the folder of its programs, `{port}` a free port.
        names: of the processes that stop. late: of those that stop when an editor comes late, where they differ.
    """

    framework: str
    script: str
    command: tuple[str, ...]
    names: tuple[str, ...]
    late: tuple[str, ...] = ()


RANKS = ("rank 0", "rank 1")
TABLE = {
    "torchrun": Case(
        "launchers",
        TRAIN + "\ndist.init_process_group('gloo')\nmain()\n",
        ("{bin}/python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "work.py"),
        RANKS,
    ),
    "torch.multiprocessing.spawn": Case("launchers", SPAWN, ("{bin}/python", "work.py", "{port}"), RANKS),
    # With ddp_spawn it is torch.multiprocessing again. Its first rank is the program itself, which has no number until it has started the others.
    "Lightning ddp": Case(
        "launchers", LIGHTNING, ("{bin}/python", "work.py", "ddp"), ("work.py", "rank 1"), RANKS
    ),
    "accelerate": Case(
        "launchers",
        ACCELERATE,
        ("{bin}/accelerate", "launch", "--multi_gpu", "--num_machines", "1", "--mixed_precision", "no",
         "--dynamo_backend", "no", "--main_process_port", "{port}", "--num_processes", "2", "work.py"),
        RANKS,
    ),
    "multiprocessing": Case(
        "", PROCESSES, ("{bin}/python", "work.py"),
        tuple(
            f"multiprocessing worker {kind}Process-{n} of work.py"
            for kind, numbers in (("Fork", (1, 2)), ("Spawn", (3, 4)), ("ForkServer", (5, 6))) for n in numbers
        ),
    ),
    "loky": Case(
        "launchers", LOKY, ("{bin}/python", "work.py"), ("loky worker 1 of work.py", "loky worker 2 of work.py")
    ),
    "pytest-xdist": Case(
        "launchers", XDIST, ("{bin}/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp=base", "-n2", "work.py"),
        ("pytest gw0", "pytest gw1"),
    ),
    "gunicorn": Case(
        "launchers", APP, ("{bin}/gunicorn", "-w2", "-b", "127.0.0.1:{port}", "work:wsgi"),
        ("gunicorn worker 1", "gunicorn worker 2"),
    ),
    "uwsgi": Case(
        "launchers", APP,
        ("{bin}/uwsgi", "--http-socket", "127.0.0.1:{port}", "--master", "--processes", "2", "--enable-threads", "--lazy-apps", "--module", "work:wsgi"),
        ("uWSGI worker",),
    ),
    "uvicorn": Case(
        "launchers", APP, ("{bin}/uvicorn", "--workers", "2", "--port", "{port}", "work:app"),
        ("uvicorn server process 1", "uvicorn server process 2"),
    ),
}  # fmt: skip
LIMIT = 300


class Named(Editor):
    """Keeps by which names the sessions of processes were announced."""

    def __init__(self, *args: Any, **more: Any) -> None:
        self.names: dict[int, str] = {}
        super().__init__(*args, **more)

    def _attach_child(self, body: dict[str, Any]) -> None:
        self.names[body["subProcessId"]] = body["name"]
        super()._attach_child(body)

    def stopped(self) -> set[str]:
        pids = {pid for pid, one in self.attached.items() if any(s["session"] is one for s in self.stops)}
        return {self.names[pid].partition(" (")[0] for pid in pids if pid in self.names}

    def wait_stopped(self, names: tuple[str, ...]) -> None:
        with self.changed:
            there = self.changed.wait_for(lambda: self.stopped() >= set(names), LIMIT)
        assert there, (names, self.names, self.stopped(), self.errors)


@pytest.mark.parametrize("launcher", TABLE)
def test_each_process_of_a_launcher_stops_under_its_name_from_the_start_and_late(launcher, launch, tmp_path):
    case = TABLE[launcher]
    python = python_with(case.framework) if case.framework else sys.executable
    (tmp_path / "steps.py").write_text(STEP)
    (tmp_path / "work.py").write_text(case.script)
    words = {"bin": str(Path(python).parent), "port": free_port()}
    command = [word.format(**words) for word in case.command]
    env = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "ACCELERATE_USE_CPU": "true"}
    env["PYTEST_XDIST_WORKER"] = ""  # of who runs this test
    running = launch(*command, python=sys.executable, wait="300", env=env)
    try:
        port = running.wait_state("waiting", timeout=LIMIT)["port"]
        breakpoints = {str(tmp_path / "steps.py"): [LINE]}
        with Named(port, breakpoints) as editor:
            editor.wait_stopped(case.names)
        running.wait_state("running", timeout=LIMIT)
        with Named(port, breakpoints) as editor:
            editor.wait_stopped(case.late or case.names)
    finally:
        (tmp_path / "stop").touch()


def test_a_chosen_rank_of_torch_multiprocessing_stops_and_the_other_runs_free(launch, tmp_path):
    python = python_with("launchers")
    (tmp_path / "steps.py").write_text(STEP)
    (tmp_path / "work.py").write_text(SPAWN)
    running = launch(
        python, "work.py", str(free_port()), python=sys.executable, wait="300", options=("--ranks", "1"),
        env={"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        port = running.wait_state("waiting", timeout=LIMIT)["port"]
        with Named(port, {str(tmp_path / "steps.py"): [LINE]}) as editor:
            editor.wait_stopped(("rank 1",))
            assert set(editor.names.values()) == {"rank 1"}
            joined = {one["name"] for one in running.record()["processes"] if one["joined"]}
            assert joined == {"rank 1"}
    finally:
        (tmp_path / "stop").touch()
