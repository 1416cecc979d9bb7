"""debugpy's adapter sends first; a client that waits for its greeting gets one."""

import socket

from dkdbg.dap import client
from tests.agent.dap_probe import messages_of
from tests.engine.attach_proxies import attach_proxy
from tests.ports import free_port


def greeted(port: int) -> socket.socket:
    sock = client.dial("127.0.0.1", port)
    sock.settimeout(300)
    said = messages_of(sock)
    heard = [next(said) for _ in range(3)]
    assert [(each["event"], each["body"].get("output")) for each in heard] == [
        ("output", "ptvsd"),
        ("output", "debugpy"),
        ("debugpySockets", None),
    ]
    assert heard[2]["body"]["sockets"] == [{"host": "127.0.0.1", "port": port, "internal": False}]
    return sock


def attach(port: int) -> tuple[client.Session, int]:
    """Attach once the greeting has come: the session, and the number of the request that is not answered yet."""
    session = client.Session(greeted(port), name="patient")
    session.request("initialize", {"adapterID": "debugpy", "clientID": "vscode"})
    attached = session.send("attach", {"connect": {"host": "127.0.0.1", "port": port}})
    session.wait(lambda: session.has_seen("initialized"), "initialized", timeout=300)
    return session, attached


def test_a_client_that_waits_for_debugpys_greeting_gets_it_and_attaches(program):
    # It opens no session of the program's process, which is not to wait for one.
    running = program("print('end')\n", wait="300", env={"DKDBG_JOIN_DEADLINE": "1"})
    session, attached = attach(running.port)
    session.request("configurationDone")
    session.response(attached)
    code, out, err = running.finish()
    session.close()
    assert (code, out) == (0, "end\n"), err


def test_the_ports_of_dkdbg_attach_greet_too(loop, tmp_path):
    port, base = loop().port, free_port(3)
    with attach_proxy(tmp_path, f"127.0.0.1:{port}", options=("--ports", str(base))) as proxy:
        own = int(proxy.wait("port")["text"].rpartition(":")[2])
        for each in (proxy.port, own):
            attach(each)[0].close()
