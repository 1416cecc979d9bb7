"""Reopen in Container, by the real dev container CLI: the right user, the repository's files, and F5 inside."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

import dkdbg
from tests.agent.dap_probe import wait_for
from tests.engine.devcontainer_cli import devcontainer_cli
from tests.engine.projects import LOOP, launch_options, marked_line, must, repo, take_away, unique
from tests.engine.projects import dkdbg as run_dkdbg
from tests.ports import free_port

__all__ = ["devcontainer_cli"]

pytestmark = pytest.mark.engine

#: A terminal that closes when its command has ended, as an editor's task has one.
TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
#: Runs in the container, with the package at its side.
ATTACH = """
import json, sys
from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
options, file, line = json.loads(sys.argv[1])
options["path_mappings"] = tuple(map(tuple, options["path_mappings"]))
with Debugger(AttachOptions(**options)) as debugger:
    debugger.set_breakpoints(file, [line])
    debugger.attach()
    stop = debugger.wait_stopped(300)
    top = debugger.stack(stop)[0]
    print(json.dumps([top.path, top.line, debugger.local_values(top)["loss"]]))
"""


@dataclass(frozen=True)
class Case:
    """A repository: its files, the local file to stop in, and where our devcontainer.json lies."""

    files: dict[str, str]
    file: str = "train.py"
    config: str = ".devcontainer/devcontainer.json"


def cases(base):
    own = f"""\
        FROM {base}
        RUN useradd --create-home --uid 1234 trainer
        WORKDIR /srv/code
        COPY code .
        USER trainer
        CMD ["python3", "train.py"]
        """
    as_root = f'FROM {base}\nWORKDIR /app\nCOPY . .\nCMD ["python3", "train.py"]\n'
    second = json.dumps({"image": "python:3.11"})
    return {
        "bare": Case(files={"train.py": LOOP, "requirements.txt": "# nothing\n"}),
        "own-user": Case(
            files={
                "code/train.py": LOOP,
                "Dockerfile": own,
                "docker-compose.yml": "services:\n  trainer:\n    build: .\n",
                ".env": f"DKDBG_PORT={free_port()}\n",  # as `dkdbg up` leaves it when the plan's port is taken
            },
            file="code/train.py",
        ),
        "second": Case(
            files={"train.py": LOOP, "Dockerfile": as_root, ".devcontainer/devcontainer.json": second},
            config=".devcontainer/dkdbg/devcontainer.json",
        ),
    }


class DevContainer:
    """A repository open in its dev container."""

    def __init__(self, cli, root, case, owner):
        self.cli, self.root, self.case, self.owner = cli, root, case, owner
        self.where = ["--workspace-folder", str(root), "--config", str(root / case.config)]
        self.id, self.folder = "", ""

    def devcontainer(self, command, *words, **more):
        argv = [self.cli, command, *self.where, *words]
        return subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False, **more)

    def up(self):
        state = json.loads(must(self.devcontainer("up")).stdout.splitlines()[-1])
        self.id, self.folder = state["containerId"], state["remoteWorkspaceFolder"]

    def inside(self, *words):
        return self.devcontainer("exec", *words)

    def f5(self):
        return self.inside("python3", "-c", TERMINAL, "sh", ".dkdbg/up.sh")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(
            (case, owner), id=f"{case}-{owner}", marks=pytest.mark.xdist_group(f"devcontainer-{case}-{owner}")
        )
        for case, owner in (("bare", 1000), ("own-user", 1000), ("own-user", 0), ("second", 0))
    ],
)
def opened(request, base_image, devcontainer_cli, tmp_path_factory):
    """The dev container of a repository that belongs to somebody on the host; only root can try two owners."""
    case_name, owner = request.param
    if os.geteuid() and owner != os.geteuid():
        pytest.skip("only root can give a folder away")
    case = cases(base_image)[case_name]
    root = tmp_path_factory.mktemp("dc") / unique(f"dc-{case_name}-{owner}")
    repo(root, {**case.files, "dkdbg.toml": f"[debug]\nport = {free_port()}\n"})
    must(run_dkdbg(root, "init", "--yes"))
    for path in (root, *root.rglob("*")):
        os.chown(path, owner, owner)
    os.environ["DKDBG_BASE"] = base_image
    try:
        opened = DevContainer(devcontainer_cli, root, case, owner)
        opened.up()
        package = str(Path(dkdbg.__file__).parent)
        for argv in (
            ["exec", opened.id, "mkdir", "/tmp/client"],
            ["cp", package, f"{opened.id}:/tmp/client/dkdbg"],
        ):
            must(subprocess.run(["docker", *argv], capture_output=True, text=True, check=False))
        yield opened
    finally:
        del os.environ["DKDBG_BASE"]
        take_away(root, {"DKDBG_BASE": base_image})
        built = ["docker", "images", "-q", "--filter", f"reference=vsc-{root.name}-*"]
        for image in subprocess.run(built, capture_output=True, text=True, check=True).stdout.split():
            subprocess.run(["docker", "rmi", "-f", image], capture_output=True, check=False)


def test_the_configuration_is_read(opened):
    done = must(opened.devcontainer("read-configuration"))
    configuration = json.loads(done.stdout.splitlines()[-1])
    assert configuration["workspace"]["workspaceFolder"] == opened.folder


def test_nothing_is_published_on_the_host(opened):
    """The editor forwards ports: two dev containers, or one and a debug service elsewhere, do not fight over 5678."""
    argv = ["docker", "inspect", "-f", "{{json .HostConfig.PortBindings}}", opened.id]
    assert json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout) in ({}, None)


def test_what_is_written_into_the_workspace_belongs_to_its_owner(opened):
    must(opened.inside("sh", "-c", "touch made && mkdir runs && touch ~/.mark"))
    assert {(opened.root / name).stat().st_uid for name in ("made", "runs")} == {opened.owner}


def test_it_opens_in_the_repository_with_a_python(opened):
    code = f"import os, sys; os.stat({opened.case.file!r}); print(os.getcwd(), sys.version_info >= (3, 8))"
    assert must(opened.inside("python3", "-c", code)).stdout.split() == [opened.folder, "True"]


@pytest.fixture(scope="module")
def pressed(opened):
    """The dev container after a first F5."""
    must(opened.f5())
    return opened


@pytest.mark.usefixtures("pressed")
def test_f5_inside_stops_at_the_breakpoint_of_the_open_file(opened):
    options = asdict(launch_options(opened.root, opened.folder))
    file, line = f"{opened.folder}/{opened.case.file}", marked_line(opened.root / opened.case.file)
    argument = json.dumps([options, file, line])
    done = must(opened.inside("env", "PYTHONPATH=/tmp/client", "python3", "-c", ATTACH, argument))
    assert json.loads(done.stdout.splitlines()[-1]) == [file, line, "1.0"]


@pytest.mark.usefixtures("pressed")
def test_f5_inside_a_second_time_starts_nothing(opened):
    def sessions():
        return must(opened.inside("sh", "/opt/dkdbg/agent.pyz", "sessions")).stdout

    # That the editor of an earlier test has left, it says a moment later.
    before = wait_for(sessions, lambda said: "attached" not in said and "stopped at" not in said)
    must(opened.f5())
    assert sessions() == before


def test_f5_inside_fails_with_the_reason_when_nothing_can_listen(opened):
    """A runtime folder of its own hides the session of another test; its port, or this one's, is taken."""
    port = launch_options(opened.root).port
    code = (
        "import socket, subprocess, sys\n"
        f"taken = socket.socket()\nif taken.connect_ex(('127.0.0.1', {port})):\n"
        f"    taken = socket.create_server(('127.0.0.1', {port}))\n"
        "sys.exit(subprocess.call(['env', 'DKDBG_RUNTIME_DIR=/tmp/other', 'sh', '.dkdbg/up.sh']))"
    )
    done = opened.inside("python3", "-c", code)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in done.stdout + done.stderr


def test_plain_compose_still_accepts_the_project(opened):
    argv = ["docker", "compose", "--profile", "debug", "config", "-q"]
    done = subprocess.run(argv, cwd=opened.root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
