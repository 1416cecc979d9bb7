"""debugpy's adapter speaks first; a client that waits for that before it says anything is not left waiting."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dkdbg.agent.dap import frames
from dkdbg.dap import client
from tests.engine.host_doors import host_door
from tests.ports import free_port

if TYPE_CHECKING:
    import socket
    from pathlib import Path


def greeted(port: int) -> socket.socket:
    """Connect and say nothing until debugpy's greeting has come."""
    sock = client.dial("127.0.0.1", port)
    sock.settimeout(300)
    parser, heard = frames.FrameParser(), []
    while len(heard) < 3:
        data = sock.recv(4096)
        assert data, heard
        parser.feed(data)
        while (body := parser.take()) is not None:
            heard.append(frames.decode(body))
    assert [(each["event"], each["body"].get("output")) for each in heard] == [
        ("output", "ptvsd"),
        ("output", "debugpy"),
        ("debugpySockets", None),
    ]
    assert heard[2]["body"]["sockets"] == [{"host": "127.0.0.1", "port": port, "internal": False}]
    return sock


def test_a_client_that_waits_for_debugpys_greeting_gets_it_and_attaches(launch, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('end')\n")
    # It opens no session of the program's process, which is not to wait for one.
    running = launch(sys.executable, "train.py", wait="300", env={"DKDBG_JOIN_DEADLINE": "1"})
    session = client.Session(greeted(running.port), name="patient")
    session.request("initialize", {"adapterID": "debugpy", "clientID": "vscode"})
    attached = session.send("attach", {"connect": {"host": "127.0.0.1", "port": running.port}})
    session.wait(lambda: session.has_seen("initialized"), "initialized", timeout=300)
    session.request("configurationDone")
    session.response(attached)
    code, out, err = running.finish()
    session.close()
    assert (code, out) == (0, "end\n"), err


def test_the_ports_of_dkdbg_attach_greet_too(loop, tmp_path: Path) -> None:
    port, base = loop().wait_state("running")["port"], free_port(3)
    with host_door(tmp_path, f"127.0.0.1:{port}", options=("--ports", str(base))) as door:
        own = int(door.wait("port")["text"].rpartition(":")[2])
        for each in (door.port, own):
            session = client.Session(greeted(each), name="patient")
            session.request("initialize", {"adapterID": "debugpy", "clientID": "vscode"})
            session.send("attach", {"connect": {"host": "127.0.0.1", "port": each}})
            session.wait(lambda one=session: one.has_seen("initialized"), "initialized", timeout=300)
            session.close()
