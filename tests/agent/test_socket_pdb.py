"""pdb over a socket: plain `nc` reaches it, the program's own streams stay its own, and leaving never ends it."""

import socket
import time

import pytest

from dkdbg.agent.inprocess import own_socket
from dkdbg.agent.inprocess.pdb import pdb_login
from tests.agent.nc import PROMPT, Client
from tests.ports import free_port

LOOP = "def step(n):\n    doubled = n * 2\n    return doubled\n\nfor n in range(3):\n    breakpoint()\n    print(step(n), flush=True)\n"


@pytest.fixture
def port():
    return free_port()


def test_a_breakpoint_stops_for_a_plain_client(program, port):
    running = program(LOOP, env={"DKDBG_PDB": str(port), "DKDBG_BREAKPOINT_WAIT": "300"})
    client = Client(port, running.process)
    assert "train.py" in client.until()
    assert client.ask("p n") == "0\n" + PROMPT
    assert "doubled = n * 2" in client.ask("s") + client.ask("s") + client.ask("s") + client.ask("l")
    for word in ("run", "restart --lr 1", "interact"):
        assert "not possible here" in client.ask(word)
    client.ask("c")  # stops again in the second round
    assert client.ask("p n") == "1\n" + PROMPT
    client.sock.sendall(b"q\n")
    assert client.until() == "detached\n"
    again = Client(port, running.process, token=client.token)  # the third round takes a new client
    assert again.until().endswith(PROMPT)
    assert again.ask("p n") == "2\n" + PROMPT
    again.sock.close()
    running.ends(0, "0\n2\n4\n")
    assert f"waiting for pdb on 127.0.0.1:{port} (nc 127.0.0.1 {port}); type this first: " in client.said


def test_a_launch_for_pdb_stops_in_the_first_line(program, port):
    running = program('"""Train."""\nx = 1\nprint(x)\n', wait="300", options=("--pdb", str(port)))
    client = Client(port, running.process)
    assert "train.py(1)<module>()" in client.until()
    client.ask("n")
    client.ask("n")
    assert client.ask("p x") == "1\n" + PROMPT
    client.ask("x = 6")
    client.sock.sendall(b"c\n")
    running.ends(0, "6\n")


@pytest.mark.parametrize("then", ["exit", "run"])
def test_launched_for_pdb_and_nobody_comes_to_it_or_to_a_breakpoint(program, port, then):
    running = program(
        LOOP, wait="0.3", options=("--pdb", str(port), "--then", then), env={"DKDBG_BREAKPOINT_WAIT": "0.3"}
    )
    code, out, err = running.finish()
    assert (code, out) == ((124, "") if then == "exit" else (0, "0\n2\n4\n"))
    assert ("the program was not started" in err) == (then == "exit")
    assert then == "exit" or "no pdb client within 0.3 s, going on" in err


def test_a_forked_child_leaves_its_parents_client_alone(program, port):
    running = program(
        "import os, dkdbg\nbreakpoint()\npid = os.fork()\nif pid == 0:\n"
        "    dkdbg.set_trace(timeout=0.3)\n    os._exit(7)\nprint(os.waitpid(pid, 0)[1] >> 8)\n",
        env={"DKDBG_PDB": str(port), "DKDBG_BREAKPOINT_WAIT": "300"},
    )
    client = Client(port, running.process)
    client.until()
    for _ in range(4):
        client.sock.sendall(b"n\n")
    client.sock.sendall(b"c\n")
    err = running.ends(0, "7\n")
    assert "no pdb client within 0.3 s" in err


def test_a_crash_is_looked_at_in_pdb(program, port):
    environment = {"DKDBG_PDB": str(port), "DKDBG_ON_CRASH": "hold=300"}
    running = program("def deep(a):\n    secret = a\n    return secret / 0\n\ndeep(4)\n", env=environment)
    client = Client(port, running.process)
    assert "ZeroDivisionError: division by zero" in client.until()
    assert client.ask("p secret") == "4\n" + PROMPT
    client.sock.sendall(b"q\n")
    err = running.ends(1)
    assert "ZeroDivisionError" in client.said + err


def test_a_wait_for_a_client_ends_in_a_test_with_a_frozen_clock(monkeypatch):
    listener = own_socket.take(socket.create_server(("127.0.0.1", 0)))
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert pdb_login.first(listener, 0.2) is None
