"""Another container in the same network namespace, where loopback and uids are shared: the host's network, or `--network container:X`."""

import os
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from dkdbg.agent.state import procfs
from tests.agent.dap_probe import wait_for
from tests.attacks.conftest import FRAME, OtherUser
from tests.attacks.host_editor import HostEditor
from tests.attacks.test_another_user import CLIENT as SHOWS_A_TOKEN
from tests.commands import command
from tests.engine.attach_proxies import attach_proxy
from tests.far.test_relay import Far, connect, far, relay  # noqa: F401
from tests.leftovers import unique
from tests.ports import free_port

pytestmark = pytest.mark.engine
#: Attaches to each port of argv and shows no token.
CLIENT = FRAME + SHOWS_A_TOKEN.replace('dkdbgToken="TOKEN"', "")
PORT = 5678
#: A token that is not warned of.
TOKEN = "a-token-that-is-long-enough-for-a-test"


def docker(*words: str) -> str:
    done = command(["docker", *words])
    return done.stdout + done.stderr


@pytest.fixture
def attack(base_image):
    """Attach to ports of loopback from a container with this network; returns what it was told."""

    def run(network, *ports, user=0):
        hardened = ("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", str(user))
        said = docker(
            "run", "--rm", "--network", network, *hardened, base_image, "python3", "-c", CLIENT, *map(str, ports)
        )  # fmt: skip
        assert said.count("let in") + said.count("kept out") == len(ports), said
        return said

    return run


@pytest.fixture
def cgroups(tmp_path_factory):
    """Where this machine's cgroups of version 2 are, for engines that keep them beside those of version 1."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts")
    folder = tmp_path_factory.mktemp("cgroups")
    subprocess.run(["mount", "-t", "cgroup2", "none", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.fixture
def agent_of(other_user, layout):
    """Start an agent on this host as another user; returns its port."""
    with ExitStack() as stack:

        def start():
            port, settings, agent = free_port(), other_user.popen(), other_user.home / "agent.pyz"
            settings["env"] = {**settings["env"], "DKDBG_PYTHON": other_user.interpreter()}
            shutil.copyfile(layout / "agent.pyz", agent)
            words = ["sh", str(agent), "launch", "--port", str(port), "--", "sleep", "600"]
            running = subprocess.Popen(words, **settings)
            stack.callback(running.wait)
            stack.callback(running.terminate)
            wait_for(procfs.listening_ports, lambda ports: port in (ports or ()))
            return port

        yield start


def in_a_cgroup(cgroups: Path, user: OtherUser, *words: str) -> str:
    folder = cgroups / unique("dkdbg-test")
    folder.mkdir()
    try:
        waiting = subprocess.Popen(
            ["sh", "-c", 'read -r line; exec "$@"', "sh", *words], **user.popen(), text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        with waiting:
            (folder / "cgroup.procs").write_text(str(waiting.pid))
            return waiting.communicate("go\n", timeout=300)[0]
    finally:
        folder.rmdir()


@pytest.mark.attack(0)
def test_a_container_with_the_hosts_network_does_not_attach_to_an_agent_of_the_host(
    agent_of, attack, other_user, cgroups
):
    """Is root, or has the user's uid, in a container with the host's network, and attaches to an agent on the host's loopback: kept out and told why; the user, and root of the host, get in."""
    port = agent_of()
    for user in (0, other_user.uid):
        said = attack("host", port, user=user)
        assert "kept out" in said
        assert "from another container; set DKDBG_TOKEN" in said
    for words in (
        [],
        ["unshare", "--user", "--pid", "--fork", "--kill-child"],
    ):  # the latter as Flatpak and toolbox do
        assert "let in" in in_a_cgroup(
            cgroups, other_user, *words, other_user.interpreter(), "-c", CLIENT, str(port)
        )
    assert "let in" in subprocess.check_output([other_user.interpreter(), "-c", CLIENT, str(port)], text=True)


@pytest.mark.attack(0)
@pytest.mark.usefixtures("cgroups")
def test_a_container_with_the_hosts_network_does_not_attach_through_dkdbg_attach(
    launch, attack, tmp_path, monkeypatch
):
    """Connects from a container with the host's network to the port of `dkdbg attach --listen`, which proves the token for the user: kept out, and named to both."""
    monkeypatch.setenv("DKDBG_TOKEN", TOKEN)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    agent = launch("sleep", "600", env={"DKDBG_TOKEN": TOKEN}).wait_state("running")["port"]
    port = free_port(2)
    listening = ("--listen", f"127.0.0.1:{port + 1}")
    with attach_proxy(tmp_path, f"127.0.0.1:{agent}", options=listening, port=port) as proxy:
        said = attack("host", proxy.port)
        assert "kept out" in said
        assert "from another container" in said
        proxy.wait_for(lambda each: "from another container" in each["text"])
        with HostEditor(proxy.port) as mine:
            mine.attach()


@pytest.mark.attack(0)
@pytest.mark.usefixtures("cgroups")
def test_a_container_with_the_hosts_network_comes_through_no_relay(
    far,  # noqa: F811
    relay,  # noqa: F811
    base_image,
):
    """Connects from a container with the host's network to the port of a relay (`dkdbg attach ssh://...`, `forward`): closed, and nothing arrives over there."""
    port = relay.listen(far.port)
    code = f"import socket; print(socket.create_connection(('127.0.0.1', {port})).recv(1))"
    assert docker("run", "--rm", "--network", "host", base_image, "python3", "-c", code) == "b''\n"
    with connect(relay, far.port) as mine:
        there = far.accept()
        mine.sendall(b"mine")
        assert there.recv(100) == b"mine"


@pytest.mark.attack(0)
@pytest.mark.parametrize("user", [0, 61001], ids=["root", "somebody"])
def test_a_container_that_shares_the_network_of_a_container_does_not_attach(
    start_container, layout, attack, cgroups, user
):
    """Is root, or has the agent's uid, in a container with `--network container:X`, and attaches over loopback: kept out; `docker exec` and the published port get in."""
    port = free_port()
    shown = ("-v", f"{cgroups}:/cgroups:ro", "-p", f"127.0.0.1:{port}:{PORT}", "--user", str(user))
    agent = f"exec sh /opt/dkdbg/agent.pyz launch --host 0.0.0.0 --port {PORT} -- sleep 600"
    name = start_container(
        "-v", f"{layout}:/opt/dkdbg:ro", "-e", "HOME=/tmp", *shown, words=("sh", "-c", agent)
    )
    wait_for(lambda: docker("logs", name), lambda text: "a debugger can attach" in text)
    for each in (0, 61001):
        said = attack(f"container:{name}", PORT, user=each)
        assert "kept out" in said
        assert each not in (0, user) or "from outside of this container, by loopback; set" in said
    for each in (0, user):
        said = docker("exec", "--user", str(each), name, "python3", "-c", CLIENT, str(PORT))
        assert "let in" in said
    assert "let in" in subprocess.check_output(["python3", "-c", CLIENT, str(port)], text=True)
