"""The debug profile of a teammate who has cloned the repository and has Docker, and nothing of dkdbg."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.engine.projects import (
    LOOP,
    dkdbg,
    launch_options,
    marked_line,
    must,
    repo,
    stop_in,
    take_away,
    unique,
)
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("compose-profile")]

TRAIN = LOOP.replace("for n in range(", 'open("made.txt", "w").close()\n        for n in range(', 1)
#: What the program does is in the file `mode`, so that one image serves all tests of its end.
ENDS = """\
    import pathlib
    import signal
    import sys
    import time

    if pathlib.Path("mode").read_text() == "exit":
        sys.exit(3)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    pathlib.Path("ready").touch()
    while True:
        time.sleep(0.1)
    """
NEIGHBOUR = """
import json, socket, sys
sock = socket.create_connection(("app-debug", int(sys.argv[1])), 300)
request = {"seq": 1, "type": "request", "command": "initialize", "arguments": {"adapterID": "debugpy"}}
body = json.dumps(request).encode()
try:
    sock.sendall(b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
    print("answer", len(sock.recv(1)))
except ConnectionError:
    print("answer 0")
"""


class Teammate:
    """A checkout, and compose as a person without dkdbg types it there."""

    def __init__(self, root, base):
        self.root, self.base = root, base
        plain = [folder for folder in os.environ["PATH"].split(":") if not Path(folder, "dkdbg").exists()]
        self.env = {**os.environ, "DKDBG_BASE": base, "PATH": ":".join(plain)}

    def compose(self, *words, **settings):
        argv = ["docker", "compose", "--progress", "plain", *words]
        env = {**self.env, **settings}
        return subprocess.run(
            argv, cwd=self.root, env=env, capture_output=True, text=True, check=False, timeout=300
        )

    def debug(self, *words, **settings):
        return self.compose("--profile", "debug", *words, **settings)

    def container(self):
        return must(self.debug("ps", "--all", "-q")).stdout.strip()

    def exit_code(self):
        """The container's exit code, once it has one."""
        return int(docker("wait", self.container()))


def docker(*words):
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False, timeout=300)
    return must(done).stdout


def until(is_done, what):
    """Wait for a condition in the world."""
    end = time.monotonic() + 300
    while not is_done():
        assert time.monotonic() < end, f"waited 300 s for {what}"
        time.sleep(0.05)


def set_up(root, files, *init):
    repo(root, {"dkdbg.toml": f"[debug]\nport = {free_port()}\n", "requirements.txt": "# nothing\n", **files})
    must(dkdbg(root, "init", "--yes", *init))
    return root


@contextmanager
def project(base, root, files, *init):
    """A repository that is set up, as a teammate has it; taken away at the end."""
    mate = Teammate(set_up(root, files, *init), base)
    try:
        yield mate
    finally:
        take_away(root, mate.env)


@pytest.fixture(scope="module")
def teammate(base_image, tmp_path_factory):
    """The debug service, healthy, in a clone that belongs to uid 1000."""
    folder = tmp_path_factory.mktemp("team")
    author = set_up(folder / "author", {"train.py": TRAIN})
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    clone = folder / unique("profile-clone")
    for argv in (
        [*git, "add", "-A"],
        [*git, "commit", "-qm", "debug"],
        ["git", "clone", "-q", ".", str(clone)],
    ):
        subprocess.run(argv, cwd=author, check=True)
    if os.geteuid() == 0:
        for path in (clone, *clone.rglob("*")):
            os.chown(path, 1000, 1000)
    mate = Teammate(clone, base_image)
    assert shutil.which("dkdbg", path=mate.env["PATH"]) is None
    try:
        must(mate.debug("up", "--build", "--detach", "--wait"))
        yield mate
    finally:
        take_away(clone, mate.env)


@pytest.mark.core
def test_it_is_healthy_and_stops_at_the_breakpoint_of_the_clone(teammate):
    assert docker("inspect", "-f", "{{.State.Health.Status}}", teammate.container()).strip() == "healthy"
    stopped = stop_in(teammate.root, "train.py")
    assert (stopped.path, stopped.line) == (
        str(teammate.root / "train.py"),
        marked_line(teammate.root / "train.py"),
    )


