"""OpenPAI's debug recipe with the import changed only: real processes, and a plain socket as `nc`."""

import contextlib
import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.dap_probe import Editor
from tests.agent.nc import Client
from tests.openpai.protocol import environment
from tests.ports import free_port
from tests.pythons import find, need


def own_address() -> str:
    lines = Path("/proc/net/fib_trie").read_text().splitlines()
    for before, line in itertools.pairwise(lines):
        if "/32 host LOCAL" in line and not (found := before.split()[-1]).startswith("127."):
            return found
    raise AssertionError("this machine has no address but loopback's")


SCRIPT = "import sys\nprint('args', sys.argv[1:], __name__)\nvalue = 6 * 7\nprint('value', value)\n"
TRAINING = (
    "from dkdbg.pai import settrace\n\ndef step(n):\n    settrace()\n    return n * 2\n\nprint(step(21))\n"
)
#: The address of the node that the platform's stand-in names; on a real one others reach it.
NODE = "127.0.0.2"


@pytest.fixture
def start(begin, tmp_path, layout):
    def run(*words, python=sys.executable, **env):
        names = ("PYTHON", "DKDBG", "PAI_", "DEBUG", "FC_")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(names)}
        ours = {"PYTHONPATH": f"{layout}/agent.pyz", "PYTHONUNBUFFERED": "1", "DKDBG_JOIN_DEADLINE": "60"}
        return begin([python, *words], cwd=tmp_path, env=clean | ours | env)

    return run


@pytest.mark.parametrize("minor", [8, 14])
def test_a_script_waits_for_nc_and_starts_anew_until_it_quits(start, tmp_path, minor):
    python = need(minor)
    (tmp_path / "train.py").write_text(SCRIPT)
    port = free_port()
    running = start("-m", "dkdbg.pai", "train.py", "--epochs", "1", python=python, **environment(port))
    client = Client(port, running, host=NODE)
    assert "train.py(1)<module>()" in client.until()
    client.ask("n")
    client.ask("n")
    assert "value = 6 * 7" in client.ask("l")
    assert "The program finished and will be restarted" in client.ask("c")
    client.sock.sendall(b"q\n")
    out, err = running.communicate(timeout=300)
    assert (running.returncode, out) == (0, "args ['--epochs', '1'] __main__\nvalue 42\n")
    err = client.said + err
    assert f"debug host ip is set to {NODE}, port is set to {port}, timeout is set to 600\n" in err
    assert f"paipdb is running on {NODE}:{port}\n" in err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("paipdb",), 1, "No client connect to server in 0.3 seconds, exit\n"),
        (("dkdbg.pai",), 124, "No client connect to server in 0.3 seconds, exit\n"),
        (("dkdbg.pai", "--dap"), 124, ""),
    ],
)
def test_nobody_comes_to_a_script(start, tmp_path, words, code, said):
    (tmp_path / "train.py").write_text(SCRIPT)
    running = start("-m", *words, "train.py", DEBUG_TIMEOUT="0.3", **environment(free_port()))
    out, _ = running.communicate(timeout=300)
    assert (running.returncode, out) == (code, said)


def test_on_a_nodes_address_the_log_has_a_token_that_opens_once(start, tmp_path):
    (tmp_path / "train.py").write_text(
        "import paipdb\nfor n in range(2):\n    paipdb.settrace()\n    print(n)\n"
    )
    port, node = free_port(), own_address()
    running = start("train.py", **environment(port, host=node))
    wrong = Client(port, running, host=node, token="")
    assert wrong.until("token: ") == "token: "
    wrong.sock.sendall(b"1\n")
    assert "wrong token" in wrong.until()
    first = Client(port, running, host=node)
    first.until()
    first.sock.sendall(b"q\n")
    second = Client(port, running, host=node)
    assert second.token != first.token
    second.until()
    assert second.ask("p n").startswith("1")
    second.sock.sendall(b"c\n")
    out, err = running.communicate(timeout=300)
    assert (running.returncode, out) == (0, "0\n1\n"), err
    assert "anyone who reads this log can use the port before you" in first.said


#: From another address: connections that say nothing, a byte at a time, too much, or wrong tokens; a line for each 40.
CROWD = """
import itertools, socket, sys
held = []
for n in itertools.count(1):
    try:
        sock = socket.create_connection(("127.0.0.2", int(sys.argv[1])), timeout=10, source_address=("127.0.0.3", 0))
        sock.settimeout(0.0)
        held.append(sock)
        sock.send((b"", b"a", b"x" * 5000, b"wrong\\n")[n % 4])
        held[0].send(b"b")
    except OSError:
        pass
    if len(held) > 60:
        held.pop(0).close()
    if n % 40 == 0:
        print(n, flush=True)
"""


