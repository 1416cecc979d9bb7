"""A neighbour container on the same Docker network, which the agent lets connect (DKDBG_ALLOW)."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.agent.dap_probe import Editor, wait_for
from tests.engine.host_doors import docker
from tests.engine.projects import unique
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.engine
TOKEN = "a-token-that-nobody-guesses"
LOOP = "import time\nn = 0\nwhile True:\n    n += 1\n    time.sleep(0.02)\n"
#: What each attack begins with.
SPEAK = """
import json, socket, sys, time
def frame(**message):
    body = json.dumps(dict(message, type="request")).encode()
    return b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body
def dial():
    return socket.create_connection((HOST, 5678), timeout=10)
def tell(*frames):
    data = b""
    try:
        with dial() as sock:
            sock.sendall(b"".join(frames))
            sock.shutdown(socket.SHUT_WR)
            while True:
                more = sock.recv(65536)
                if not more:
                    break
                data += more
    except OSError as error:
        data += str(error).encode()
    return data
"""


class Victim:
    """A container with an agent, published on this machine's loopback as a debug service is."""

    def __init__(self, name: str, network: str, port: int) -> None:
        self.name, self.network, self.port = name, network, port
        self.attack: Callable[[str], str]

    def logs(self) -> str:
        """What the agent has said."""
        done = subprocess.run(["docker", "logs", self.name], capture_output=True, text=True, check=True)
        return done.stderr

    def is_debuggable(self) -> None:
        """An editor with the token comes through the published port, and stops."""
        with Editor(self.port, {"/work/train.py": [4]}, token=TOKEN) as editor:
            assert editor.wait_stops(1)[0]["line"] == 4


@pytest.fixture
def victim(base_image: str, layout: Path, tmp_path: Path, neighbour) -> Iterator[Victim]:
    name, port = unique("dkdbg-victim"), free_port()
    work = tmp_path / "work"
    work.mkdir()
    (work / "train.py").write_text(LOOP)
    docker("network", "create", name)
    with ExitStack() as stack:
        stack.callback(docker, "network", "rm", name)
        environment = {"DKDBG_HOST": "0.0.0.0", "DKDBG_ALLOW": "any", "DKDBG_TOKEN": TOKEN}
        docker(
            "run", "--detach", "--name", name, "--network", name, "--publish", f"127.0.0.1:{port}:5678",
            "--volume", f"{layout}:/opt/dkdbg:ro", "--volume", f"{work}:/work", "--workdir", "/work",
            *(word for item in environment.items() for word in ("--env", "=".join(item))),
            base_image, "/opt/dkdbg/agent.pyz", "launch", "--wait", "0", "--", "python3", "train.py",
        )  # fmt: skip
        stack.callback(docker, "rm", "--force", "--volumes", name)
        one = Victim(name, name, port)
        wait_for(one.logs, lambda text: "a debugger can attach" in text)

        def attack(code: str) -> str:
            done = neighbour(name, f"HOST = {name!r}\n{SPEAK}{code}")
            assert done.returncode == 0, done.stderr
            return str(done.stdout)

        one.attack = attack
        yield one


@pytest.mark.attack(9)
def test_an_introduction_of_the_wrong_shape_does_not_reach_debugpy(victim: Victim) -> None:
    """Sends `initialize` with `arguments: []`, again and again: refused, the adapter lives, and the run can be debugged."""
    said = victim.attack(
        "for shape in ([], 'x', 5, True, [[]], 1.5, [{}]):\n"
        "    print(tell(frame(seq=1, command='initialize', arguments=shape)).decode())\n"
        "for shape in ([], {'restart': [], 'terminateDebuggee': {}}):\n"
        "    first = frame(seq=1, command='initialize', arguments={'clientID': {}, 'supports': [1], 'x' * 999: 1})\n"
        "    print(tell(first, frame(seq=2, command='disconnect', arguments=shape)).decode())\n"
        "for shape in ([], 5, {'connect': 5, 'subProcessId': []}):\n"
        "    first = frame(seq=1, command='initialize', arguments={})\n"
        "    print(tell(first, frame(seq=2, command='attach', arguments=shape)).decode())\n"
    )
    assert said.count("is an object") >= 7
    victim.is_debuggable()
    assert "adapter died" not in victim.logs()