@pytest.mark.core
def test_ports_are_published_on_loopback_only(teammate):
    ports = json.loads(docker("inspect", "-f", "{{json .NetworkSettings.Ports}}", teammate.container()))
    assert {each["HostIp"] for bindings in ports.values() for each in bindings or ()} == {"127.0.0.1"}


@pytest.mark.core
def test_a_neighbour_on_the_network_is_refused_while_the_host_attaches(teammate):
    port = str(launch_options(teammate.root).port)
    network = f"{teammate.root.name}_default"
    said = docker("run", "--rm", "--network", network, teammate.base, "python3", "-c", NEIGHBOUR, port)
    assert said.strip() == "answer 0"
    until(lambda: "refused a connection" in must(teammate.debug("logs")).stdout, "the refusal in its log")
    stop_in(teammate.root, "train.py")


def test_bare_probes_do_not_deafen_it(teammate):
    port = launch_options(teammate.root).port
    for _ in range(100):
        socket.create_connection(("127.0.0.1", port), 5).close()
    stop_in(teammate.root, "train.py")


@pytest.mark.core
def test_what_the_program_writes_belongs_to_the_owner_of_the_clone(teammate):
    stop_in(teammate.root, "train.py")
    until((teammate.root / "made.txt").exists, "the program's file")
    assert (teammate.root / "made.txt").stat().st_uid == teammate.root.stat().st_uid


def test_without_the_profile_only_the_own_service_starts(base_image, tmp_path):
    own = f"services:\n  trainer:\n    image: {base_image}\n    command: sleep 600\n    init: true\n    volumes: ['.:/code']\n"
    files = {"train.py": LOOP, "compose.yaml": own}
    root = tmp_path / unique("profile-own")
    with project(base_image, root, files, "--command", "python3 train.py") as mate:
        assert must(mate.compose("config", "--services")).stdout.split() == ["trainer"]
        must(mate.compose("up", "--detach"))
        assert must(mate.debug("ps", "--all", "--services")).stdout.split() == ["trainer"]


def test_a_command_that_does_not_exist_is_never_healthy_and_says_why(base_image, tmp_path):
    root, command = tmp_path / unique("profile-missing"), "no-such-command --epochs 1"
    with project(base_image, root, {"train.py": LOOP}, "--command", command) as mate:
        assert mate.debug("up", "--build", "--detach", "--wait", DKDBG_WAIT="0").returncode != 0
        assert mate.exit_code() == 127
        assert "command not found: no-such-command" in must(mate.debug("logs")).stdout


@pytest.fixture(scope="module")
def ends(base_image, tmp_path_factory):
    """A built debug service whose program ends in the way that the file `mode` says."""
    root = tmp_path_factory.mktemp("ends") / unique("profile-ends")
    with project(base_image, root, {"ends.py": ENDS}, "--command", "python3 ends.py") as mate:
        must(mate.debug("build"))
        yield mate


@pytest.fixture
def starts(ends):
    """Starts the program in a mode; the container is removed afterwards."""

    def start(mode, **settings):
        (ends.root / "mode").write_text(mode)
        must(ends.debug("up", "--detach", **settings))

    yield start
    must(ends.debug("down", "-t", "2"))


def test_the_exit_code_of_the_program_is_the_containers(ends, starts):
    starts("exit", DKDBG_WAIT="0")
    assert ends.exit_code() == 3


def test_docker_stop_ends_the_program_by_sigterm(ends, starts):
    starts("serve", DKDBG_WAIT="0")
    until((ends.root / "ready").exists, "the program's start")
    docker("stop", "--time", "200", ends.container())
    assert ends.exit_code() == 7  # the handler's; 137 would mean that the engine lost patience


def test_docker_stop_ends_a_service_that_waits_for_an_editor(ends, starts):
    starts("exit", DKDBG_WAIT="600")
    until(lambda: "waiting for a debugger" in ends.debug("logs").stdout, "the wait")
    docker("stop", "--time", "200", ends.container())
    assert ends.exit_code() == 143


def test_an_editor_that_never_comes_ends_it_with_124(ends, starts):
    starts("serve", DKDBG_WAIT="1")
    assert ends.exit_code() == 124
