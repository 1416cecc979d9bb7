"""Another user of the same machine: he reads /proc and connects to whatever listens on loopback."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.agent.dap_probe import Editor
from tests.agent.nc import PROMPT, Client
from tests.attacks import listening
from tests.attacks.host_editor import HostEditor
from tests.attacks.test_web_page import WAYS, await_port, start, use
from tests.engine.host_doors import host_door
from tests.ports import free_port

FAKE = (Path(__file__).parent / "fake_agent.py").read_text()


def ports_of(pid: int) -> list[int]:
    """The TCP ports of this process and of all below it, which any user finds in /proc/net/tcp."""
    return [int(one.address.rpartition(":")[2]) for one in listening.of(pid) if one.kind == "tcp"]


#: Speaks DAP to each port of argv, shows no token, and prints what he is let in to.
CLIENT = """
import json, socket, sys
def frame(**message):
    body = json.dumps(dict(message, type="request")).encode()
    return b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body
for port in map(int, sys.argv[1:]):
    data = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
            sock.sendall(frame(seq=1, command="initialize", arguments={"adapterID": "debugpy"}))
            sock.sendall(frame(seq=2, command="attach", arguments={"connect": {"host": "127.0.0.1", "port": port}}))
            while b'"initialized"' not in data:
                more = sock.recv(65536)
                if not more:
                    break
                data += more
    except OSError as error:
        print(port, "closed", error)
    print(port, "let in" if b'"initialized"' in data else "kept out")
"""
#: Waits at each port of argv for what debugpy's adapter says to a process that joins, and says that it is one.
PROCESS = """
import json, socket, sys
for port in map(int, sys.argv[1:]):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=3) as sock:
            print(port, sock.recv(65536).decode(errors="replace"))
    except OSError as error:
        print(port, "nothing:", error)
"""


@pytest.mark.attack(1)
def test_every_port_of_the_agent_and_its_adapter_asks_for_the_token(launch, other_user) -> None:
    """Attaches to every port of the agent and of debugpy's adapter, without the token: there is no port but the front's, and that refuses him."""
    running = launch("sleep", "60", env={"DKDBG_TOKEN": "right-token"})
    record = running.wait_state("running")
    ports = ports_of(record["pid"])
    said = other_user.python(CLIENT, *map(str, ports)).stdout
    assert "kept out" in said
    assert "let in" not in said
    assert ports == [record["port"]]


@pytest.mark.attack(1)
def test_the_status_tells_no_port_that_lets_anybody_in(launch, other_user) -> None:
    """Reads /status for the port of debugpy's adapter: the only port in it is the one he asked at."""
    running = launch("sleep", "60", env={"DKDBG_TOKEN": "right-token"})
    port = running.wait_state("running")["port"]
    code = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"
    status = json.loads(other_user.python(code, f"http://127.0.0.1:{port}/status").stdout)
    assert status["adapter_up"] is True
    assert [name for name in status if "port" in name] == []


@pytest.mark.attack(2)
def test_a_foreign_process_gets_no_join_token_and_is_not_offered(launch, other_user, tmp_path: Path) -> None:
    """Joins as a process to be debugged: gets neither debugpy's join token nor a place in the editor."""
    script = tmp_path / "train.py"
    script.write_text("import time\nwhile True:\n    time.sleep(0.02)\n")
    running = launch(sys.executable, "train.py")
    record = running.wait_state("running")
    with Editor(record["port"], {str(script): [3]}) as editor:
        editor.wait_stops(1)
        token = json.loads((running.runtime / record["id"] / "join.json").read_text())["token"]
        said = other_user.python(PROCESS, *map(str, ports_of(record["pid"]))).stdout
        assert token not in said
        assert "pydevdAuthorize" not in said
        where = running.runtime / record["id"] / "p" / "adapter.sock"
        code = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
        knock = other_user.python(code, str(where.resolve()))
        assert "PermissionError" in knock.stderr
        assert len(editor.sessions) == 2  # the root's and the program's


#: Connects, says what a debugger would do, and prints what comes back until the other side closes or says nothing.
TYPES = """
import socket, sys
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10)
sock.sendall(sys.argv[2].encode())
text = b""
try:
    sock.settimeout(15)
    while b"(dkdbg) " not in text:
        data = sock.recv(4096)
        if not data:
            break
        text += data
except OSError as error:
    text += repr(error).encode()
print(text.decode())
"""
SILENT = """
import socket, sys, time
socks = []
for _ in range(150):
    try:
        socks.append(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 2))
    except OSError:
        pass
print("there", flush=True)
sys.stdin.read()
"""


