"""`dkdbg attach --listen` waits on an open network: who has no token gets nothing from it, and keeps nobody out."""

import contextlib
import json
import os
import queue
import secrets
import socket
import ssl
import tempfile
import threading
import time
from pathlib import Path

import pytest

from dkdbg.agent.proxy.listener import proof
from dkdbg.agent.relay import secure_channel
from dkdbg.targets.reverse import certificate
from dkdbg.targets.reverse.jobs import MAX_PENDING, JobListener
from dkdbg.targets.reverse.query_server import QueryServer, servers
from tests.agent.dap_probe import wait_for

TOKEN = secrets.token_hex(32)
ABOUT = json.dumps({"id": "a-1", "name": "a", "port": 1})


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    return certificate.load(tmp_path_factory.mktemp("own") / "listen.pem")


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return certificate.load(tmp_path_factory.mktemp("other") / "listen.pem")


class Waiting:
    def __init__(self, own: certificate.Certificate) -> None:
        self.fingerprint = own.fingerprint
        self.arrived: queue.Queue[str] = queue.Queue()
        self.log: list[str] = []
        self.made = []
        self.listener = JobListener("127.0.0.1", 0, TOKEN, own, arrived=self._arrived, log=self.log.append)
        self.listener.start()

    def _arrived(self, job) -> None:
        self.made.append(job)
        self.arrived.put(job.about.name)

    def connect(self) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self.listener.port), 120)
        sock.settimeout(300)
        return sock

    def call(self, sock: socket.socket, token: str = TOKEN) -> secure_channel.SecureChannel:
        return secure_channel.call(sock, token, self.fingerprint)

    def close(self) -> None:
        self.listener.close()
        for each in self.made:
            each.close()


@pytest.fixture
def waiting(own):
    made = Waiting(own)
    yield made
    made.close()


def said_to(sock: socket.socket) -> bytes:
    data = b""
    with contextlib.suppress(ConnectionError):
        while more := sock.recv(1 << 16):
            data += more
    return data


def is_open(sock: socket.socket) -> bool:
    sock.settimeout(0)
    with contextlib.suppress(ConnectionError):
        try:
            while sock.recv(1 << 16):
                pass
        except BlockingIOError:
            return True
    return False


class Stranger(secure_channel.SecureChannel):
    """A client that minds no fingerprint and has no token."""

    def __init__(self, sock: socket.socket) -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        super().__init__(sock, context, server_side=False)
        self.end = self.handshake()


def hello() -> bytes:
    """The ClientHello of a job."""
    sent = ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="here")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return sent.read()


@pytest.mark.attack(0)
def test_a_stranger_hears_a_handshake_and_one_number_from_a_waiting_door_and_nothing_more(waiting):
    """Calls `attach --listen` with garbage, HTTP, TLS 1.2, a wrong token, all that a job has sent before: the most he gets is a TLS handshake and a number."""
    for words in (
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        os.urandom(5000),
        b"\n" * 5,
        b"\x16\x03\x01\xff\xff" + b"\0" * 9,
    ):
        with waiting.connect() as sock:
            sock.sendall(words)
            sock.shutdown(socket.SHUT_WR)
            assert said_to(sock) == b""
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode, old.maximum_version = False, ssl.CERT_NONE, ssl.TLSVersion.TLSv1_2
    with waiting.connect() as sock, pytest.raises((ssl.SSLError, OSError)):
        old.wrap_socket(sock)
    number = "ab" * 32
    for first in ("GET / HTTP/1.1", f"{secure_channel.GREETING} {number[:-2]}", "x" * 5000):
        with waiting.connect() as sock:
            stranger = Stranger(sock)
            stranger.say(first)
            with pytest.raises(secure_channel.ChannelError, match="closed"):
                stranger.hear(100, stranger.end)
    with waiting.connect() as sock:
        stranger = Stranger(sock)
        stranger.say(f"{secure_channel.GREETING} {number}\n{'0' * 64}")
        greeting, theirs = stranger.hear(100, stranger.end).split()
        assert (greeting, len(theirs)) == (secure_channel.GREETING, 64)
        assert stranger.hear(100, stranger.end) == "no"
        with pytest.raises(secure_channel.ChannelError, match="closed"):
            stranger.hear(100, stranger.end)
    heard = Tap(waiting)
    with heard.sock, waiting.connect() as sock:
        first = 5 + int.from_bytes(heard.sent[3:5], "big")
        sock.sendall(heard.sent[:first])
        assert tls_records(sock.recv(1 << 16))[0] == 0x16  # with other keys than those of the job
        sock.sendall(heard.sent[first:])
        assert said_to(sock) == b""
    with waiting.connect() as sock, pytest.raises(secure_channel.ChannelError, match="token"):
        waiting.call(sock, "f" * 64)
    assert waiting.arrived.qsize() == 1  # the one who was listened to
    assert not any(TOKEN in line for line in waiting.log)


