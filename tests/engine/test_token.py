"""A debug port that asks for a token: who has it stops at the breakpoint, who has not runs nothing, and it lies nowhere."""

import secrets
import stat
import subprocess
import sys
from dataclasses import replace

import pytest

from dkdbg.dap.client import Session, dial
from dkdbg.errors import DkdbgError
from dkdbg.setup.plan.editor import ATTACH_NAME, TOKEN_REFERENCES
from dkdbg.setup.render import jsonc
from tests.engine.devcontainer_cli import devcontainer_cli
from tests.engine.projects import (
    LOOP,
    command,
    dkdbg,
    launch_options,
    marked_line,
    must,
    repo,
    stopped_in,
    take_away,
    unique,
)
from tests.engine.test_devcontainer import dev_container
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
        config = f'[debug]\ntoken = "{source}"\nport = {free_port()}\n'
        files = {"dkdbg.toml": config, "train.py": LOOP, "Dockerfile": DOCKERFILE.format(base=base)}
        self.root = repo(folder / unique(f"token-{source}"), files)
        must(self.dkdbg("init", "--yes"))

    def dkdbg(self, *words, **settings):
        return dkdbg(self.root, *words, env={**self.settings, **settings})

    def run(self, *argv, **settings):
        return command(argv, self.root, env={**self.settings, **settings}, check=False)

    def compose(self, *words, **settings):
        return self.run("docker", "compose", "--progress", "plain", "--profile", "debug", *words, **settings)

    def take_away(self):
        take_away(self.root, self.settings)
        # A build anew leaves the image before it.
        label = f"label=com.docker.compose.project={self.root.name}"
        self.run("docker", "image", "prune", "--force", "--filter", label)

    def container(self):
        return must(self.compose("ps", "--all", "-q")).stdout.strip()

    def options(self, **extra):
        return replace(launch_options(self.root), extra=extra)

    def stops_with(self, **extra):
        """Whether it stops, and the environment of the program there."""
        file = self.root / "train.py"
        with stopped_in(file, self.options(**extra)) as (debugger, stop):
            top = debugger.stack(stop)[0]
            assert top.line == marked_line(file)
            return debugger.evaluate("dict(__import__('os').environ)", top)


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


@pytest.mark.core
def test_without_it_nothing_is_evaluated_with_it_the_program_stops_and_does_not_get_it(guarded, token):
    entries = jsonc.loads((guarded.root / ".vscode/launch.json").read_text())["configurations"]
    (entry,) = (each for each in entries if each["name"] == ATTACH_NAME)
    assert entry["dkdbgToken"] == TOKEN_REFERENCES["env"]
    for shown, said in (({"dkdbgToken": "guessed"}, "the token is wrong"), ({}, "the token is missing")):
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
    seen = guarded.stops_with(dkdbgToken=token)
    assert token not in seen
    assert "DKDBG_TOKEN_FILE" not in seen


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


def test_the_other_verbs_need_no_token_and_a_changed_one_or_none_reaches_a_service_that_runs(guarded):
    assert "app-debug" in must(guarded.dkdbg("ps")).stdout
    restarted = guarded.dkdbg("restart")
    assert "token" not in restarted.stdout + restarted.stderr
    for start in ((sys.executable, "-m", "dkdbg", "up"), ("sh", ".dkdbg/up.sh")):
        new = secrets.token_urlsafe(32)
        started = must(guarded.run(*start, DKDBG_TOKEN=new))
        assert "ran with another token; it is being restarted" in started.stdout
        assert new not in started.stdout + started.stderr
        assert guarded.stops_with(dkdbgToken=new)
    # A teammate has none.
    must(guarded.compose("up", "--detach", "--wait"))
    assert guarded.stops_with()
    assert guarded.stops_with(dkdbgToken="")  # what `${env:DKDBG_TOKEN}` is without the variable


