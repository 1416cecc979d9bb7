"""A port or socket that cannot start a thread for a client, at `ulimit -u` or pids.max: it closes that client, and serves later ones."""

import json
import os
import queue
import socket
import ssl
import tempfile
import threading
from types import SimpleNamespace

import pytest

from dkdbg.agent import contract
from dkdbg.agent.dap import frames
from dkdbg.agent.inprocess.ray import worker
from dkdbg.agent.proxy.broker import connection, relay
from dkdbg.agent.proxy.broker.agent import Agent
from dkdbg.agent.proxy.listener import listener, peers
from dkdbg.agent.state import processes as processes_module
from dkdbg.agent.state import procfs
from dkdbg.agent.supervisor import control
from dkdbg.targets.reverse import query_server
from dkdbg.targets.reverse.jobs import JobListener
from tests.agent.dap_probe import wait_for
from tests.agent.test_broker import Building, request
from tests.agent.test_processes import table_of
from tests.agent.test_rank_barrier import RANKS, Job, processes


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


@pytest.fixture
def limit(monkeypatch):
    """While it is set, no thread starts."""
    start, found = threading.Thread.start, threading.Event()

    def limited(self):
        if found.is_set():
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", limited)
    return found


@pytest.mark.parametrize(("limit", "left"), [("30", 18), ("max", None)])
def test_the_threads_that_a_cgroup_allows_are_counted(tmp_path, limit, left):
    for folder in (tmp_path, tmp_path / "pids"):  # version 2 and 1
        folder.mkdir(exist_ok=True)
        (folder / "pids.max").write_text(f"{limit}\n")
        (folder / "pids.current").write_text("12\n")
    assert procfs.tasks_left(str(tmp_path)) == left
    assert procfs.tasks_left(str(tmp_path / "none")) is None


def test_the_barrier_withholds_no_stop_where_no_thread_can_watch_it(limit):
    barrier, acted = (job := Job(is_closed=False)).sessions.barrier, list[connection.Action]()
    timer = relay.BarrierTimer(job.sessions, threading.Condition(), acted.extend)
    limit.set()
    timer.begin(processes(*RANKS))
    assert not barrier.is_closed
    limit.clear()
    timer.begin(processes(*RANKS))
    assert barrier.is_closed
    barrier.open()


def test_lines_for_clients_are_sent_again_after_the_limit(limit):
    sent, notes = queue.Queue(), relay.Notices()
    link = SimpleNamespace(to_client=sent.put)
    limit.set()
    notes.put((b"early", [link]))
    limit.clear()
    notes.put((b"late", [link]))
    assert [sent.get(timeout=60), sent.get(timeout=60)] == [b"early", b"late"]


def test_a_client_whose_answers_no_thread_can_read_is_refused_and_the_session_left_to_the_next(limit):
    agent, ends = Agent(), socket.socketpair()
    agent.dial = lambda: ends[0]  # type: ignore[method-assign]
    service = relay.Service(agent)
    ours, theirs = socket.socketpair()
    with ours, ends[1]:
        limit.set()
        service.serve(theirs, request("initialize", clientID="vscode"), frames.FrameParser())
        theirs.close()
        [refused] = map(json.loads, frames.received(ours.recv, frames.FrameParser()))
    assert (refused["success"], refused["message"]) == (False, f"dkdbg: {relay.NO_THREAD}")


def test_a_session_that_ends_joins_no_thread_that_has_not_started(monkeypatch):
    joined, (ours, theirs) = [], socket.socketpair()
    one = relay.Relay(
        theirs, frames.FrameParser(), Building().sessions, lock=threading.Condition(), log=print
    )

    def start(_):
        joined.append(one._answers)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with ours, theirs:
        one.reconnect(0.0)
    assert joined == [None]


def test_a_process_that_no_thread_could_ask_to_join_is_asked_with_the_next_look(tmp_path, limit, monkeypatch):
    asked = queue.Queue()
    monkeypatch.setattr(processes_module, "ask", lambda _, word, *__: asked.put(word) or "")
    table = table_of(tmp_path, attached=lambda: True)
    announcement = {
        "pid": os.getpid(),
        "ppid": 1,
        "started": 1.0,
        "rank": None,
        "origin": "",
        "argv": [],
        "env": {},
    }
    (tmp_path / f"{os.getpid()}.json").write_text(json.dumps(announcement))
    limit.set()
    table._scan()
    assert asked.empty()
    limit.clear()
    table._scan()
    assert asked.get(timeout=60) == "join"


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
