"""Another container in the same network namespace, where loopback and uids are shared: the host's network, or a pod's."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from dkdbg.agent.record import procfs
from tests.agent.dap_probe import wait_for
from tests.attacks.test_another_user import CLIENT as SHOWS_A_TOKEN
from tests.engine.host_doors import host_door
from tests.leftovers import unique
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.engine
#: Options of `docker run` and `docker exec`: these users are tried.
ROOT, SOMEBODY = ("--user", "0"), ("--user", "61001")
#: Attaches to each port of argv and shows no token.
CLIENT = SHOWS_A_TOKEN.replace('"dkdbgToken": "TOKEN"', "")
#: Hides the descriptors of a process from others of its user (prctl(2), PR_SET_DUMPABLE).
UNREADABLE = "import ctypes; assert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0\n"
PORT = 5678


def docker(*words: str) -> str:
    done = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture
def attaches(base_image: str) -> Callable[..., bool]:
    """Tell whether a container with this network that attaches to ports of loopback is let in at one."""

    def attack(network: str, *ports: int, user: tuple[str, ...] = ROOT) -> bool:
        hardened = ("--cap-drop", "ALL", "--security-opt", "no-new-privileges")
        words = ["run", "--rm", "--network", network, *hardened, *user, base_image, "python3", "-c", CLIENT]
        said = docker(*words, *map(str, ports))
        assert said.count("let in") + said.count("kept out") == len(ports), said
        return "let in" in said

    return attack


@pytest.fixture
def agent_of(other_user, layout: Path) -> Iterator[Callable[[], int]]:
    """Start an agent on this host as another user; returns its port."""
    with ExitStack() as stack:

        def start() -> int:
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


@pytest.mark.attack(0)
def test_a_container_with_the_hosts_network_does_not_attach_to_an_agent_of_the_host(
    agent_of, attaches, other_user
) -> None:
    """Is root, or has the user's uid, in a container with the host's network, and attaches to an agent on the host's loopback: kept out, and the user gets in."""
    port = agent_of()
    for user in (ROOT, ("--user", str(other_user.uid))):
        assert not attaches("host", port, user=user)
    assert "let in" in other_user.python(CLIENT, str(port)).stdout


@pytest.mark.attack(0)
def test_a_container_with_the_hosts_network_does_not_attach_through_dkdbg_attach(
    launch, attaches, tmp_path: Path, monkeypatch
) -> None:
    """Connects from a container with the host's network to the port of `dkdbg attach --listen`, which proves the token for the user: closed."""
    monkeypatch.setenv("DKDBG_TOKEN", "a-token-that-is-long-enough-for-a-test")
    agent = launch("sleep", "600").wait_state("running")["port"]
    with host_door(tmp_path, f"127.0.0.1:{agent}", options=("--listen", f"127.0.0.1:{free_port()}")) as door:
        assert not attaches("host", door.port)
        said = wait_for(
            lambda: " ".join(each["text"] for each in [*door.events]), lambda text: "in a container" in text
        )
        assert "refused a connection" in said
        mine = subprocess.run(
            ["python3", "-c", CLIENT, str(door.port)], capture_output=True, text=True, check=False
        )
        assert "let in" in mine.stdout


@contextmanager
def pod(base_image: str, layout: Path, *flags: str) -> Iterator[str]:
    """A container with an agent and no token; its name."""
    name = unique("dkdbg-pod")
    words = [
        "run",
        "-d",
        "--name",
        name,
        "-v",
        f"{layout}:/opt/dkdbg:ro",
        "-e",
        "HOME=/tmp",
        *flags,
        base_image,
    ]
    docker(
        *words,
        "sh",
        "/opt/dkdbg/agent.pyz",
        "launch",
        "--host",
        "0.0.0.0",
        "--port",
        str(PORT),
        "--",
        "sleep",
        "600",
    )
    try:
        wait_for(lambda: docker("logs", name), lambda text: "a debugger can attach" in text)
        yield name
    finally:
        docker("rm", "-f", "-v", name)


@pytest.mark.attack(0)
@pytest.mark.parametrize("user", [ROOT, SOMEBODY], ids=["root", "somebody"])
def test_a_sidecar_does_not_attach_without_a_token(base_image: str, layout: Path, attaches, user) -> None:
    """Is root, or has the agent's uid, in another container of the same pod, and attaches over its loopback: kept out; who comes by `docker exec` or the published port gets in."""
    port = free_port()
    with pod(base_image, layout, *user, "-p", f"127.0.0.1:{port}:{PORT}") as name:
        for each in (ROOT, SOMEBODY):
            assert not attaches(f"container:{name}", PORT, user=each)
        for each in (ROOT, user):
            for code in (CLIENT, UNREADABLE + CLIENT):
                assert "let in" in docker("exec", *each, name, "python3", "-c", code, str(PORT))
        done = subprocess.run(
            ["python3", "-c", CLIENT, str(port)], capture_output=True, text=True, check=False
        )
        assert "let in" in done.stdout
