"""Finding a target's agent without ever mistaking something else for it."""

import contextlib
import json
import socket
import threading
import time

import pytest

from dkdbg.agent.proxy.listener import listener as listener_module
from dkdbg.agent.proxy.listener import peers
from dkdbg.attach import upstream
from dkdbg.attach.upstream import Upstream, status_of
from dkdbg.core.record import SeenProcess
from dkdbg.targets.registry import target_of
from tests.agent.dap_probe import wait_for

RECORD = {"id": "job-7", "pid": 7, "started": 1.0, "state": "waiting", "adapter_up": True}


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as one:
        yield one


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Raise the timeout, so that one look is enough even on a machine that stalls for seconds."""
    monkeypatch.setattr(upstream, "ANSWER_TIMEOUT_S", 60.0)


def answer_with(listener, reply, *, after=0.0):
    """Answer all connections, after so many seconds; None closes at once, as docker-proxy does. Return the address."""

    def answer(sock):
        with sock, contextlib.suppress(OSError):
            if reply is not None:
                sock.recv(1000)
                time.sleep(after)
                sock.sendall(reply)

    def serve():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return "127.0.0.1", listener.getsockname()[1]


HTTP = b"HTTP/1.1 200 OK\r\nContent-Length: "
WEB_SERVERS = [HTTP + rest for rest in (b"2\r\n\r\n{}", b"2\r\n\r\n[]", b"900\r\n\r\n{")]


@pytest.mark.parametrize("reply", [None, b"", *WEB_SERVERS, b"SSH-2.0-OpenSSH_9.2\r\n", b"\x00" * 100])
def test_a_port_without_an_agent_or_listener_is_not_ready(listener, reply):
    address = answer_with(listener, reply)
    assert status_of(address) is None
    listener.close()
    assert status_of(address) is None


@pytest.fixture
def proxy():
    """A real listener with the given record; returns its port."""
    opened: list[listener_module.Listener] = []

    def start(token="", **more):
        one = listener_module.Listener(
            "127.0.0.1", 0, serve=lambda *_: None, ready=lambda: True, status=lambda: {**RECORD, **more},
            allow=peers.AllowList(), token=token, log=print,
        )  # fmt: skip
        one.start()
        opened.append(one)
        return one.port

    yield start
    for one in opened:
        one.stop()


def test_an_attachable_endpoint_is_ready_and_identified_by_its_agent(proxy, tmp_path):
    first, second = (
        Upstream(target_of(f"127.0.0.1:{proxy(started=started)}", tmp_path), "x").poll()
        for started in (1.0, 2.0)
    )
    assert (first.why, second.why) == ("", "")
    assert first.agent != second.agent


@pytest.mark.parametrize("more", [{"state": "exited"}, {"state": "starting"}, {"adapter_up": False}])
def test_an_endpoint_that_rejects_attaches_yet_is_waited_for(proxy, tmp_path, more):
    seen = Upstream(target_of(f"127.0.0.1:{proxy(**more)}", tmp_path), "x").poll()
    assert seen.agent == ""
    assert seen.why


def test_a_slow_endpoint_gets_more_time_at_each_poll(listener, tmp_path, monkeypatch):
    monkeypatch.setattr(upstream, "ANSWER_TIMEOUT_S", 0.05)
    told = json.dumps(RECORD).encode()
    _, port = answer_with(listener, HTTP + b"%d\r\n\r\n%b" % (len(told), told), after=0.4)
    slow = Upstream(target_of(f"127.0.0.1:{port}", tmp_path), "x")
    assert slow.poll().agent == ""
    wait_for(lambda: slow.poll().agent, bool)


def test_a_local_session_is_found_by_its_record(proxy, tmp_path, monkeypatch):
    import os

    from dkdbg.agent.state import records

    monkeypatch.setenv("DKDBG_RUNTIME_DIR", str(tmp_path))
    local = Upstream(target_of("local:job", tmp_path), "job")
    assert local.poll().why == "no session job runs on this machine"
    record = records.first_record(
        session_id="job-7", name="job", host="127.0.0.1", port=proxy(), debugpy="1", argv=["x"]
    )
    (tmp_path / "job-7").mkdir()
    (tmp_path / "job-7" / "session.json").write_text(
        json.dumps({**record, "state": "waiting", "pid": os.getpid()})
    )
    local.poke()
    assert local.poll().agent


def test_the_processes_behind_a_token_are_seen_with_it_and_a_wrong_one_is_shown_once(proxy, tmp_path):
    """Otherwise the right token would be locked out."""
    port = proxy(token="right", processes=[{"pid": 8, "name": "train.py"}])
    target = target_of(f"127.0.0.1:{port}", tmp_path)
    seen = [Upstream(target, "x", token).poll() for token in ("right", "wrong", "")]
    told = [each.record.processes for each in seen if each.record is not None]
    assert told == [(SeenProcess(pid=8, name="train.py"),), None, None]
    assert all(each.agent for each in seen)
    wrong = Upstream(target, "x", "wrong")
    for _ in range(40):
        wrong.poke()
        assert wrong.poll().agent
    found = status_of(("127.0.0.1", port), "right")
    assert found.processes
