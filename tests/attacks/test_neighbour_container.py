"""A neighbour container on the same Docker network, which the agent lets connect (DKDBG_ALLOW) or not.

It reaches the host by the network's gateway.
"""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.agent.dap_probe import Editor, wait_for
from tests.attacks.conftest import FRAME
from tests.commands import command, must
from tests.engine.attach_proxies import docker
from tests.leftovers import unique
from tests.ports import free_port

pytestmark = pytest.mark.engine
TOKEN = "a-token-that-nobody-guesses"
LOOP = "import time\nn = 0\nwhile True:\n    n += 1\n    time.sleep(0.02)\n"
#: What each attack begins with.
SPEAK = """
def dial():
    return socket.create_connection((HOST, 5678), timeout=60)
def tell(*frames):
    return ask(5678, b"".join(frames), host=HOST, timeout=60, ends=True)
"""


class Victim:
    """A container with an agent, published on this machine's loopback as a debug service is."""

    def __init__(self, name: str, network: str, port: int) -> None:
        self.name, self.network, self.port = name, network, port

    def attack(self, code: str) -> str:
        return f"HOST = {self.name!r}\n{SPEAK}{code}"

    @contextmanager
    def besieged(self, code: str, image: str) -> Iterator[None]:
        """While a neighbour runs code; it has said a line by then."""
        program = ("python3", "-c", FRAME + self.attack(code))
        words = ["docker", "run", "--rm", "-i", "--network", self.network, image, *program]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as attacker:
            assert attacker.stdout.readline() == "holds\n"
            yield
            attacker.communicate("", timeout=300)

    def is_debuggable(self) -> None:
        """An editor with the token comes through the published port, and stops."""
        with Editor(self.port, {"/w/train.py": [4]}, token=TOKEN) as editor:
            assert editor.wait_stops(1, 300)[0]["line"] == 4


@pytest.fixture
def network():
    name = unique("dkdbg-attack")
    docker("network", "create", name)
    yield name
    subprocess.run(["docker", "network", "rm", name], check=False, capture_output=True)


@pytest.fixture
def container(network, start_container, layout, tmp_path):
    """Start a program under the agent in a container of that network; returns its name."""

    def start(program, *options, env=(), on=network, flags=()):
        (tmp_path / "train.py").write_text(program)
        mounts = ("-v", f"{tmp_path}:/w", "-v", f"{layout}:/opt/dkdbg:ro", "-w", "/w")
        variables = [word for each in env for word in ("-e", each)]
        agent = ("sh", "/opt/dkdbg/agent.pyz", "launch", *options, "--", "python3", "train.py")
        return start_container("--network", on, *mounts, *variables, *flags, words=agent)

    return start


@pytest.fixture
def victim(container, network):
    port = free_port()
    environment = ("DKDBG_HOST=0.0.0.0", "DKDBG_ALLOW=any", f"DKDBG_TOKEN={TOKEN}")
    name = container(LOOP, "--wait", "0", env=environment, flags=("-p", f"127.0.0.1:{port}:5678"))
    wait_for(lambda: logs(name), lambda text: "a debugger can attach" in text)
    return Victim(name, network, port)


@pytest.mark.attack(9)
def test_a_malformed_initialize_does_not_reach_debugpy(victim, neighbour, network):
    """Sends `initialize` with `arguments: []`, again and again: refused, the adapter lives, and the run can be debugged."""
    attack = victim.attack(
        "for shape in ([], 'x', 5, True, [[]], 1.5, [{}]):\n"
        "    print(tell(frame(seq=1, command='initialize', arguments=shape)).decode())\n"
        "for shape in ([], {'restart': [], 'terminateDebuggee': {}}):\n"
        "    first = frame(seq=1, command='initialize', arguments={'clientID': {}, 'supports': [1], 'x' * 999: 1})\n"
        "    print(tell(first, frame(seq=2, command='disconnect', arguments=shape)).decode())\n"
        "for shape in ([], 5, {'connect': 5, 'subProcessId': []}):\n"
        "    first = frame(seq=1, command='initialize', arguments={})\n"
        "    print(tell(first, frame(seq=2, command='attach', arguments=shape)).decode())\n"
    )
    assert must(neighbour(network, attack)).stdout.count("must be an object") >= 7
    victim.is_debuggable()
    assert "adapter died" not in logs(victim.name)


#: Types lines into pdb at a host, or the gateway where that is empty. Tries for so many seconds to connect.
TYPES = """
REFUSED = b"ConnectionRefusedError"
if not host:
    for line in open("/proc/net/route"):
        words = line.split()
        if words[1] == "00000000":
            host = socket.inet_ntoa(struct.pack("=I", int(words[2], 16)))
end = time.monotonic() + limit
while REFUSED in (said := ask(port, lines.encode(), until=b"(dkdbg) ", host=host, timeout=60)) and time.monotonic() < end:
    time.sleep(0.1)
print("not let in" if REFUSED in said else said.decode())
"""


def typing(host, port, limit, lines):
    return f"host, port, limit, lines = {host!r}, {port}, {limit}, {lines!r}\n{TYPES}"


def ended(name: str) -> tuple[int, str]:
    return int(docker("wait", name)), logs(name)


def logs(name: str) -> str:
    done = command(["docker", "logs", name])
    return done.stdout + done.stderr