def test_up_publishes_nothing_beyond_loopback_without_a_token_and_f5_says_that_the_editor_lacks_it(project):
    name = "compose.open.yaml"
    (project.root / name).write_text(
        f'services: {{app-debug: {{ports: ["0.0.0.0:0:{project.options().port}"]}}}}\n'
    )
    refused = project.dkdbg("up", DKDBG_TOKEN="", COMPOSE_FILE=f"compose.yaml:{name}")
    (project.root / name).unlink()
    assert refused.returncode != 0
    assert "0.0.0.0" in refused.stderr
    assert "token" in refused.stderr
    project.token_file.parent.mkdir(parents=True, exist_ok=True)
    project.token_file.write_text("not to be printed")
    done = project.run("sh", ".dkdbg/up.sh")
    project.token_file.unlink()
    assert done.returncode == 1
    assert f'export DKDBG_TOKEN="$(cat {project.token_file})"' in done.stderr
    assert "not to be printed" not in done.stdout + done.stderr


def test_up_makes_a_token_for_this_users_eyes_and_says_once_how_the_editor_gets_it_if_not_in_a_dev_container(
    base_image, devcontainer_cli, tmp_path, token, monkeypatch
):
    """Inside the port is the container's own loopback's, and the variable of the launch entry would be empty in there."""
    project = Project(tmp_path, base_image, "prompt")
    with dev_container(devcontainer_cli, project.root, project.settings) as opened:
        first = must(project.dkdbg("up"))
        made = project.token_file.read_text().strip()
        assert stat.S_IMODE(project.token_file.stat().st_mode) == 0o600
        assert str(project.token_file) in first.stdout
        assert made not in first.stdout + first.stderr
        again = must(project.dkdbg("up"))
        assert "token" not in again.stdout.lower().replace(project.root.name, "")
        assert project.token_file.read_text().strip() == made
        assert project.stops_with(dkdbgToken=made)
        pressed = must(project.run("sh", ".dkdbg/up.sh"))  # F5, in an editor that has no variable
        assert made not in pressed.stdout + pressed.stderr
        with pytest.raises(DkdbgError, match="the token is missing"):
            project.stops_with()
        monkeypatch.setenv("DKDBG_TOKEN", token)
        opened.up()
        assert token not in must(project.run("docker", "inspect", opened.id)).stdout
        must(opened.f5())
        assert opened.stops_inside("train.py")[0] == f"{opened.folder}/train.py"


def test_a_file_that_was_changed_by_hand_and_hands_no_token_on_starts_nothing(project, base_image, tmp_path):
    asks, project = project, Project(tmp_path, base_image, "none")
    try:
        file = project.root / ".dkdbg/service.compose"
        file.write_text(file.read_text().replace("127.0.0.1:${DKDBG_PORT", "0.0.0.0:${DKDBG_PORT"))
        refused = project.dkdbg("up")
        assert 'token = "env"' in refused.stderr
        toml = project.root / "dkdbg.toml"
        toml.write_text(toml.read_text().replace('"none"', '"env"'))
        again = must(in_shell(project.root, "dkdbg init --yes", project.settings)).stdout
        assert "keep    .dkdbg/service.compose" in again
        settings = {**project.settings, "DKDBG_TOKEN": secrets.token_urlsafe(32)}
        for start in ("dkdbg up", "sh .dkdbg/up.sh"):
            done = in_shell(project.root, start, settings)
            assert done.returncode != 0
            assert "rm .dkdbg/service.compose" in done.stderr
            assert project.container() == ""
        file.unlink()
        must(in_shell(project.root, "dkdbg init --yes", settings))

        def written(each):
            """Its file, but for what is each project's own."""
            text = (each.root / ".dkdbg/service.compose").read_text()
            lines = text.replace(str(each.options().port), "PORT").splitlines()
            return [line for line in lines if "DKDBG_PROJECT:" not in line]

        assert written(project) == written(asks)  # which ask for the token in the other tests
    finally:
        project.take_away()