@pytest.mark.attack(0)
def test_a_man_in_the_middle_gets_nothing_of_a_job_and_nothing_to_pass_on(waiting, own, other):
    """Answers in the place of `attach --listen` with a certificate of his own, and knows the token: the job sends him a ClientHello and nothing else. With the right certificate and another token: he gets a proof that is good for no other connection."""
    for shown, token, what in ((other, TOKEN, "certificate"), (own, "f" * 64, "token")):
        with socket.create_server(("127.0.0.1", 0)) as server:
            heard: queue.Queue[object] = queue.Queue()

            def pretend(server=server, shown=shown, token=token, heard=heard):
                sock, _ = server.accept()
                with Listened(sock) as sock:
                    with contextlib.suppress(secure_channel.ChannelError):
                        secure_channel.answer(sock, token, shown.context, shown.fingerprint)
                    heard.put(bytes(sock.heard))

            threading.Thread(target=pretend, daemon=True).start()
            with (
                socket.create_connection(server.getsockname()) as sock,
                pytest.raises(secure_channel.ChannelError, match=what),
            ):
                waiting.call(sock)
            records = tls_records(heard.get(timeout=300))
        if shown is other:
            assert records == [0x16]  # the ClientHello
    with waiting.connect() as sock:  # a proof for another certificate
        channel = Stranger(sock)
        mine = "ab" * 32
        channel.say(f"{secure_channel.GREETING} {mine}")
        theirs = channel.hear(100, channel.end).split()[1]
        channel.say(proof.Exchange(f"call {other.fingerprint}", mine, theirs).of_client(TOKEN))
        assert channel.hear(100, channel.end) == "no"
        with pytest.raises(secure_channel.ChannelError, match="closed"):
            channel.hear(100, channel.end)
    assert waiting.arrived.empty()


class Listened(socket.socket):
    """A socket that keeps all that it hears."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(fileno=sock.detach())
        self.heard = bytearray()

    def recv(self, *args):
        data = super().recv(*args)
        self.heard += data
        return data


def tls_records(data: bytes) -> list[int]:
    """The types of the records in what was sent."""
    found = []
    while data:
        found.append(data[0])
        data = data[5 + int.from_bytes(data[3:5], "big") :]
    return found


@pytest.mark.attack(0)
def test_an_agent_from_before_tls_is_refused_and_both_ends_say_why(waiting):
    """Is a job with an agent that speaks the protocol of before: it is not let in, and the terminal says that its agent is too old."""
    with waiting.connect() as sock:
        sock.sendall(f"DKDBG-CALL-1 {'ab' * 32}\n".encode())
        assert said_to(sock) == b"TLS\n"  # which it calls "it does not speak as dkdbg does"
    wait_for(lambda: "".join(waiting.log), lambda said: "older than this one" in said)


class Tap:
    """A client that knows the token, and all that he sends."""

    def __init__(self, waiting: Waiting) -> None:
        here, there = socket.socketpair()
        self.sock, self.sent = waiting.connect(), bytearray()

        def pass_on(source, target, heard):
            with contextlib.suppress(OSError):
                while data := source.recv(1 << 16):
                    heard += data
                    target.sendall(data)

        for source, target, heard in ((there, self.sock, self.sent), (self.sock, there, bytearray())):
            threading.Thread(target=pass_on, args=(source, target, heard), daemon=True).start()
        line = waiting.call(Unnamed(here))
        line.say(ABOUT)
        waiting.arrived.get(timeout=300)
        waiting.arrived.put("a")


class Unnamed(socket.socket):
    """One end of a pair, which has no TCP to set options of."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(fileno=sock.detach())

    def setsockopt(self, *_: object) -> None:  # type: ignore[override]
        """Nothing."""


