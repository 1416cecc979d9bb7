"""Reopen in Container, by the real dev container CLI: the right user, the repository's files, and F5 inside.

A repository whose image runs as root, and that belongs to root: test_token.py.
"""

import json
import os
import subprocess
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

import dkdbg
from tests.agent.dap_probe import wait_for
from tests.engine.attach_proxies import docker
from tests.engine.devcontainer_cli import devcontainer_cli
from tests.engine.projects import (
    LOOP,
    launch_options,
    marked_line,
    must,
    repo,
    stop_in,
    stopped_in,
    take_away,
    unique,
)
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
#: A session of another project holds the port, or this line does.
TAKEN = (
    "import socket, subprocess, sys\n"
    "taken = socket.socket()\nif taken.connect_ex(('127.0.0.1', {port})):\n"
    "    taken = socket.create_server(('127.0.0.1', {port}))\n"
    "sys.exit(subprocess.call(['env', 'DKDBG_RUNTIME_DIR=/tmp/other', 'sh', '.dkdbg/up.sh']))"
)
OWN_USER = """\
    FROM {base}
    RUN useradd --create-home --uid 1234 trainer
    WORKDIR /srv/code
    COPY code .
    USER trainer
    CMD ["python3", "train.py"]
    """
BARE = {"train.py": LOOP, "requirements.txt": "# nothing\n"}
OWN = {
    "code/train.py": LOOP,
    "Dockerfile": OWN_USER,
    "docker-compose.yml": "services:\n  trainer:\n    build: .\n",
    ".env": "DKDBG_PORT={other}\n",  # as `dkdbg up` leaves it when the plan's port is taken
}
SECOND = {".devcontainer/devcontainer.json": json.dumps({"image": "python:3.11"})}


class DevContainer:
    """A repository open in its dev container."""

    def __init__(self, cli, root, config=".devcontainer/devcontainer.json"):
        self.cli, self.root = cli, root
        self.where = ["--workspace-folder", str(root), "--config", str(root / config)]
        self.id, self.folder = "", ""

    def devcontainer(self, command, *words):
        argv = [self.cli, command, *self.where, *words]
        return subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)

    def up(self):
        state = json.loads(must(self.devcontainer("up")).stdout.splitlines()[-1])
        self.id, self.folder = state["containerId"], state["remoteWorkspaceFolder"]

    def inside(self, *words):
        return self.devcontainer("exec", *words)

    def f5(self):
        return self.inside("python3", "-c", TERMINAL, "sh", ".dkdbg/up.sh")

    def stops_inside(self, file):
        """Attach inside, where the package is copied to: path and line of the stop, and the loss."""
        docker("exec", self.id, "mkdir", "-p", "/tmp/client")
        docker("cp", str(Path(dkdbg.__file__).parent), f"{self.id}:/tmp/client/dkdbg")
        options = asdict(launch_options(self.root, self.folder))
        argument = json.dumps([options, f"{self.folder}/{file}", marked_line(self.root / file)])
        done = must(self.inside("env", "PYTHONPATH=/tmp/client", "python3", "-c", ATTACH, argument))
        return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def dev_container(cli, root, env, **more):
    """What opens the repository in its dev container; all that was made of it is taken away."""
    try:
        yield DevContainer(cli, root, **more)
    finally:
        take_away(root, env)
        if images := docker("images", "-q", "--filter", f"reference=vsc-{root.name}-*").split():
            docker("rmi", "-f", *images, check=False)