@pytest.mark.attack(3)
@pytest.mark.parametrize("way", WAYS)
def test_who_does_not_know_the_token_types_in_vain(other_user, launch, tmp_path: Path, way: str) -> None:
    """Connects to pdb's port on loopback and types Python: asked for the token, and closed after a wrong one."""
    port, opened = free_port(), tmp_path / "written-by-another"
    running = start(launch, tmp_path, way, port)
    for line in (f"!open({str(opened)!r}, 'w').close()\n" * 3, "\n\n", "\x16\x03\x01" * 50, "x" * 9000):
        said = other_user.python(TYPES, str(port), line).stdout
        assert PROMPT not in said
    assert not opened.exists()
    use(running, way, port)


@pytest.mark.attack(3)
def test_silent_connections_keep_nobody_out_of_pdb(other_user, launch, tmp_path: Path) -> None:
    """Opens 150 connections to pdb and says nothing: whoever types the token gets in at once."""
    port = free_port()
    (tmp_path / "train.py").write_text("x = 1\nprint(x)\n")
    running = launch(sys.executable, "train.py", wait="60", options=("--pdb", str(port)))
    await_port(port, running.process)
    command = [other_user.interpreter(), "-c", SILENT, str(port)]
    with subprocess.Popen(
        command, **other_user.popen(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as crowd:
        assert crowd.stdout is not None
        assert crowd.stdout.readline() == b"there\n"
        user = Client(port, running.process)
        user.sock.settimeout(8)  # less than a silent one has
        user.until()
        user.ask("n")
        assert user.ask("p x") == "1\n" + PROMPT
        crowd.communicate()


# -- dkdbg attach -------------------------------------------------------------------------------------------------

#: Asks each port of argv for its status and prints what comes.
READER = """
import socket, sys
for port in map(int, sys.argv[1:]):
    data = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
            sock.sendall(b"GET /status HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
            while more := sock.recv(65536):
                data += more
    except OSError as error:
        print(port, error)
    print(port, data)
"""


@pytest.mark.attack(0)
def test_nobody_else_attaches_through_dkdbg_attach(launch, other_user, tmp_path: Path, monkeypatch) -> None:
    """Connects to the ports of `dkdbg attach`, which would prove the token for him: closed before they answer, and he is named."""
    running = launch("sleep", "60", env={"DKDBG_TOKEN": "right-token"})
    agent = running.wait_state("running")["port"]
    monkeypatch.setenv("DKDBG_TOKEN", "right-token")
    base = free_port(3)
    with host_door(tmp_path, f"127.0.0.1:{agent}", options=("--ports", str(base))) as door:
        said = other_user.python(CLIENT, str(door.port), str(base)).stdout
        assert said.count("kept out") == 2, said
        read = other_user.python(READER, str(door.port), str(base)).stdout
        assert "HTTP/1.1 200" not in read
        assert "127.0.0.1:" not in read
        assert any(
            f"another user of this machine ({other_user.name})" in each["text"] for each in door.events
        )
        assert not running.record()["client"]
        with HostEditor(door.port) as mine:
            mine.attach(dkdbgToken="right-token")


@pytest.fixture
def impostor(other_user):
    """Run a fake agent as the other user; returns its port and what it has heard so far."""
    running = []

    def start(mode: str):
        settings = {**other_user.popen(), "env": {**other_user.popen()["env"], "MODE": mode}}
        command = [other_user.interpreter(), "-c", FAKE, "127.0.0.1", "0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **settings)
        running.append(process)
        port = int(process.stdout.readline().split()[1])
        heard = []
        threading.Thread(target=lambda: heard.extend(process.stdout), daemon=True).start()
        return port, heard

    yield start
    for process in running:
        process.kill()
        process.wait()


@pytest.mark.attack(4)
@pytest.mark.parametrize("mode", ["", "nonce"])
def test_a_fake_agent_of_another_user_is_not_attached_to(impostor, tmp_path: Path, mode: str) -> None:
    """Waits at a port of loopback for the attach of somebody else: hears neither token nor attach, as he cannot prove the token."""
    port, heard = impostor(mode)
    with host_door(tmp_path, f"127.0.0.1:{port}") as door:
        door.wait("target", ready=True)
        for shown in ({"dkdbgToken": "right-token"}, {}):
            for process in ({}, {"subProcessId": 7}):
                with HostEditor(door.port) as editor:
                    answer = editor.answer(editor.begin(**shown, **process))
                    assert answer["success"] is False
                    words = ("another user of this machine", "does not know the token")
                    assert any(each in answer["message"] for each in words), answer
    assert "right-token" not in "".join(heard)
    assert '"attach"' not in "".join(heard)
