"""A port or socket that cannot start a thread for a client, at `ulimit -u` or pids.max: it closes that client, and serves later ones."""

import socket
import ssl
import tempfile
import threading
from types import SimpleNamespace

import pytest

from dkdbg.agent import contract
from dkdbg.agent.inprocess.ray import worker
from dkdbg.agent.proxy.listener import listener, peers
from dkdbg.agent.supervisor import control
from dkdbg.targets.reverse import query_server
from dkdbg.targets.reverse.jobs import JobListener
from tests.agent.dap_probe import wait_for


def agents_port(_):
    one = listener.Listener(
        "127.0.0.1", 0, serve=lambda *_: None, ready=lambda: True, status=dict, allow=peers.AllowList(), log=print
    )  # fmt: skip
    one.start()
    return one, ("127.0.0.1", one.port), lambda: one.connections == len(one._pending) == 0


def control_socket(folder):
    one = control.Control(folder, restart=str, gather=lambda *_: [])
    return one, f"{folder}/{contract.CONTROL_NAME}", lambda: True


def guard_of_a_worker(_):
    ours, _ = socket.socketpair()
    one = worker.Guard("127.0.0.1", ours, "run1", b"s" * 32)
    return one, ("127.0.0.1", one.port), lambda: True


def waiting_attach(_):
    certificate = SimpleNamespace(context=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), fingerprint="")
    one = JobListener("127.0.0.1", 0, "token", certificate, arrived=print, log=print)  # type: ignore[arg-type]
    one.start()
    return one, ("127.0.0.1", one.port), lambda: len(one._pending) == 0


def queries_of_a_waiting_attach(_):
    one = query_server.QueryServer(dict, editor=5678)
    one.start()
    return one, str(one._path), lambda: one._free._value == query_server._MAX_CLIENTS


@pytest.mark.parametrize(
    ("server", "thread"),
    [
        (agents_port, "dkdbg client"),
        (control_socket, "dkdbg asked"),
        (guard_of_a_worker, "dkdbg guard"),
        (waiting_attach, "dkdbg job"),
        (queries_of_a_waiting_attach, "dkdbg asked"),
    ],
)
def test_a_client_for_which_no_thread_starts_is_closed_and_the_next_one_served(monkeypatch, server, thread):
    start, limit, served = threading.Thread.start, threading.Event(), threading.Event()

    def limited(self):
        if self.name == thread and limit.is_set():
            raise RuntimeError("can't start new thread")
        start(self)
        if self.name == thread:
            served.set()

    def dial():
        sock = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        sock.settimeout(60)
        sock.connect(address)
        return sock

    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("DKDBG_RUNTIME_DIR", folder)
        one, address, is_as_before = server(folder)
        served.clear()
        limit.set()
        monkeypatch.setattr(threading.Thread, "start", limited)
        with dial() as client:
            assert client.recv(1) == b""
        wait_for(is_as_before, bool)
        limit.clear()
        with dial():
            assert served.wait(60)
        getattr(one, "stop", getattr(one, "close", print))()
