"""`dkdbg doctor` on a real repository, a real engine and a real container: quiet when all is well, else cause and command."""

import json
import os
import socket
import zipfile

import pytest

from dkdbg import __version__
from dkdbg.setup.render import manifest
from tests.engine.projects import command, dkdbg, must, repo, unique
from tests.engine.running import Running
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.core]

DOCKERFILE = "FROM {}\nWORKDIR /app\nCOPY . .\nCMD python3 train.py\n"


@pytest.fixture
def project(tmp_path, base_image):
    files = {
        "train.py": "print(1)\n",
        "Dockerfile": DOCKERFILE.format(base_image),
        "dkdbg.toml": f"[debug]\nport = {free_port()}\n",
    }
    root = repo(tmp_path / unique("doctor"), files)
    must(dkdbg(root, "init", "--yes"))
    return root


def findings(root, *words, env=None):
    """The exit code, and the findings by name."""
    done = dkdbg(root, "doctor", "--json", *words, env=env)
    assert done.stderr == ""
    return done.returncode, {each["check"]: each for each in json.loads(done.stdout)["findings"]}


def make_older(root):
    """Make the agent one that an older dkdbg wrote, with the note of that in the manifest."""
    file = root / ".dkdbg" / "agent.pyz"
    with zipfile.ZipFile(file) as held:
        entries = {each: held.read(each) for each in held.namelist()}
    former = manifest.digest(file.read_bytes())
    with zipfile.ZipFile(file, "w") as made:
        for name, data in entries.items():
            made.writestr(
                name, data.replace(f'__version__ = "{__version__}"'.encode(), b'__version__ = "0.0.1"')
            )
    notes = root / ".dkdbg" / "manifest.json"
    notes.write_text(notes.read_text().replace(former, manifest.digest(file.read_bytes())))


def test_a_healthy_repository_has_no_finding_of_its_own_and_a_broken_file_of_init_or_a_silent_engine_is_named(
    project,
):
    code, found = findings(project)
    assert code == 0
    assert not {"files", "agent", "port", "build-context", "engine", "compose", "buildx"} & found.keys()
    for file, text, cause in (
        (".dkdbg/service.compose", b"services: [\n", "compose does not accept"),
        (".dkdbg/agent.pyz", b"", ".dkdbg/agent.pyz is missing or damaged"),
        (".vscode/launch.json", b'{"configurations": [', ".vscode/launch.json:1:"),
    ):
        before = (project / file).read_bytes()
        (project / file).write_bytes(text)
        code, found = findings(project)
        assert code == 1
        assert cause in found["files"]["cause"]
        (project / file).write_bytes(before)
    env = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}
    code, found = findings(project, env=env)
    assert code == 1
    assert found["engine"]["next"] in dkdbg(project, "up", env=env).stderr


def test_a_taken_port_a_large_build_and_a_broken_file_are_named(project):
    with socket.create_server(("127.0.0.1", int((project / "dkdbg.toml").read_text().split()[-1]))):
        with (project / "weights.bin").open("wb") as file:
            file.truncate(700 << 20)
        code, found = findings(project)
    assert code == 0  # warnings
    assert f"(PID {os.getpid()})" in found["port"]["cause"]
    assert "of which weights.bin has 700 MB" in found["build-context"]["cause"]
    command(["sh", "-c", found["build-context"]["next"]], project)
    (project / "compose.override.yaml").write_text("services: [\n")
    code, found = findings(project)
    assert code == 1
    assert found["files"]["severity"] == "error"
    assert "build-context" not in found


def test_a_fix_shows_its_command_and_asks(project):
    make_older(project)
    assert findings(project)[1]["agent"]["next"] == "dkdbg init"
    before = (project / ".dkdbg" / "agent.pyz").read_bytes()
    said = dkdbg(project, "doctor", "--fix")
    assert "$ dkdbg init" in said.stdout
    assert (project / ".dkdbg" / "agent.pyz").read_bytes() == before  # without a terminal it does not write
    run = Running(project, "--fix", terminal=True, verb="doctor")
    run.wait_for("[y/N]")
    os.write(run.keys, b"y\n")
    assert run.process.wait(300) == 0, run.said
    assert "$ dkdbg init" in run.said
    assert "agent" not in findings(project)[1]
    assert (project / ".dkdbg" / "agent.pyz").read_bytes() != before


def test_the_shared_memory_of_a_container_is_seen_from_inside(tmp_path, start_container):
    for size, is_found in (("64m", True), ("2g", False)):
        code, found = findings(tmp_path, f"docker://{start_container('--shm-size', size)}")
        assert code == 0
        assert ("shm" in found) == is_found
