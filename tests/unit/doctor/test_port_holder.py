"""Programs that have the debug port: only those that are no session of this repository are a finding."""

import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from dkdbg import process
from dkdbg.doctor import repository
from dkdbg.targets.docker import client, containers
from tests.commands import executable

LISTEN = """\
import socket, sys, time
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(containers, "of_project", lambda _root: ())
    (tmp_path / "repo").mkdir()
    return (tmp_path / "repo").resolve()


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def publishes(monkeypatch, folder):
    """Make the engine list a container of this compose folder at each port."""
    answer = SimpleNamespace(code=0, stdout=f"web-1\t{folder}\n")
    monkeypatch.setattr(process, "run", lambda *_, **__: answer)


def test_a_container_of_the_project_that_compose_file_names_is_ours_and_one_without_compose_is_not(
    root, port, monkeypatch
):
    (root / ".env").write_text("COMPOSE_FILE=ops/base.yaml\n")
    publishes(monkeypatch, root / "ops")
    assert repository._holder(root, port, has_engine=True) == ""
    monkeypatch.chdir(root)
    for folder in (root.parent / "other", ""):
        publishes(monkeypatch, folder)
        assert repository._holder(root, port, has_engine=True) == "container web-1"


def test_a_debug_service_in_the_host_s_network_is_ours(root, port, monkeypatch):
    monkeypatch.setattr(process, "run", lambda *_, **__: SimpleNamespace(code=0, stdout=""))
    group = Path("/proc/self/cgroup").read_text()
    service = SimpleNamespace(running=True, label="app-debug", host_network=True, id=group[-20:])
    engine = SimpleNamespace(is_local=True)
    monkeypatch.setattr(containers, "of_project", lambda _root: (service,))
    monkeypatch.setattr(client, "endpoint", lambda: engine)
    assert repository._holder(root, port, has_engine=True) == ""
    for change in ({"running": False}, {"running": True, "id": "of another container"}):
        vars(service).update(change)
        assert "(PID" in repository._holder(root, port, has_engine=True)
    monkeypatch.setattr(repository, "_process_of", lambda _inodes: None)  # another user's
    assert repository._holder(root, port, has_engine=True) == ""
    engine.is_local = False
    assert repository._holder(root, port, has_engine=True) == "another program"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("name", "folder", "is_ours"), [("dkdbg", "repo", True), ("dkdbg", ".", False), ("web", "repo", False)]
)
def test_a_dkdbg_that_was_started_in_the_repository_is_ours(root, name, folder, is_ours):
    (root.parent / "listen.py").write_text(LISTEN)
    program = executable(
        root.parent / name, f'exec "{sys.executable}" "{root.parent / "listen.py"}" "$0" attach'
    )
    with subprocess.Popen(
        [program], cwd=root.parent / folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        found = repository._holder(root, int(running.stdout.readline()), has_engine=False)
        running.stdin.close()
    assert (found == "") == is_ours
