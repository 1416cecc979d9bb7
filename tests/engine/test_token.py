"""A debug port that asks for a token: who has it stops at the breakpoint, who has not runs nothing, and it lies nowhere."""

from __future__ import annotations

import json
import os
import secrets
import stat
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import dkdbg as package
from dkdbg.dap.client import Session, dial
from dkdbg.dap.debugger import Debugger
from dkdbg.errors import DkdbgError
from dkdbg.planner.editor import ATTACH_NAME, TOKEN_REFERENCES
from dkdbg.render import jsonc
from tests.engine.devcontainer_cli import devcontainer_cli
from tests.engine.projects import (
    LOOP,
    dkdbg,
    launch_options,
    marked_line,
    must,
    repo,
    take_away,
    unique,
)
from tests.engine.test_devcontainer import ATTACH, Case, DevContainer
from tests.hints import in_shell
from tests.ports import free_port

__all__ = ["devcontainer_cli"]

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("token")]

#: A careless image of the user's: whatever lies in the repository goes into it.
DOCKERFILE = 'FROM {base}\nWORKDIR /app\nCOPY . .\nCMD ["python3", "train.py"]\n'
CHUNK = 1 << 20


class Project:
    """A repository on a shared machine, and compose as its owner types it there."""

    def __init__(self, folder, base, source="env"):
        self.settings = {"DKDBG_BASE": base, "XDG_CONFIG_HOME": str(folder / "config")}
        self.token_file = folder / "config/dkdbg/token"
        self.root = repo(
            folder / unique(f"token-{source}"),
            {
                "dkdbg.toml": f'[debug]\ntoken = "{source}"\nport = {free_port()}\n',
                "train.py": LOOP,
                "Dockerfile": DOCKERFILE.format(base=base),
            },
        )
        must(self.dkdbg("init", "--yes"))

    def dkdbg(self, *words, **settings):
        return dkdbg(self.root, *words, env={**self.settings, **settings})

    def run(self, *argv, **settings):
        env = {**os.environ, **self.settings, **settings}
        return subprocess.run(
            argv, cwd=self.root, env=env, capture_output=True, text=True, check=False, timeout=300
        )

    def compose(self, *words, **settings):
        return self.run("docker", "compose", "--progress", "plain", "--profile", "debug", *words, **settings)

    def take_away(self):
        take_away(self.root, self.settings)
        label = (
            f"label=com.docker.compose.project={self.root.name}"  # a build anew leaves the image before it
        )
        self.run("docker", "image", "prune", "--force", "--filter", label)

    def container(self):
        return must(self.compose("ps", "--all", "-q")).stdout.strip()

    def options(self, **extra):
        return replace(launch_options(self.root), extra=extra)

    def stops_with(self, **extra):
        file = self.root / "train.py"
        with Debugger(self.options(**extra)) as debugger:
            debugger.set_breakpoints(str(file), [marked_line(file)])
            debugger.attach()
            return debugger.stack(debugger.wait_stopped(300))[0].line == marked_line(file)


@pytest.fixture(scope="module")
def project(base_image, tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("token"), base_image)
    yield project
    project.take_away()


@pytest.fixture(scope="module")
def token():
    return secrets.token_urlsafe(32)


@pytest.fixture
def guarded(project, token):
    """The service started by plain compose, with the token in the environment, as an export in a profile gives it."""
    must(project.compose("up", "--build", "--detach", "--wait", DKDBG_TOKEN=token))
    return project


def entry_of(project):
    entries = jsonc.loads((project.root / ".vscode/launch.json").read_text())["configurations"]
    return next(each for each in entries if each["name"] == ATTACH_NAME)


def test_the_launch_entry_refers_to_the_token(project):
    assert entry_of(project)["dkdbgToken"] == TOKEN_REFERENCES["env"]


