"""The guard of debugpy on a Ray node: without the run's secret no byte passes."""

import contextlib
import socket
import sys
import tempfile
import threading
import time
import zipfile
from types import SimpleNamespace

import pytest

from dkdbg.agent.inprocess.ray import worker
from dkdbg.agent.ray import guard

LIMIT = 300.0


@pytest.fixture
def guarded():
    through = []
    ours, theirs = socket.socketpair()

    def greet():
        while True:
            said, descriptors, _, _ = socket.recv_fds(theirs, 1, 1)
            if not said:
                return
            client = socket.socket(fileno=descriptors[0])
            through.append(client)
            client.sendall(b"Content-Length: 2\r\n\r\n{}")

    adapter = threading.Thread(target=greet, daemon=True)
    adapter.start()
    with theirs:
        with ours:
            yield worker.Guard("127.0.0.1", ours, "run1", b"s" * 32), through
            ours.shutdown(socket.SHUT_RDWR)
        adapter.join(LIMIT)
        for each in through:
            each.close()


@pytest.mark.parametrize(
    ("told", "seconds"),
    [(b"40", 40.0), (b"0", 0.0), (None, 30.0), (b"inf", 0.0), (b"nan", 0.0), (b"1e308", 0.0)],
)
def test_no_program_of_the_cluster_makes_a_worker_wait_for_ever(monkeypatch, told, seconds):
    """Any of them may write into the cluster's store, where the driver says whether an editor is attached."""
    store = SimpleNamespace(_internal_kv_get=lambda key, namespace: told)  # noqa: ARG005
    monkeypatch.setitem(sys.modules, "ray.experimental", SimpleNamespace(internal_kv=store))
    opening = worker._Opening({"run": "run1", "namespace": b"n", "wait": 30.0}, b"")
    assert opening._wait_s() == seconds


def test_who_knows_the_secret_of_the_run_speaks_with_debugpy(guarded, monkeypatch):
    proxy, through = guarded
    monkeypatch.setattr(
        guard, "runs", lambda: [guard.Run({"run": "run1", "secret": (b"s" * 32).hex(), "workers": {}})]
    )
    sock, said, run = guard.connect("127.0.0.1", proxy.port)
    with sock:
        assert run == "run1"
        assert said.startswith(b"Content-Length: 2")
        sock.sendall(b"hello")
        through[0].settimeout(LIMIT)
        assert through[0].recv(5) == b"hello"


@pytest.mark.parametrize("said", [b"x" * 65, b"\n" * 65, b"Content-Length: 5\r\n\r\n" + b"{}" * 40, b""])
def test_who_does_not_know_it_gets_nothing_through(guarded, said):
    proxy, through = guarded
    with socket.create_connection(("127.0.0.1", proxy.port)) as sock:
        sock.settimeout(LIMIT)
        assert sock.recv(1000).startswith(b"dkdbg-ray run1 ")
        sock.sendall(said)
        with contextlib.suppress(ConnectionError, OSError):  # it has not read all of it
            sock.shutdown(socket.SHUT_WR)
            assert sock.recv(1000) == b""
    assert through == []


def test_an_answer_has_one_deadline_however_slowly_it_comes(guarded, monkeypatch):
    monkeypatch.setattr(worker, "_TIMEOUT_S", 0.5)
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)  # a test of the program has frozen it
    sent = 0
    with (
        socket.create_connection(("127.0.0.1", guarded[0].port)) as sock,
        contextlib.suppress(ConnectionError),
    ):
        sock.settimeout(0.1)
        while True:
            try:
                if not sock.recv(1000):
                    break
            except TimeoutError:
                sock.sendall(b"x")
                sent += 1
    assert sent < 65


def test_clients_that_answer_nothing_are_limited_in_number_and_keep_no_editor_out(guarded, monkeypatch):
    monkeypatch.setattr(worker, "_TIMEOUT_S", LIMIT)
    proxy, _ = guarded
    with contextlib.ExitStack() as held:
        silent = [
            held.enter_context(socket.create_connection(("127.0.0.1", proxy.port)))
            for _ in range(5 * worker._MAX_ANSWERING)
        ]
        for each in silent:
            each.settimeout(LIMIT)
        monkeypatch.setattr(
            guard, "runs", lambda: [guard.Run({"run": "run1", "secret": (b"s" * 32).hex(), "workers": {}})]
        )
        sock, _, run = guard.connect("127.0.0.1", proxy.port)
        sock.close()
        assert run == "run1"
        for each in silent[: -worker._MAX_ANSWERING]:
            with contextlib.suppress(ConnectionError):
                while each.recv(1000):
                    pass
        assert len(proxy._answering) < worker._MAX_ANSWERING
        silent[-1].setblocking(False)
        with contextlib.suppress(BlockingIOError):
            assert silent[-1].recv(1000)


def test_a_run_of_another_machine_is_said(guarded, monkeypatch):
    proxy, _ = guarded
    monkeypatch.setattr(guard, "runs", list)
    with pytest.raises(OSError, match="started on another machine"):
        guard.connect("127.0.0.1", proxy.port)


def test_a_worker_whose_session_cannot_start_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(zipfile.BadZipFile):
        worker._join(b"no zip", 1.0)
    assert not list(tmp_path.iterdir())
