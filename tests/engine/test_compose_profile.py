"""The debug profile of a teammate who has cloned the repository and has Docker, and nothing of dkdbg."""

import json
import os
import shutil
import socket
from pathlib import Path

import pytest

from tests.agent.dap_probe import wait_for
from tests.checkout import git
from tests.engine.attach_proxies import docker
from tests.engine.projects import (
    LOOP,
    command,
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

    def debug(self, *words, **settings):
        argv = ["docker", "compose", "--progress", "plain", "--profile", "debug", *words]
        return command(argv, self.root, env={**self.env, **settings}, check=False)

    def container(self):
        return must(self.debug("ps", "--all", "-q")).stdout.strip()


def set_up(root, files):
    repo(root, {"dkdbg.toml": f"[debug]\nport = {free_port()}\n", "requirements.txt": "# nothing\n", **files})
    must(dkdbg(root, "init", "--yes"))
    return root


@pytest.fixture(scope="module")
def teammate(base_image, tmp_path_factory):
    """The debug service, healthy, in a clone that belongs to uid 1000."""
    folder = tmp_path_factory.mktemp("team")
    author = set_up(folder / "author", {"train.py": TRAIN})
    clone = folder / unique("profile-clone")
    git(author, "add", "-A")
    git(author, "commit", "-qm", "debug")
    git(author, "clone", "-q", ".", str(clone))
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
def test_it_is_healthy_stops_at_the_breakpoint_of_the_clone_and_what_it_writes_is_its_owners(teammate):
    assert docker("inspect", "-f", "{{.State.Health.Status}}", teammate.container()) == "healthy"
    file = teammate.root / "train.py"
    stopped = stop_in(teammate.root, "train.py")
    assert (stopped.path, stopped.line) == (str(file), marked_line(file))
    assert stopped.values["loss"] == "1.0"
    wait_for((teammate.root / "made.txt").exists, bool)
    assert (teammate.root / "made.txt").stat().st_uid == teammate.root.stat().st_uid


@pytest.mark.core
def test_ports_are_published_on_loopback_and_neither_a_neighbour_nor_bare_probes_hinder_an_editor(teammate):
    ports = json.loads(docker("inspect", "-f", "{{json .NetworkSettings.Ports}}", teammate.container()))
    assert {each["HostIp"] for bindings in ports.values() for each in bindings or ()} == {"127.0.0.1"}
    port = launch_options(teammate.root).port
    network = f"{teammate.root.name}_default"
    said = docker("run", "--rm", "--network", network, teammate.base, "python3", "-c", NEIGHBOUR, str(port))
    assert said == "answer 0"
    wait_for(lambda: "refused a connection" in must(teammate.debug("logs")).stdout, bool)
    for _ in range(100):
        socket.create_connection(("127.0.0.1", port), 5).close()
    stop_in(teammate.root, "train.py")


def test_how_the_program_or_its_wait_ends_is_the_exit_code(base_image, tmp_path):
    """In one project: what the program does is in the file `mode`."""
    mate = Teammate(set_up(tmp_path / unique("profile-ends"), {"train.py": ENDS}), base_image)

    def starts(mode, **settings):
        (mate.root / "mode").write_text(mode)
        must(mate.debug("up", "--detach", "--build", **settings))

    def ends(code):
        assert int(docker("wait", mate.container())) == code
        must(mate.debug("down", "-t", "2"))

    def stop():
        docker("stop", "--time", "200", mate.container())

    try:
        starts("exit", DKDBG_WAIT="0")
        ends(3)
        starts("serve", DKDBG_WAIT="0")
        wait_for((mate.root / "ready").exists, bool)
        stop()
        ends(7)  # the handler's; 137 would mean that the engine lost patience
        starts("exit", DKDBG_WAIT="600")
        wait_for(lambda: "waiting for a debugger" in mate.debug("logs").stdout, bool)
        stop()
        ends(143)
        starts("serve", DKDBG_WAIT="1")  # an editor that never comes
        ends(124)
        must(dkdbg(mate.root, "init", "--yes", "--command", "no-such-command --epochs 1"))
        assert (
            mate.debug("up", "--build", "--detach", "--wait", DKDBG_WAIT="0").returncode != 0
        )  # never healthy
        assert "command not found: no-such-command" in must(mate.debug("logs")).stdout
        ends(127)
    finally:
        take_away(mate.root, mate.env)