@pytest.mark.parametrize(
    ("shown", "said"), [({"dkdbgToken": "guessed"}, "the token is wrong"), ({}, "the token is missing")]
)
@pytest.mark.core
def test_without_it_nothing_is_evaluated_and_the_refusal_says_what_to_do(guarded, shown, said):
    options = guarded.options(**shown)
    session = Session(dial(options.host, options.port), name="stranger")
    try:
        session.request("initialize", {"adapterID": "debugpy", "pathFormat": "path"})
        with pytest.raises(DkdbgError, match=said) as refused:
            session.request("attach", options.arguments())
        assert '"dkdbgToken"' in refused.value.message
        with pytest.raises(DkdbgError):  # refused, or hung up by now
            session.request("evaluate", {"expression": "open('/tmp/evaluated', 'w')", "context": "repl"})
    finally:
        session.close()
    assert guarded.run("docker", "exec", guarded.container(), "test", "-e", "/tmp/evaluated").returncode == 1


def test_the_token_lies_in_no_place_that_others_read(guarded, token):
    container = guarded.container()
    assert token not in must(guarded.run("docker", "inspect", container)).stdout
    logs = must(guarded.run("docker", "logs", container))
    assert token not in logs.stdout + logs.stderr
    assert token not in must(guarded.compose("config", DKDBG_TOKEN=token)).stdout
    must(guarded.run("git", "add", "--all"))
    for name in must(guarded.run("git", "ls-files", "-z")).stdout.split("\0")[:-1]:
        assert token.encode() not in (guarded.root / name).read_bytes(), name
    image = must(guarded.run("docker", "inspect", "--format", "{{.Image}}", container)).stdout.strip()
    there = b"return loss  # breakpoint"
    assert in_image(image, token.encode(), there) == {there}


def in_image(image, *needles):
    """Return those of the texts that stand in an image's layers, history or settings."""
    longest = max(map(len, needles))
    with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saved:
        found, tail = set(), b""
        while chunk := saved.stdout.read(CHUNK):
            found |= {each for each in needles if each in tail + chunk}
            tail = chunk[-longest:]
    assert saved.returncode == 0
    return found


def test_the_right_token_stops_at_the_breakpoint_and_the_program_does_not_get_it(guarded, token):
    file = guarded.root / "train.py"
    with Debugger(guarded.options(dkdbgToken=token)) as debugger:
        debugger.set_breakpoints(str(file), [marked_line(file)])
        debugger.attach()
        top = debugger.stack(debugger.wait_stopped(300))[0]
        assert top.line == marked_line(file)
        seen = debugger.evaluate("dict(__import__('os').environ)", top)
    assert token not in seen
    assert "DKDBG_TOKEN_FILE" not in seen


def test_the_other_verbs_need_no_token(guarded):
    listed = must(guarded.dkdbg("ps"))
    assert "app-debug" in listed.stdout
    restarted = guarded.dkdbg("restart")
    assert "token" not in restarted.stdout + restarted.stderr


def test_a_teammate_without_a_token_starts_and_attaches_as_before(project):
    must(project.compose("up", "--detach", "--wait"))
    assert project.stops_with()
    assert project.stops_with(dkdbgToken="")  # what `${env:DKDBG_TOKEN}` is without the variable


def test_up_makes_a_token_for_this_users_eyes_and_says_once_how_the_editor_gets_it(base_image, tmp_path):
    project = Project(tmp_path, base_image, "prompt")
    try:
        first = must(project.dkdbg("up"))
        made = project.token_file.read_text().strip()
        assert stat.S_IMODE(project.token_file.stat().st_mode) == 0o600
        assert str(project.token_file) in first.stdout
        assert made not in first.stdout + first.stderr
        again = must(project.dkdbg("up"))
        assert "token" not in again.stdout.lower().replace(project.root.name, "")
        assert project.token_file.read_text().strip() == made
        assert project.stops_with(dkdbgToken=made)
        with pytest.raises(DkdbgError, match="the token is missing"):
            project.stops_with()
        pressed = must(project.run("sh", ".dkdbg/up.sh"))  # F5, in an editor that has no variable
        assert made not in pressed.stdout + pressed.stderr
        with pytest.raises(DkdbgError, match="the token is missing"):
            project.stops_with()
    finally:
        project.take_away()


@pytest.mark.parametrize(
    "start", [(sys.executable, "-m", "dkdbg", "up"), ("sh", ".dkdbg/up.sh")], ids=["up", "F5"]
)
def test_a_changed_token_reaches_a_service_that_runs(guarded, start):
    new = secrets.token_urlsafe(32)
    started = must(guarded.run(*start, DKDBG_TOKEN=new))
    assert "ran with another token; it is being restarted" in started.stdout
    assert new not in started.stdout + started.stderr
    assert guarded.stops_with(dkdbgToken=new)
    must(guarded.compose("rm", "--stop", "--force"))


