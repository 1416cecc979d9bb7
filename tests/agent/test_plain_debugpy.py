"""`dkdbg attach HOST:PORT` with a plain debugpy: it can be debugged, and its port survives all editors."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dkdbg.agent.dap import frames, messages
from dkdbg.agent.state import procfs
from dkdbg.attach import plain_debugpy
from dkdbg.attach.upstream import Upstream
from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from dkdbg.targets import registry
from tests.agent.dap_probe import Client, wait_for
from tests.engine.attach_proxies import attach_proxy, typed_proxy
from tests.ports import free_port

LIMIT = 300
CODE = """\
import multiprocessing
import os
import time

def step(n):
    return n + 1  # breakpoint

def work():
    n = 0
    while True:
        n = step(n)
        if n == 10:
            open(f"{__file__}.{os.getpid()}", "w").close()
        time.sleep(0.05)

if __name__ == "__main__":
    multiprocessing.get_context("fork").Process(target=work, daemon=True).start()
    work()
"""


@pytest.fixture
def debugpy(tmp_path):
    script, port = tmp_path / "train.py", free_port()
    with debugpy_at(script, port) as program:
        yield script, port, program


@contextlib.contextmanager
def debugpy_at(script, port):
    script.write_text(CODE)
    program = subprocess.Popen(
        [sys.executable, "-m", "debugpy", "--listen", f"127.0.0.1:{port}", str(script)], stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        wait_for(lambda: port in procfs.listening_ports() or program.poll() is not None, bool)
        assert program.poll() is None
        yield program
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)  # with the process that it has forked
        program.wait()


def stop_in(script, port, processes):
    with Debugger(AttachOptions(port=port)) as debugger:
        debugger.set_breakpoints(str(script), [6])
        debugger.attach()
        stops = {}
        while len(stops) < processes:
            stop = debugger.wait_stopped(LIMIT)
            stops[debugger.stack(stop)[0].name, stop.session] = stop
        assert {name for name, _ in stops} == {"step"}


def test_a_plain_debugpy_is_debugged_and_survives(debugpy):
    script, port, program = debugpy
    with attach_proxy(script.parent, f"127.0.0.1:{port}") as proxy:
        for _ in range(2):
            stop_in(script, proxy.port, 2)
        for _ in range(30):  # more than any debugpy survives without the proxy
            socket.create_connection(("127.0.0.1", proxy.port)).close()
            with socket.create_connection(("127.0.0.1", proxy.port)) as killed:
                killed.sendall(frames.wrap(messages.request(1, "initialize", {"adapterID": "debugpy"})))
                killed.settimeout(LIMIT)
                assert killed.recv(100)
        stop_in(
            script, proxy.port, 2
        )  # both: one that leaves while the other attaches takes the port along (debugpy)
        assert proxy.end() == 0
    stop_in(script, port, 1)  # and without us
    assert program.poll() is None


def test_a_plain_debugpy_that_comes_later_is_named_and_what_is_said_of_it_debugs_it(tmp_path):
    script, port = tmp_path / "train.py", free_port()
    with attach_proxy(tmp_path, f"127.0.0.1:{port}") as early, debugpy_at(script, port):
        with Client(early.port).attach() as editor:
            said = editor.event("output", text="a plain debugpy listens")["output"]
        # debugpy loses a program whose first editor leaves during its start.
        wait_for(lambda: len(list(tmp_path.glob("train.py.*"))), (2).__eq__)
        assert early.end() == 0
        line = f"dkdbg attach 127.0.0.1:{port}"
        assert line in said
        with typed_proxy(tmp_path, line) as proxy:
            stop_in(script, proxy.port, 2)
            assert proxy.end() == 0


def test_a_plain_debugpy_is_asked_once(debugpy):
    _, port, program = debugpy
    place = registry.target_at(registry.address_of(f"127.0.0.1:{port}"), Path("/"))
    upstream = Upstream(place, "later")
    said = upstream.poll().why
    assert f"a plain debugpy listens at 127.0.0.1:{port}" in said
    program.kill()
    program.wait()
    upstream.poke()
    assert upstream.poll().why == said  # no further query
    upstream.close()


def test_who_greets_without_end_is_not_listened_to_for_long():
    """A hostile machine: what it says is kept until its greeting is complete."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sent = [0]

        def flood():
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"Content-Length: 1\r\n\r\n")
                while True:
                    sent[0] += connection.send(b"x" * 65536)

        thread = threading.Thread(target=flood, daemon=True)
        thread.start()
        assert plain_debugpy.greeted(server.getsockname()[:2]) is None
        thread.join(LIMIT)
        assert not thread.is_alive()
        assert sent[0] < 32 << 20  # what the kernel's buffers hold
