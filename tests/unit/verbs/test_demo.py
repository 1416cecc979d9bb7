"""`dkdbg demo` on a plain process of this machine: a real session, about two seconds."""

import json
import tempfile

import pytest

from tests.agent.dap_probe import wait_for
from tests.checkout import run_dkdbg, snapshot
from tests.processes import running

pytestmark = pytest.mark.xdist_group("port-5678")
NO_ENGINE = {"DOCKER_HOST": "unix:///nonexistent.sock"}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A temporary folder of our own, which shows what is left behind."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def test_without_an_engine_it_stops_twice_here_says_what_is_missing_and_leaves_nothing(place, tmp_path):
    done = run_dkdbg(tmp_path, "demo", env={**NO_ENGINE, "DKDBG_TOKEN": "not to be shown"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rate = 0.1\n" in done.stdout
    assert "rate = 0.05\n" in done.stdout
    assert "demo passed on local:" in done.stdout
    assert "no Docker engine answers" in done.stdout or "no program 'docker'" in done.stdout
    assert "not to be shown" not in done.stdout + done.stderr  # the token that its own port asks for
    assert snapshot(place) == {}
    wait_for(lambda: running(str(place)), lambda left: left == [])


def test_json_is_one_object(place, tmp_path):
    done = run_dkdbg(tmp_path, "demo", "--on", "local", "--json")
    said = json.loads(done.stdout)
    assert (done.returncode, said["outcome"], said["target"], said["stops"]) == (0, "passed", "local:", 2)
    assert snapshot(place) == {}


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_container_that_was_asked_for_is_not_replaced(place, tmp_path, words):
    done = run_dkdbg(tmp_path, "demo", "--on", "compose", *words, env=NO_ENGINE)
    assert done.returncode in {3, 127}
    assert json.loads(done.stdout)["outcome"] == "failed" if words else "hint:" in done.stderr
    assert snapshot(place) == {}
