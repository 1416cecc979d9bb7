"""The listener: probes and garbage never reach the adapter, real clients do, /status and /healthz answer."""

# ruff: noqa: ARG005

import contextlib
import json
import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest

from dkdbg.agent.dap import frames, messages
from dkdbg.agent.proxy.broker import connection, relay
from dkdbg.agent.proxy.broker.agent import Agent
from dkdbg.agent.proxy.listener import listener, peers
from tests.agent.dap_probe import messages_of, wait_for

INITIALIZE = frames.encode({"seq": 1, "type": "request", "command": "initialize", "arguments": {}})
BYE = frames.encode({"seq": 9, "type": "event", "event": "bye"})


class Behind:
    """A fake adapter that counts connections and echoes its input."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.received: list[bytearray] = []
        self.ended = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                self.received.append(bytearray())
                threading.Thread(target=self._echo, args=(sock, self.received[-1]), daemon=True).start()

    def _echo(self, sock: socket.socket, received: bytearray) -> None:
        with contextlib.suppress(OSError):
            while data := sock.recv(65536):
                received += data
                sock.sendall(data)
            sock.sendall(BYE)  # the other direction still works after a half-close
        sock.close()
        self.ended.set()


@pytest.fixture
def behind():
    one = Behind()
    yield one
    one.listener.close()


class Dying:
    """A fake adapter that accepts an attach and dies."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        sock, _ = self.listener.accept()
        with sock:
            for asked in messages_of(sock):
                sock.sendall(frames.wrap(messages.answer(asked)))
                if asked["command"] == "attach":
                    return


class Before(Agent):
    """An agent for the adapter at a port: 0 before its start, negative after its end."""

    def __init__(self, backend_port: Callable[[], int], log: Callable[[str], object]) -> None:
        super().__init__()
        self._port = backend_port
        self.log = log  # type: ignore[assignment,method-assign]

    def dial(self) -> socket.socket | None:
        try:
            return dial(self._port()) if self._port() > 0 else None
        except OSError:
            return None

    def is_adapter_gone(self) -> bool:
        return self._port() < 0


def open_listener(backend_port: Callable[[], int], status=dict, log=lambda text: None) -> listener.Listener:
    service = relay.Service(Before(backend_port, log))
    one = listener.Listener(
        "127.0.0.1",
        0,
        serve=service.serve,
        ready=lambda: backend_port() != 0,
        status=status,
        allow=peers.AllowList(),
        log=log,
    )
    one.start()
    return one


@pytest.fixture
def impatient(monkeypatch):
    """Shorten the timeout of the first request, for tests that wait for it."""
    monkeypatch.setattr(listener, "FIRST_FRAME_TIMEOUT_S", 0.4)


@pytest.fixture
def port(behind):
    status = {"state": "waiting", "client": False, "name": "job"}
    one = open_listener(lambda: behind.listener.getsockname()[1], lambda: dict(status))
    yield one.port
    one.stop()


def dial(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=300)


def _answer(port: int) -> bytes:
    """Return the first answer to INITIALIZE; empty if the connection is refused."""
    with dial(port) as sock, contextlib.suppress(ConnectionError):
        sock.sendall(INITIALIZE)
        return sock.recv(5)
    return b""


def request(seq: int, command: str, **arguments: object) -> bytes:
    return frames.encode({"seq": seq, "type": "request", "command": command, "arguments": arguments})


def test_a_client_is_connected_once_its_first_request_is_whole(port, behind):
    # Spaces and key order would not survive decoding: the body must pass unchanged.
    more = request(2, "attach") + frames.wrap(
        b'{ "type":"request" , "seq":3,"command":"threads", "x" : 1.50}'
    )
    with dial(port) as sock:
        for at in range(0, len(INITIALIZE), 5):
            assert behind.received == []
            sock.sendall(INITIALIZE[at : at + 5])
            time.sleep(0.005)
        sock.sendall(more)
        echoed = b""
        while len(echoed) < len(INITIALIZE + more):
            data = sock.recv(4096)
            assert data
            echoed += data
    assert echoed == INITIALIZE + more == bytes(behind.received[0])