def test_f5_says_that_the_editor_lacks_the_token_instead_of_attaching_in_vain(project):
    project.token_file.parent.mkdir(parents=True, exist_ok=True)
    project.token_file.write_text("not to be printed")
    try:
        done = project.run("sh", ".dkdbg/up.sh")
    finally:
        project.token_file.unlink()
    assert done.returncode == 1
    assert f'export DKDBG_TOKEN="$(cat {project.token_file})"' in done.stderr
    assert "not to be printed" not in done.stdout + done.stderr


def test_up_publishes_nothing_beyond_loopback_without_a_token(project):
    name = "compose.open.yaml"
    (project.root / name).write_text(
        f'services: {{app-debug: {{ports: ["0.0.0.0:0:{project.options().port}"]}}}}\n'
    )
    chain = {"COMPOSE_FILE": f"compose.yaml:{name}"}
    try:
        refused = project.dkdbg("up", DKDBG_TOKEN="", **chain)
        assert refused.returncode != 0
        assert "0.0.0.0" in refused.stderr
        assert "token" in refused.stderr
    finally:
        (project.root / name).unlink()


def test_in_the_dev_container_there_is_nobody_to_ask_and_the_token_is_in_no_label(
    base_image, devcontainer_cli, tmp_path, token, monkeypatch
):
    """Its port is the container's own loopback's, and the variable of the launch entry would be empty in there."""
    project = Project(tmp_path, base_image, "prompt")
    monkeypatch.setenv("DKDBG_TOKEN", token)
    opened = DevContainer(devcontainer_cli, project.root, Case(files={}), 0)
    try:
        opened.up()
        inspected = must(project.run("docker", "inspect", opened.id)).stdout
        assert token not in inspected
        must(project.run("docker", "exec", opened.id, "mkdir", "/tmp/client"))
        source = str(Path(package.__file__).parent)
        must(project.run("docker", "cp", source, f"{opened.id}:/tmp/client/dkdbg"))
        must(opened.f5())
        file = f"{opened.folder}/train.py"
        options = asdict(launch_options(project.root, opened.folder))
        argument = json.dumps([options, file, marked_line(project.root / "train.py")])
        done = must(opened.inside("env", "PYTHONPATH=/tmp/client", "python3", "-c", ATTACH, argument))
        assert json.loads(done.stdout.splitlines()[-1])[0] == file
    finally:
        project.take_away()
        built = must(
            project.run("docker", "images", "-q", "--filter", f"reference=vsc-{project.root.name}-*")
        )
        for image in built.stdout.split():
            project.run("docker", "rmi", "-f", image)


def test_a_file_that_was_changed_by_hand_and_hands_no_token_on_starts_nothing(project, base_image, tmp_path):
    asks, project = project, Project(tmp_path, base_image, "none")
    try:
        file = project.root / "compose.yaml"
        file.write_text(file.read_text().replace("127.0.0.1:${DKDBG_PORT", "0.0.0.0:${DKDBG_PORT"))
        refused = project.dkdbg("up")
        assert 'token = "env"' in refused.stderr
        toml = project.root / "dkdbg.toml"
        toml.write_text(toml.read_text().replace('"none"', '"env"'))
        assert (
            "keep    compose.yaml"
            in must(in_shell(project.root, "dkdbg init --yes", project.settings)).stdout
        )
        token = secrets.token_urlsafe(32)
        settings = {**project.settings, "DKDBG_TOKEN": token}
        for start in ("dkdbg up", "sh .dkdbg/up.sh"):
            done = in_shell(project.root, start, settings)
            assert done.returncode != 0
            assert "rm compose.yaml" in done.stderr
            assert project.container() == ""
        file.unlink()
        must(in_shell(project.root, "dkdbg init --yes", settings))
        written, others = (
            [
                line.replace(str(each.options().port), "PORT")
                for line in (each.root / "compose.yaml").read_text().splitlines()
                if "DKDBG_PROJECT:" not in line
            ]
            for each in (project, asks)
        )
        assert written == others  # which ask for the token in the other tests
    finally:
        project.take_away()
