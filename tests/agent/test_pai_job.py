"""A job that `dkdbg init --pai` has edited, run as OpenPAI's runtime runs it, and a session by `nc`."""

import contextlib
import os
import signal
import subprocess

import pytest

from dkdbg.main import main
from tests.agent.conftest import lay_out
from tests.agent.nc import Client
from tests.commands import command
from tests.openpai import jobs, protocol, task
from tests.ports import free_port

NODE = "127.0.0.2"
TRAIN = """\
import sys

def step(n):
    loss = n * 2
    return loss

print("args", sys.argv[1:])
print("sum", sum(step(n) for n in range(3)))
"""


@pytest.fixture
def root(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "setup.py").write_text("print('installed')\n")
    return tmp_path


@pytest.fixture
def submit(root, tmp_path_factory):
    """Edit a job, and start a task of it; nothing of this environment's dkdbg is in it but Python itself."""
    started: list[subprocess.Popen[str]] = []

    def run(text, port, *words, role="worker", **env):
        (root / "job.yaml").write_text(text)
        assert main(["-C", str(root), "init", "--pai", "job.yaml", "--role", role, "--yes", *words]) == 0
        started.append(
            task.start(
                (root / "job.yaml").read_text(), role, root, tmp_path_factory.mktemp("task"), port, **env
            )
        )
        return started[-1]

    yield run
    for each in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(each.pid, signal.SIGKILL)  # what its shell has started too
        each.communicate()


def test_the_recipes_own_command_line_with_a_secret(submit):
    port = free_port()
    text = jobs.BY_HAND + "\nsecrets:\n  dkdbg_token: a-token-of-the-users\n"
    job = submit(text, port, role="train")
    nc = Client(port, job, host=NODE, token="a-token-of-the-users")
    nc.until()
    nc.sock.sendall(b"q\n")
    out, err = job.communicate(timeout=300)
    assert (job.returncode, out) == (0, "data\n"), err
    assert "a-token-of-the-users" not in err


def test_a_module_is_debugged_as_python_runs_it(submit, root):
    port = free_port()
    (root / "app").mkdir()
    (root / "app" / "__init__.py").write_text("")
    (root / "app" / "train.py").write_text(
        "from . import __name__ as package\nimport sys\nprint(package, sys.argv[1:])\n"
    )
    job = submit(jobs.PLAIN.replace("python train.py", "python -u -m app.train"), port)
    nc = Client(port, job, host=NODE)
    assert "train.py(1)<module>()" in nc.until()
    assert "The program finished and will be restarted" in nc.ask("c")
    nc.sock.sendall(b"q\n")
    out, err = job.communicate(timeout=300)
    assert (job.returncode, out) == (0, "installed\napp ['--epochs', '3']\n"), err


def test_a_job_of_a_launcher_is_told_of_dap_and_runs_below_the_agent_as_it_is(submit, root, capsys):
    """The launcher is a stand-in: two Pythons with a rank each."""
    port = free_port()
    lay_out(root / ".dkdbg")
    (root / "torchrun").write_text(
        '#!/bin/sh\nfor rank in 0 1; do RANK=$rank WORLD_SIZE=2 python "$@" & done; wait\n'
    )
    (root / "torchrun").chmod(0o755)
    text = jobs.PLAIN.replace("python train.py", "PATH=$PWD:$PATH torchrun train.py")
    (root / "job.yaml").write_text(text)
    assert main(["-C", str(root), "init", "--pai", "job.yaml", "--diff"]) == 0
    assert "dkdbg init --pai job.yaml --dap" in capsys.readouterr().out
    for timeout, code, count in (("0.3", 124, 0), ("0", 0, 2)):
        # Without buffers a print is several writes, and the ranks write into one pipe.
        job = submit(text, port, "--dap", DEBUG_TIMEOUT=timeout, PYTHONUNBUFFERED="")
        out, err = job.communicate(timeout=300)
        assert (job.returncode, out.count("sum 6")) == (code, count), err
        assert f"debug host ip is set to {NODE}, port is set to {port}" in err


def test_without_the_deployment_the_job_runs_as_before(submit, root):
    job = submit(jobs.DEPLOYED, free_port())
    os.killpg(job.pid, signal.SIGKILL)
    job.communicate()
    (root / "code").mkdir(exist_ok=True)
    (root / "code" / "train.py").write_text("print('trained')\n")
    text = (root / "job.yaml").read_text().replace("deployment: debug", "deployment: prod")
    done = command(["bash", "-c", protocol.script(text, "worker")], root)
    assert done.stdout == "trained\ndone\nkept\n"