def test_a_half_closed_client_still_gets_the_rest_and_half_a_word_of_http_is_its_end(port):
    """Regression: it kept a thread busy forever."""
    for beginning in (b"G", b"GET", b"HEAD"):
        with dial(port) as sock:
            sock.sendall(beginning)
            sock.shutdown(socket.SHUT_WR)
            assert sock.recv(100) == b""
    with dial(port) as sock:
        sock.sendall(INITIALIZE)
        sock.shutdown(socket.SHUT_WR)
        text = b""
        while data := sock.recv(4096):
            text += data
    assert text == INITIALIZE + BYE


def test_a_client_that_resets_its_connection_is_ended_behind_too(port, behind):
    sock = dial(port)
    sock.sendall(INITIALIZE)
    sock.recv(10)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
    assert behind.ended.wait(300)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 100,
        b"GARBAGE\r\n\r\n",
        b"Content-Length: 70000\r\n\r\n",
        b"Content-Length: 2\r\n\r\n{}",
        frames.encode({"seq": 1, "type": "request", "command": "evaluate"}),
        frames.encode({"seq": 1, "type": "event", "event": "initialize"}),
        INITIALIZE[:-1],
    ],
)
@pytest.mark.usefixtures("impatient")
def test_anything_else_is_closed_and_never_reaches_the_adapter(port, behind, data):
    with dial(port) as sock:
        sock.sendall(data)
        assert sock.recv(100) == b""
    assert behind.received == []


def test_status_and_health_are_answered_in_plain_http(port, behind):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/status") as answer:
        assert json.load(answer)["name"] == "job"
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
        assert (answer.status, json.load(answer)) == (200, {"state": "waiting", "client": False})
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/")
    assert behind.received == []


@pytest.mark.parametrize("comes", [True, False])
def test_a_client_that_comes_before_the_adapter_waits_and_is_told_so_and_is_shown_an_error_where_none_comes(
    behind, monkeypatch, comes
):
    monkeypatch.setattr(relay, "BACKEND_TIMEOUT_S", 30.0 if comes else 0.1)
    monkeypatch.setattr(relay, "BACKEND_NOTICE_S", 0.05 if comes else 300.0)  # without a notice that it waits
    up = threading.Event()
    one = open_listener(lambda: behind.listener.getsockname()[1] if up.is_set() else 0)
    with dial(one.port) as sock:
        sock.sendall(INITIALIZE)
        if comes:
            assert b"waiting for debugpy's adapter, up to 30 s" in sock.recv(4096)
            up.set()
            assert sock.recv(4096) == INITIALIZE
        else:
            (answer,) = messages_of(sock)
            assert (answer["command"], answer["success"]) == ("initialize", False)
            assert answer["body"]["error"]["showUser"] is True
            assert "did not come up within 0.1 s" in answer["message"]
    one.stop()


def test_a_disconnect_is_answered_that_comes_while_the_end_is_being_told(monkeypatch):
    """Regression: the thread that sent `terminated` closed the connection before the answer to the disconnect."""
    say_goodbye, to_client = relay.Relay._say_goodbye, relay.Relay.to_client

    def after_the_disconnect(self):
        wait_for(lambda: self._broker.phase, lambda phase: phase == connection.CLOSED)
        say_goodbye(self)

    def late(self, body):
        if b'"disconnect"' in body:  # until the other thread waits, or has closed the connection
            wait_for(lambda: self._lock._waiters or not self._answers.is_alive(), bool)  # type: ignore[attr-defined]
        to_client(self, body)

    monkeypatch.setattr(relay, "LEAVE_TIMEOUT_S", 300.0)
    monkeypatch.setattr(relay.Relay, "_say_goodbye", after_the_disconnect)
    monkeypatch.setattr(relay.Relay, "to_client", late)
    adapter = Dying()
    one = open_listener(lambda: adapter.listener.getsockname()[1])
    answered = []
    with dial(one.port) as sock:
        sock.sendall(INITIALIZE + request(2, "attach", subProcessId=7))
        for message in messages_of(sock):
            if message.get("event") == "terminated":
                sock.sendall(request(3, "disconnect"))
            answered.append((message.get("command"), message.get("success")))
    one.stop()
    adapter.listener.close()
    assert answered[-1] == ("disconnect", True)