def test_a_crowd_from_one_address_keeps_nobody_else_out(start, tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    port = free_port()
    running = start("-m", "paipdb", "train.py", **environment(port))
    ready = next(line for line in running.stderr if "waiting for pdb on" in line)
    token = ready.split()[-1]
    crowd = subprocess.Popen([sys.executable, "-c", CROWD, str(port)], stdout=subprocess.PIPE, text=True)
    try:
        while True:
            user = Client(port, running, host=NODE, token="")
            assert user.until("token: ") == "token: "
            crowd.stdout.readline()
            crowd.stdout.readline()  # forty have come since at the least, and 32 may wait
            user.sock.sendall(token.encode() + b"\n")
            said = user.until()
            assert "too many" not in said
            if "no token within" not in said:  # a machine so busy that typing took 10 s
                break
        assert "train.py(1)<module>()" in said
        user.sock.sendall(b"q\n")
        assert running.wait(300) == 0
    finally:
        crowd.kill()
        crowd.communicate()


def test_an_address_that_is_not_the_containers_is_told_and_loopback_serves(start, tmp_path):
    (tmp_path / "train.py").write_text(TRAINING)
    port = free_port()
    running = start("train.py", **environment(port, host="203.0.113.7"))
    client = Client(port, running)
    client.until()
    client.sock.sendall(b"c\n")
    assert running.communicate(timeout=300)[0] == "42\n"
    assert "203.0.113.7 is not an address of this container" in client.said


@pytest.mark.parametrize(
    ("words", "env", "code", "said"),
    [
        ([], {}, 2, "usage: python -m paipdb [--dap] SCRIPT"),
        (["gone.py"], {}, 2, "cannot read gone.py: No such file"),
        (["train.py"], {"DEBUG_TIMEOUT": "soon"}, 1, "DEBUG_TIMEOUT=soon must be a number of seconds"),
        (["train.py"], {"DEBUG_PORT_NAME": "dbg"}, 1, "resourcePerInstance.ports: {dbg: 1}"),
        (["--dap", "train.py"], {"DKDBG_AGENT": "/nowhere"}, 2, "set DKDBG_AGENT to its path"),
    ],
)
def test_what_is_wrong_is_told_with_the_next_step(start, tmp_path, *, words, env, code, said):
    (tmp_path / "train.py").write_text(SCRIPT)
    running = start("-m", "paipdb", *words, **environment(free_port()) | env)
    _, err = running.communicate(timeout=300)
    assert (running.returncode, said in err) == (code, True), err
    assert "Traceback" not in err


def test_an_exception_is_shown_in_its_frame_and_a_client_that_goes_away_lets_the_script_run_to_its_end(
    start, tmp_path
):
    (tmp_path / "train.py").write_text(
        "import os, sys\n\ndef deep(a, b):\n    return a / b\n\n"
        "if not os.path.exists('mended'):\n    deep(4, 0)\nprint('end')\nsys.exit(7)\n"
    )
    port = free_port()
    running = start("-m", "dkdbg.pai", "train.py", **environment(port))
    client = Client(port, running, host=NODE)
    client.until()
    assert "ZeroDivisionError: division by zero" in client.ask("c")
    assert client.ask("p a, b").startswith("(4, 0)")
    (tmp_path / "mended").touch()
    assert "train.py(1)<module>()" in client.ask("c")  # the next round
    client.sock.close()
    out, _ = running.communicate(timeout=300)
    assert (running.returncode, out) == (7, "end\n")


def named(index: str) -> dict[str, str]:
    """A task whose index stands in this variable; its port is still to be filled in."""
    role = {"PAI_CURRENT_TASK_ROLE_NAME": "worker", "PAI_HOST_IP_worker_0": NODE}
    return role | {index: "0", "PAI_PORT_LIST_worker_0_debug": "{port},9"}


@pytest.mark.parametrize(
    ("call", "env"),
    [
        ("settrace()", named("PAI_TASK_ROLE_INDEX")),
        ("settrace()", named("PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX")),
        ("settrace()", named("PAI_TASK_INDEX")),
        ("set_trace(port={port}, timeout=300)", {}),
        ("settrace('127.0.0.1', {port})", {}),
        ("settrace()", {"DEBUG_PORT": "{port}"}),
        ("settrace()", {"PAI_CONTAINER_HOST_debug_PORT_LIST": "{port}"}),
        ("settrace()", {"DEBUG_PORT_NAME": "http", "FC_TASKROLE_NAME": "ps", "PAI_TASK_INDEX": "3",
                        "PAI_PORT_LIST_ps_3_http": "{port},9"}),
    ],
)  # fmt: skip
def test_settrace_stops_on_the_port_that_the_job_or_the_call_names(start, tmp_path, call, env):
    port = free_port()
    (tmp_path / "train.py").write_text(
        f"from dkdbg.pai import *\n\ndef step(n):\n    {call.format(port=port)}\n    return n * 2\n\nprint(step(21))\n"
    )
    running = start("train.py", **{name: value.format(port=port) for name, value in env.items()})
    client = Client(port, running, host=env.get("PAI_HOST_IP_worker_0", "127.0.0.1"))
    assert "step()" in client.until()
    assert client.ask("p n").startswith("21")
    client.sock.sendall(b"c\n")
    out, _ = running.communicate(timeout=300)
    assert (running.returncode, out) == (0, "42\n")


def test_where_nobody_comes_settrace_raises_and_without_a_port_it_ends_the_program(start, tmp_path):
    (tmp_path / "train.py").write_text(
        "import socket\nfrom dkdbg.pai import settrace\nprint('imported')\n"
        "for _ in range(2):\n    try: settrace(timeout=0.2)\n    except socket.timeout as e: print(e)\n"
    )
    out, _ = start("train.py", **environment(free_port())).communicate(timeout=300)
    assert out == "imported\n" + "No client connect to server in 0.2 seconds\n" * 2
    running = start("train.py")
    assert running.communicate(timeout=300)[0] == "imported\nCan not get debug port, exit\n"
    assert running.returncode == 1


def test_with_a_token_it_listens_on_the_node_and_asks_for_it(start, tmp_path):
    (tmp_path / "train.py").write_text(TRAINING + "import os; print('DKDBG_TOKEN' in os.environ)\n")
    port = free_port()
    running = start("train.py", DKDBG_TOKEN="geheim", **environment(port))
    wrong = Client(port, running, host=NODE, token="")
    assert wrong.until("token: ") == "token: "
    wrong.sock.sendall(b"open\n")
    assert "wrong token" in wrong.until()
    client = Client(port, running, host=NODE, token="geheim")
    assert "step()" in client.until()
    client.sock.sendall(b"c\n")
    out, err = running.communicate(timeout=300)
    assert out == "42\nFalse\n"
    assert "geheim" not in err


def test_post_mortem_and_a_trap_reach_a_pdb(start, tmp_path):
    (tmp_path / "train.py").write_text(
        "import sys, time\nfrom dkdbg import pai\npai.handle_trap()\n"
        "try:\n    a = 5\n    a / 0\nexcept ZeroDivisionError:\n    pai.post_mortem()\n"
        "waiting = True\nprint('up', flush=True)\nwhile waiting:\n    time.sleep(0.01)\n"
    )
    port = free_port()
    running = start("train.py", **environment(port))
    client = Client(port, running, host=NODE)
    assert "ZeroDivisionError" in client.until()
    assert client.ask("p a").startswith("5")
    client.sock.sendall(b"q\n")
    assert running.stdout.readline() == "up\n"
    running.send_signal(signal.SIGTRAP)
    client = Client(port, running, host=NODE, token=client.token)
    client.until()
    client.ask("!waiting = False")
    client.sock.sendall(b"c\n")
    running.communicate(timeout=300)
    assert running.returncode == 0


@pytest.mark.parametrize("words", [["train.py"], ["-m", "dkdbg.pai", "script.py"]])
def test_below_the_agent_no_dkdbg_has_to_be_installed(launch, tmp_path, words):
    system = shutil.which("python3", path="/usr/bin:/usr/local/bin")  # it has no dkdbg
    python = find(13) or find(8) or system or sys.executable
    (tmp_path / "train.py").write_text(TRAINING)
    (tmp_path / "script.py").write_text(SCRIPT)
    port = free_port()
    running = launch(python, *words, env=environment(port))
    client = Client(port, running.process, host=NODE)
    assert ("step()" if len(words) == 1 else "script.py(1)<module>()") in client.until()
    with contextlib.suppress(OSError):
        client.sock.sendall(b"q\n")
    running.ends()


def test_an_attached_editor_gets_the_stop(program):
    running = program(TRAINING, wait="300", env=environment(free_port()))
    with Editor(running.port, {}) as editor:
        stop = editor.wait_stops(1)[0]
        code, out, _ = running.finish()
    assert (stop["path"], stop["line"] in (4, 5), code, out) == (running.script, True, 0, "42\n")


def two_threads(call: str) -> str:
    return (
        "import threading, paipdb\n"
        "def work(n):\n    for x in range(2):\n"
        f"        {call}\n        print('%d %d\\n' % (n, x), end='')\n"  # in one write
        "threads = [threading.Thread(target=work, args=(n,), name='w%d' % n) for n in range(2)]\n"
        "for each in threads: each.start()\nfor each in threads: each.join()\n"
    )


OWN_TOKEN = {"DKDBG_TOKEN": "a token of their own"}


@pytest.mark.parametrize("minor", [8, 14])
def test_each_thread_keeps_the_client_of_its_own_port(start, tmp_path, minor):
    """The window of the second thread took the first one's stop."""
    first, second = free_port(), free_port()
    (tmp_path / "train.py").write_text(two_threads(f"paipdb.settrace(port=({first}, {second})[n])"))
    running = start("train.py", python=need(minor), **environment(free_port()), **OWN_TOKEN)
    clients = [Client(port, running, NODE, token=OWN_TOKEN["DKDBG_TOKEN"]) for port in (first, second)]
    for client in clients:
        client.until()
    for x in range(2):
        for n, client in enumerate(clients):
            assert client.ask("p (n, x)").startswith(f"({n}, {x})")
        for client in clients:
            client.sock.sendall(b"c\n")
            if x == 0:
                client.until()
    out, err = running.communicate(timeout=300)
    assert sorted(out.splitlines()) == ["0 0", "0 1", "1 0", "1 1"], err


def test_a_breakpoint_that_the_client_of_another_thread_clears_ends_no_thread(start, tmp_path):
    ports = free_port(), free_port()
    (tmp_path / "train.py").write_text(two_threads(f"paipdb.settrace(port={ports}[n])"))
    running = start("train.py", **environment(free_port()), **OWN_TOKEN)
    first, second = clients = [Client(port, running, NODE, token=OWN_TOKEN["DKDBG_TOKEN"]) for port in ports]
    for client in clients:
        client.until()
    first.ask("b 5")
    second.ask("cl 1")
    for x in range(2):
        for client in clients:
            client.sock.sendall(b"c\n")
            if x == 0:
                client.until()
    out, err = running.communicate(timeout=300)
    assert (len(out.splitlines()), "Traceback" in err) == (4, False), err


@pytest.mark.parametrize("minor", [8, 14])
def test_threads_of_one_port_stop_in_turn_for_its_client(start, tmp_path, minor):
    port = free_port()
    (tmp_path / "train.py").write_text(two_threads("paipdb.settrace()"))
    running = start("train.py", python=need(minor), **environment(port), **OWN_TOKEN)
    client = Client(port, running, NODE, token=OWN_TOKEN["DKDBG_TOKEN"])
    said, seen = client.until(), []
    for stops in range(1, 5):
        seen.append(client.ask("p (n, x)").splitlines()[0])
        client.sock.sendall(b"c\n")
        said += client.until() if stops < 4 else ""
    out, err = running.communicate(timeout=300)
    assert sorted(seen) == ["(0, 0)", "(0, 1)", "(1, 0)", "(1, 1)"]
    assert "[thread w" in said
    assert (len(out.splitlines()), "Traceback" in err) == (4, False), err


def test_a_port_that_another_process_has_is_told_with_the_one_that_is_taken(start, tmp_path):
    (tmp_path / "train.py").write_text(TRAINING)
    with socket.create_server((NODE, 0)) as taken:
        port = taken.getsockname()[1]
        running = start("train.py", **environment(port), **OWN_TOKEN)
        line = next(line for line in running.stderr if "another process" in line)
        found = re.fullmatch(rf"dkdbg: port {port} is used by another process here: waiting on (\d+)\n", line)
        assert found, line
        client = Client(int(found[1]), running, NODE, token=OWN_TOKEN["DKDBG_TOKEN"])
        client.until()
        client.sock.sendall(b"c\n")
        assert running.communicate(timeout=300)[0] == "42\n"