@pytest.mark.attack(0)
def test_a_flood_of_silent_connections_keeps_no_job_out_and_grows_nothing(waiting):
    """Opens hundreds of connections to `attach --listen` and says nothing, or slowly, or stops in the middle of a TLS handshake: a job that calls meanwhile is served."""
    open_ = [waiting.connect() for _ in range(MAX_PENDING * 6)]
    begun = hello()
    for each in open_[::2]:
        with contextlib.suppress(OSError):
            each.sendall(begun[:20] if each in open_[::4] else begun)
    wait_for(  # of those that were let go the threads are ending
        lambda: sum(each.name == "dkdbg job" for each in threading.enumerate()),
        lambda count: count <= MAX_PENDING,
    )
    with waiting.connect() as sock:
        waiting.call(sock).say(ABOUT)
        assert waiting.arrived.get(timeout=300) == "a"
    assert len(waiting.log) < 10
    for each in open_:
        each.close()


@pytest.mark.attack(0)
def test_a_client_that_stalls_in_the_handshake_or_after_it_is_let_go(waiting, monkeypatch):
    """Sends a ClientHello byte by byte, or ends the handshake and says nothing: bytes that trickle in win it no time."""
    monkeypatch.setattr(secure_channel, "INTRODUCTION_TIMEOUT_S", 1.0)
    with waiting.connect() as sock, contextlib.suppress(ConnectionError):
        for byte in hello()[:-1] * 100:
            if not is_open(sock):
                break
            sock.sendall(bytes([byte]))
            time.sleep(0.1)
        assert not is_open(sock)
    monkeypatch.setattr(secure_channel, "INTRODUCTION_TIMEOUT_S", 5.0)
    with waiting.connect() as sock:
        stranger = Stranger(sock)
        stranger.say(f"{secure_channel.GREETING} {'ab' * 32}")
        end = time.monotonic() + 300
        assert stranger.hear(100, end).startswith(secure_channel.GREETING)
        with pytest.raises(secure_channel.ChannelError, match="closed"):
            stranger.hear(100, end)


@pytest.mark.attack(0)
def test_a_job_gets_no_line_of_another_one(waiting):
    """Is a job with the token, and calls under another job's id: it is one more target, and the other's line stays as it is."""
    about = {"id": "a-1", "name": "a", "port": 1}

    def called(**key):
        sock = waiting.connect()
        line = waiting.call(sock)
        line.say(json.dumps({**about, **key}))
        assert line.hear(200, time.monotonic() + 300).startswith("dkdbg-")  # its relay begins
        return sock

    with called(key="ab" * 16) as victim:
        for key in ({"key": "cd" * 16}, {"key": ""}, {}):
            with called(**key):
                pass
        assert [waiting.arrived.get(timeout=300) for _ in range(3)] == ["a"] * 3
        assert is_open(victim)
        with called(key="ab" * 16):  # after a cut the job itself goes on
            victim.settimeout(300)
            said_to(victim)
    assert waiting.arrived.empty()
    waiting.made.pop(0).close()  # another one of that name came while it was cut
    with called(key="ab" * 16):
        assert waiting.arrived.get(timeout=300) == "a"


#: Connects to a Unix socket and prints what it says to a question; or why it cannot.
ASKS = """
import socket, sys
sock = socket.socket(socket.AF_UNIX)
try:
    sock.connect(sys.argv[1])
    sock.settimeout(300)
    try:
        sock.sendall(b"{}\\n")
        print("heard", sock.recv(1000))
    except ConnectionError:
        print("heard", b"")
except PermissionError:
    print("no way")
"""


#: Listens there, and prints what it hears.
LISTENS = """
import socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.bind(sys.argv[1])
sock.listen()
print("listens", flush=True)
client, _ = sock.accept()
client.settimeout(300)
print(client.recv(100), flush=True)
"""


@pytest.mark.attack(0)
def test_another_user_queries_no_job_through_a_waiting_attach_and_impersonates_none(monkeypatch, other_user):
    """Another user connects to the socket through which `ps` and `where` ask jobs, also where its folder was opened by a mistake, and
    listens where they look for it: he hears nothing, and is told no question."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("DKDBG_RUNTIME_DIR", folder)
        left = Path(folder, "calls-1.sock")  # of one that was killed
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(left))
        desk = QueryServer(dict, editor=5678)
        desk.start()
        try:
            ((path, jobs),) = servers()
            assert (jobs, left.exists()) == ([], False)
            assert other_user.python(ASKS, path).stdout == "no way\n"
            Path(folder).chmod(0o711)
            Path(path).chmod(0o666)
            assert other_user.python(ASKS, path).stdout == "heard b''\n"
        finally:
            desk.close()
        assert not list(Path(folder).iterdir())
        Path(folder).chmod(0o777)
        with other_user.begun(LISTENS, str(left)) as running:
            assert running.stdout.readline() == "listens\n"
            assert list(servers()) == []
            assert running.stdout.readline() == "b''\n"