def test_more_silent_connections_than_allowed_do_not_pile_up(port, monkeypatch):
    before = threading.active_count()
    monkeypatch.setattr(listener, "FIRST_FRAME_TIMEOUT_S", 300.0)
    idle = [dial(port) for _ in range(listener.MAX_PENDING + 20)]
    assert [sock.recv(1) for sock in idle[:20]] == [b""] * 20  # the newest have replaced the oldest
    wait_for(lambda: threading.active_count() - before, lambda more: more <= listener.MAX_PENDING + 1)
    for sock in idle:
        sock.close()
    # They are closed after the timeout of the first request.
    monkeypatch.setattr(listener, "FIRST_FRAME_TIMEOUT_S", 0.4)
    monkeypatch.setattr(listener, "GREETING_AFTER_S", 0.1)
    idle = [dial(port) for _ in range(listener.MAX_PENDING)]
    assert [sock.recv(1) for sock in idle] == [b""] * len(idle)
    assert _answer(port) == INITIALIZE[:5]
    for sock in idle:
        sock.close()


def test_a_connection_that_was_accepted_before_the_end_is_closed_too(behind):
    one = open_listener(lambda: behind.listener.getsockname()[1])
    ours, theirs = socket.socketpair()
    with ours, theirs:
        one.stop()
        assert not one._take(ours, "127.0.0.1")
        assert one.connections == 0


def test_a_refused_peer_is_closed_and_logged_once(behind, monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr(peers, "refusal", lambda *_: "it is a neighbour")
    monkeypatch.setattr(listener, "REFUSAL_LOG_INTERVAL_S", 300.0)
    one = open_listener(lambda: behind.listener.getsockname()[1], log=lines.append)
    for _ in range(5):
        with dial(one.port) as sock:
            sock.sendall(INITIALIZE)
            with contextlib.suppress(ConnectionResetError):
                assert sock.recv(10) == b""
    one.stop()
    assert lines == [
        "refused a connection from 127.0.0.1: it is a neighbour; set DKDBG_ALLOW=127.0.0.1 to accept it"
    ]
    assert behind.received == []


@pytest.mark.parametrize(
    ("head", "code"),
    [
        ("GET /status HTTP/1.1\r\nHost: 127.0.0.1:5678\r\n\r\n", 200),
        ("GET /status HTTP/1.1\r\nhost:[::1]:5678\r\n\r\n", 200),
        ("GET /status HTTP/1.1\r\nHost: LOCALHOST\r\n\r\n", 200),
        ("GET /status HTTP/1.1\r\nHost: 10.0.0.7\r\nSec-Fetch-Site: none\r\n\r\n", 200),
        ("GET /status\r\n\r\n", 200),
        ("GET /status HTTP/1.0\r\n\r\n", 200),
        ("GET /status HTTP/1.1\r\nHost: trainer:5678\r\n\r\n", 421),
        ("GET /status HTTP/1.1\r\nHost: 127.0.0.1.attacker.test\r\n\r\n", 421),
        ("GET /status HTTP/1.1\r\nHost: localhost.attacker.test\r\n\r\n", 421),
        ("GET /status HTTP/1.1\r\nHost:\r\n\r\n", 421),
        ("GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: attacker.test\r\n\r\n", 421),
        ("GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: null\r\n\r\n", 403),
        ("GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nSec-Fetch-Site: cross-site\r\n\r\n", 403),
        ("GET /status HTTP/1.1\r\n" + "X: y\r\n" * 2000 + "Host: attacker.test\r\n\r\n", 400),
    ],
)
def test_http_is_answered_at_an_address_and_to_no_web_page(port, head, code):
    with dial(port) as sock, sock.makefile("rb") as answer:
        sock.sendall(head.encode())
        assert int(answer.readline().split()[1]) == code
        said = answer.read().partition(b"\r\n\r\n")[2]
    assert (b"waiting" in said) is (code == 200)
