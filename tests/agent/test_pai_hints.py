"""A task of OpenPAI is reached as dkdbg says: real tasks on this machine, told of by a stand-in for its server."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from dkdbg.delivery import single_file
from tests.agent import nc
from tests.agent.test_pai import own_address
from tests.engine.host_doors import host_door
from tests.engine.projects import dkdbg, must
from tests.openpai import jobs, protocol, rest, task
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Start = Callable[..., subprocess.Popen[str]]

TRAIN = "def step(n):\n    return n * 2\n\nprint('sum', sum(step(n) for n in range(3)))\n"
#: The address of the node that the platform names; on a real one others reach it.
NODE = "127.0.0.2"
#: What a user types into `nc` after the token.
SESSION = "p 40 + 2\nc\nq\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "code"
    made.mkdir()
    subprocess.run(["git", "init", "-q", made], check=True)
    for name, text in {"train.py": TRAIN, "setup.py": "", "job.yaml": jobs.PLAIN}.items():
        (made / name).write_text(text)
    return made


@pytest.fixture
def start(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts a task of what `job.yaml` is now, or with `words` a Python of a job that has nothing but paipdb."""
    started: list[subprocess.Popen[str]] = []
    package = root.parent / "paipdb.zip"
    package.write_bytes(single_file.build_pdb())

    def run(*words: str, port: int = 0, host: str = NODE, **env: str) -> subprocess.Popen[str]:
        if words:
            clean = {"PATH": os.environ["PATH"], "PYTHONPATH": str(package), "PYTHONUNBUFFERED": "1"}
            told = protocol.environment(port, host=host) if port else {}
            started.append(
                subprocess.Popen(
                    [sys.executable, "-S", *words], cwd=root, env=clean | told | env, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                )
            )  # fmt: skip
        else:
            text, home = (root / "job.yaml").read_text(), tmp_path_factory.mktemp("task")
            env = {"DKDBG_JOIN_DEADLINE": "60"} | env
            started.append(task.start(text, "worker", root, home, port or free_port(), host=host, **env))
        return started[-1]

    yield run
    for each in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(each.pid, signal.SIGKILL)
        each.communicate()


def log_until(running: subprocess.Popen[str], mark: str) -> str:
    """The log of a task until the line with this mark."""
    assert running.stderr is not None
    said = ""
    for line in running.stderr:
        said += line
        if mark in line:
            return said
    raise AssertionError(said)


def by_nc(root: Path, line: str, token: str) -> str:
    """What a session shows: an `nc` line that is typed, the token, and what a user types then."""
    home = root.parent / "bin"
    home.mkdir(exist_ok=True)
    return subprocess.run(
        ["sh", "-c", line], cwd=root, env={**os.environ, "PATH": nc.path(home)}, input=f"{token}\n{SESSION}", capture_output=True,
        text=True, check=True, timeout=300,
    ).stdout  # fmt: skip


def debugged(root: Path, port: int, token: str) -> str:
    """Where an editor stops that attaches to a port of this machine."""
    options = AttachOptions(host="127.0.0.1", port=port, extra={"dkdbgToken": token})
    with Debugger(options) as debugger:
        debugger.set_breakpoints(str(root / "train.py"), [2])
        debugger.attach()
        return debugger.stack(debugger.wait_stopped(300))[0].name


# --- in a job


def test_pdb_is_reached_by_the_nc_that_the_log_has(root: Path, start: Start) -> None:
    running = start("-m", "paipdb", "train.py", port=free_port())
    said = log_until(running, "type this first: ")
    [line] = re.findall(r"\((nc \S+ \d+)\)", said)
    assert "42" in by_nc(root, line, said.split()[-1])
    assert running.wait(300) == 0


# --- init --pai


def test_a_job_of_several_processes_is_told_of_dap(root: Path) -> None:
    (root / "job.yaml").write_text(
        jobs.PLAIN.replace("python train.py", "torchrun --nproc-per-node=2 train.py")
    )
    assert (
        "dkdbg init --pai job.yaml --dap" in must(dkdbg(root, "init", "--pai", "job.yaml", "--diff")).stdout
    )
    must(dkdbg(root, "init", "--pai", "job.yaml", "--dap", "--yes"))
    assert "--dap" in (root / "job.yaml").read_text()


# --- its server


def test_after_init_the_task_is_found_and_reached_as_it_says(
    root: Path, start: Start, pai_server: rest.Server
) -> None:
    said = must(dkdbg(root, "init", "--pai", "job.yaml", "--yes")).stdout
    assert "dkdbg ps --on pai://HOST/USER/JOB" in said
    node, port = own_address(), free_port()
    pai_server.roles = {"worker": [rest.task(0, "RUNNING", node, port)]}
    running = start(port=port, host=node)
    token = log_until(running, "type this first: ").split()[-1]
    line = f"nc {node} {port}"
    assert line in must(dkdbg(root, "ps", "--on", pai_server.address)).stdout
    assert "42" in by_nc(root, line, token)
    assert running.wait(300) == 0


def test_after_init_for_an_editor_attach_waits_until_the_task_runs(
    root: Path, start: Start, pai_server: rest.Server
) -> None:
    must(dkdbg(root, "init", "--yes"))
    said = must(dkdbg(root, "init", "--pai", "job.yaml", "--dap", "--yes")).stdout
    assert "dkdbg attach pai://HOST/USER/JOB" in said
    node, port = own_address(), free_port()
    pai_server.roles = {"worker": [rest.task(0, "WAITING", None, 0)]}
    with host_door(root, pai_server.address) as door:
        door.wait("target", ready=False)
        running = start(port=port, host=node)
        token = log_until(running, "its token is ").split()[-1]
        pai_server.roles = {"worker": [rest.task(0, "RUNNING", node, port)]}
        assert debugged(root, door.port, token) == "step"
        assert door.end() == 0