@pytest.mark.attack(10)
def test_pdb_beyond_loopback_is_not_started_without_a_token(container):
    """Waits for `launch --pdb 0.0.0.0:PORT` in the container beside: it ends with the way to do it, and no port opens."""
    for options, env in ((("--pdb", "0.0.0.0:4444"), ()), ((), ("DKDBG_PDB=0.0.0.0:4444",))):
        code, said = ended(container("print('it has started')\n", "--wait", "60", *options, env=env))
        assert code == 2
        assert "set DKDBG_TOKEN to a secret" in said
        assert "it has started" not in said


@pytest.mark.attack(10)
def test_settrace_beyond_loopback_opens_nothing_without_a_token(container, neighbour, network, tmp_path):
    """Types Python into the port of `settrace('0.0.0.0', PORT)` in the container beside: there is none without a token."""
    calls = "".join(
        f"try: {module}.settrace('0.0.0.0', 4444, timeout=20)\nexcept BaseException as error: print(error, flush=True)\n"
        for module in ("dkdbg", "dkdbg.pai")
    )
    name = container(f"import time, dkdbg.pai\n{calls}print('on', flush=True)\ntime.sleep(600)\n")
    said = wait_for(lambda: logs(name), lambda text: "on\n" in text)
    assert said.count("set DKDBG_TOKEN to a secret") >= 2
    code = typing(name, 4444, 1, "!open('/w/taken', 'w').close()\n" * 2)
    assert "not let in" in neighbour(network, code).stdout
    assert not (tmp_path / "taken").exists()


@pytest.mark.attack(10)
def test_with_a_token_only_who_knows_it_is_let_in(container, neighbour, network, tmp_path):
    """Types Python into pdb on 0.0.0.0 of the container beside, which has a token: closed; with the token it is served."""
    options, env = ("--wait", "300", "--pdb", "0.0.0.0:4444"), ("DKDBG_TOKEN=geheim",)
    name = container("print('ran')\n", *options, env=env)
    line = "!open('/w/taken', 'w').close()\n"
    said = neighbour(network, typing(name, 4444, 120, line * 3)).stdout
    assert "(dkdbg) " not in said
    assert not (tmp_path / "taken").exists()
    said = neighbour(network, typing(name, 4444, 120, "geheim\n" + line)).stdout
    assert "(dkdbg) " in said


@pytest.mark.attack(10)
@pytest.mark.parametrize("way", ["launch", "settrace"])
def test_pdb_of_the_host_is_not_reached_by_the_gateway(launch, neighbour, network, tmp_path, way):
    """Types Python into a pdb that listens on 0.0.0.0 of the host: refused where it would be opened."""
    port, opened = free_port(), tmp_path / "taken"
    address = f"0.0.0.0:{port}"
    call = f"import dkdbg\ndkdbg.settrace('0.0.0.0', {port}, timeout=20)\n" if way == "settrace" else ""
    (tmp_path / "train.py").write_text(call + "breakpoint()\nprint('ran')\n")
    options = ("--pdb", address) if way == "launch" else ()
    running = launch(sys.executable, "train.py", wait="20" if options else "0", options=options)
    lines = f"!open({str(opened)!r}, 'w').close()\n"
    said = neighbour(network, typing("", port, 2, lines * 2)).stdout
    assert "not let in" in said
    assert not opened.exists()
    code, out, err = running.finish()
    assert "set DKDBG_TOKEN to a secret" in err
    assert (code, out) == ((0, "ran\n") if way == "settrace" else (2, ""))


@pytest.mark.attack(10)
def test_the_listener_on_a_plain_host_or_its_network_needs_a_token(launch, container):
    """Waits for `launch --host 0.0.0.0` on a plain host, or in a container with the host's network: it ends, with the way."""
    running = launch(sys.executable, "-c", "print('ran')", options=("--host", "0.0.0.0"))
    code, out, err = running.finish()
    assert (code, out) == (2, "")
    assert "set DKDBG_TOKEN to a secret" in err
    environment = ("DKDBG_HOST=0.0.0.0", f"DKDBG_PORT={free_port()}")
    code, said = ended(container("print('ran')\n", env=environment, on="host"))
    assert code == 2
    assert "set DKDBG_TOKEN to a secret" in said
    code, said = ended(container("print('ran')\n", env=environment))  # where Docker publishes to it
    assert (code, "ran" in said) == (0, True), said
    running = launch(
        sys.executable, "-c", "print('ran')", options=("--host", "0.0.0.0"), env={"DKDBG_TOKEN": "geheim"}
    )
    running.ends(0, "ran\n")


@pytest.mark.attack(15)
def test_a_neighbour_that_fills_the_port_keeps_nobody_out(victim, base_image):
    """Holds 90 silent and 90 initialized connections and guesses tokens: /healthz answers, and the right token gets in."""
    code = (
        "held = [dial() for _ in range(90)]\n"
        "for _ in range(90):\n"
        "    sock = dial()\n"
        "    sock.sendall(frame(seq=1, command='initialize', arguments={}))\n"
        "    held.append(sock)\n"
        "for number in range(30):\n"
        "    sock = dial()\n"
        "    sock.sendall(attach(dkdbgToken=str(number)))\n"
        "    held.append(sock)\n"
        "print('holds', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with victim.besieged(code, base_image):
        with urllib.request.urlopen(f"http://127.0.0.1:{victim.port}/healthz", timeout=300) as answer:
            assert json.load(answer)["state"] == "running"
        victim.is_debuggable()
    assert "adapter died" not in logs(victim.name)
