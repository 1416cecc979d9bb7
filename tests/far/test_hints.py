"""Hints about hosts behind ssh are typed, by the real ssh, and lead on."""

import os
import shutil
import subprocess
import tempfile

import pytest

from dkdbg import hints
from tests.agent.dap_probe import wait_for
from tests.engine.projects import dkdbg, must, repo, unique
from tests.far.test_ssh import refused
from tests.hints import hinted, in_shell
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("far")]


@pytest.fixture
def python_of_login(laptop):
    """`python` is a name of Python's on login, and ~/train.py prints a word."""
    laptop.sh("login", "ln -s /usr/bin/python3 /usr/local/bin/python")
    laptop.put("login", "/home/me/train.py", "print('trains')\n")
    yield laptop
    laptop.sh("login", "rm -f /usr/local/bin/python /home/me/train.py")


def test_a_key_that_changed_is_named_and_taken_out_by_the_command_that_is_said(laptop, tmp_path):
    """Under the name and in the file that ssh looks it up by, which are not those of the alias."""
    with laptop.with_another_key():
        error = refused(tmp_path, "ssh://login")
        assert "the host key of login has changed" in error.message
        [line] = hinted(error.hint, hints.HOST_KEY)
        must(in_shell(tmp_path, line))
        assert laptop.ssh("login", "true").returncode == 0
        must(dkdbg(tmp_path, "ps", "ssh://login"))


def test_where_nothing_runs_the_command_that_is_said_runs_something(python_of_login, tmp_path):
    said = [dkdbg(tmp_path, verb, "ssh://login").stderr for verb in ("pdb", "where")]
    [line] = {line for each in said for line in hinted(each, hints.RUN_THERE)}
    assert must(in_shell(tmp_path, line)).stdout == "trains\n"
    assert python_of_login


def test_ports_of_a_container_are_not_forwarded(tmp_path):
    """Those behind ssh are: test_attach.py."""
    assert "docker run -p" in dkdbg(tmp_path, "forward", "docker://x", "80").stderr


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("podman"), reason="to run Podman takes root, and podman"
)
def test_a_podman_elsewhere_is_refused(tmp_path):
    root = repo(tmp_path / unique("far-podman"), {"train.py": "print('trains')\n"})
    must(dkdbg(root, "init", "--yes"))
    where = f"tcp://127.0.0.1:{free_port()}"
    folder = tempfile.mkdtemp(prefix="dkdbg-")  # Podman takes no long path for it
    stores = ["--root", f"{folder}/storage", "--runroot", f"{folder}/run"]
    serving = subprocess.Popen(
        ["podman", *stores, "system", "service", "-t", "0", where],
        env={**os.environ, "XDG_RUNTIME_DIR": folder},  # it leaves files there
    )
    try:
        wait_for(lambda: in_shell(root, "docker version", {"DOCKER_HOST": where}).returncode == 0, bool)
        refused = dkdbg(root, "up", env={"DOCKER_HOST": where})
    finally:
        serving.terminate()
        serving.wait(300)
        shutil.rmtree(folder, ignore_errors=True)
    assert refused.returncode
    assert "dkdbg run --sync --on ssh://HOST" in refused.stderr