@pytest.mark.parametrize(
    ("files", "file", "config", "owner"),
    [
        (BARE, "train.py", ".devcontainer/devcontainer.json", 1000),
        ({**OWN, **SECOND}, "code/train.py", ".devcontainer/dkdbg/devcontainer.json", 1000),
        (OWN, "code/train.py", ".devcontainer/devcontainer.json", 0),
    ],
    ids=["bare", "own-user-and-a-second-configuration", "own-user-of-roots"],
)
def test_the_repository_is_open_in_it_as_its_owner_and_f5_inside_stops_and_says_why_when_it_cannot(
    devcontainer_cli, base_image, tmp_path, monkeypatch, *, files, file, config, owner
):
    """The repository belongs to somebody on the host; only root can try two owners."""
    if os.geteuid() and owner != os.geteuid():
        pytest.skip("only root can give a folder away")
    other = str(free_port())
    texts = {
        name: text.replace("{base}", base_image).replace("{other}", other) for name, text in files.items()
    }
    root = repo(tmp_path / unique("dc"), {**texts, "dkdbg.toml": f"[debug]\nport = {free_port()}\n"})
    must(run_dkdbg(root, "init", "--yes"))
    for path in (root, *root.rglob("*")):
        os.chown(path, owner, owner)
    monkeypatch.setenv("DKDBG_BASE", base_image)
    with dev_container(devcontainer_cli, root, {}, config=config) as opened:
        opened.up()
        # The editor forwards ports: two dev containers, or one and a debug service elsewhere, do not fight over 5678.
        bound = docker("inspect", "-f", "{{json .HostConfig.PortBindings}}", opened.id)
        assert bound.strip() in ("{}", "null")
        code = f"import os, sys; os.stat({file!r}); print(os.getcwd(), sys.version_info >= (3, 8))"
        shell = f'touch made && mkdir runs && touch ~/.mark && python3 -c "{code}"'
        assert must(opened.inside("sh", "-c", shell)).stdout.split() == [opened.folder, "True"]
        assert {(root / name).stat().st_uid for name in ("made", "runs")} == {owner}

        must(opened.f5())
        there = [f"{opened.folder}/{file}", marked_line(root / file), "1.0"]
        assert opened.stops_inside(file) == there

        def sessions():
            return must(opened.inside("sh", "/opt/dkdbg/agent.pyz", "sessions")).stdout

        # That the editor has left, it says a moment later.
        before = wait_for(sessions, lambda said: "attached" not in said and "stopped at" not in said)
        must(opened.f5())
        assert sessions() == before  # nothing was started

        port = launch_options(root).port
        done = opened.inside("python3", "-c", TAKEN.format(port=port))
        assert done.returncode == 1
        assert f"cannot listen on 127.0.0.1:{port}" in done.stdout + done.stderr


def test_the_service_on_the_host_and_the_dev_container_take_nothing_from_each_other(
    devcontainer_cli, base_image, tmp_path, monkeypatch
):
    """In either order, and beside what is left of the host's; an editor of the host's stays attached."""
    monkeypatch.setenv("DKDBG_BASE", base_image)
    root = repo(tmp_path / unique("both"), {**BARE, "dkdbg.toml": f"[debug]\nport = {free_port()}\n"})
    must(run_dkdbg(root, "init", "--yes"))
    file = root / "train.py"

    def f5():
        must(subprocess.run(["sh", ".dkdbg/up.sh"], cwd=root, capture_output=True, text=True, check=False))

    def on_the_host():
        return docker(
            "compose", "--project-directory", str(root), "--profile", "debug", "ps", "-aq", "app-debug"
        )

    with dev_container(devcontainer_cli, root, {}) as opened:

        def is_there():
            """It is the one that was opened, and it still has the repository."""
            assert opened.id.startswith(
                must(opened.inside("sh", "-c", "touch made && hostname")).stdout.strip()
            )
            (root / "made").unlink()

        opened.up()
        f5()
        assert stop_in(root, "train.py").line == marked_line(file)
        is_there()
        docker("rm", "-f", opened.id)
        before = on_the_host()
        with stopped_in(file, launch_options(root)) as (debugger, stop):
            opened.up()
            is_there()
            debugger.continue_(stop)
            debugger.wait_stopped(300)
        assert on_the_host() == before
        f5()  # and the host again, beside it
        is_there()
        must(run_dkdbg(root, "up"))
        docker("stop", "-t", "2", before)
        docker("rm", "-f", opened.id)
        opened.up()  # beside the container that is left over
        f5()
        assert stop_in(root, "train.py").line == marked_line(file)
        must(run_dkdbg(root, "down"))
        is_there()
