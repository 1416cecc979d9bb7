"""`dkdbg attach --listen` waits on an open network: who has no token gets nothing from it, and keeps nobody out."""

import contextlib
import json
import os
import queue
import secrets
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

from dkdbg.agent.relay import sealed
from dkdbg.targets.reverse.jobs import NEWCOMERS, Callers
from dkdbg.targets.reverse.query_server import Desk, desks

TOKEN = secrets.token_hex(32)
ABOUT = json.dumps({"id": "a-1", "name": "a", "port": 1})


class Waiting:
    def __init__(self) -> None:
        self.arrived: queue.Queue[str] = queue.Queue()
        self.log: list[str] = []
        self.made = []
        self.callers = Callers("127.0.0.1", 0, TOKEN, arrived=self._arrived, log=self.log.append)
        self.callers.start()

    def _arrived(self, caller) -> None:
        self.made.append(caller)
        self.arrived.put(caller.about.name)

    def connect(self) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self.callers.port), 120)
        sock.settimeout(300)
        return sock

    def close(self) -> None:
        self.callers.close()
        for each in self.made:
            each.close()


@pytest.fixture
def waiting():
    made = Waiting()
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


@pytest.mark.attack(0)
def test_a_stranger_hears_one_number_from_a_waiting_door_and_nothing_more(waiting):
    """Calls `attach --listen` with garbage, HTTP, a wrong token, a proof that he has heard before: all he gets is a number."""
    hello = f"{sealed.GREETING} {'ab' * 32}\n".encode()
    for words in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(5000), b"\n", hello[:-10] + b"\n"):
        with waiting.connect() as sock:
            sock.sendall(words)
            assert said_to(sock) == b""
    with waiting.connect() as sock:
        sock.sendall(hello + b"0" * 64 + b"\n")
        said = said_to(sock)
        assert said.startswith(sealed.GREETING.encode())
        assert len(said) == len(hello)
    heard = Tap(waiting)
    with heard.sock, waiting.connect() as sock:
        sock.sendall(bytes(heard.sent))
        assert len(said_to(sock)) == len(hello)
    with waiting.connect() as sock, pytest.raises((sealed.SealError, OSError)):
        sealed.introduce(sock, "f" * 64, calls=True)
    assert waiting.arrived.qsize() == 1  # the one who was listened to
    assert not any(TOKEN in line for line in waiting.log)


class Tap:
    """A caller who knows the token, and all that he sends."""

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
        line = sealed.introduce(Unnamed(here), TOKEN, calls=True)
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
def test_a_flood_of_silent_callers_keeps_no_job_out_and_grows_nothing(waiting):
    """Opens hundreds of connections to `attach --listen` and says nothing, or slowly: a job that calls meanwhile is served."""
    open_ = [waiting.connect() for _ in range(NEWCOMERS * 6)]
    for each in open_[::2]:
        with contextlib.suppress(OSError):
            each.sendall(b"D")
    end = time.monotonic() + 300
    while True:  # of those that were let go the threads are ending
        threads = sum(each.name == "dkdbg caller" for each in threading.enumerate())
        if threads <= NEWCOMERS:
            break
        assert time.monotonic() < end, threads
        time.sleep(0.01)
    with waiting.connect() as sock:
        sealed.introduce(sock, TOKEN, calls=True).say(ABOUT)
        assert waiting.arrived.get(timeout=300) == "a"
    assert len(waiting.log) < 10
    for each in open_:
        each.close()


@pytest.mark.attack(0)
def test_a_job_gets_no_line_of_another_one(waiting):
    """Is a job with the token, and calls under another job's id: it is one more target, and the other's line stays as it is."""
    about = {"id": "a-1", "name": "a", "port": 1}

    def called(**key):
        sock = waiting.connect()
        line = sealed.introduce(sock, TOKEN, calls=True)
        line.say(json.dumps({**about, **key}))
        assert line.hear(200, 300).startswith("dkdbg-")  # its relay begins
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


@pytest.mark.attack(0)
def test_a_job_calls_nobody_who_does_not_know_the_token(waiting):
    """Listens in the place of `attach --listen`: the job proves itself to nobody's use, and gets no proof back: it hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        said: list[bytes] = []

        def pretend():
            sock, _ = server.accept()
            with sock:
                said.append(sock.makefile("rb").readline())
                sock.sendall(f"{sealed.GREETING} {'ab' * 32}\n{'c' * 64}\n".encode())
                said.append(said_to(sock))

        thread = threading.Thread(target=pretend, daemon=True)
        thread.start()
        with (
            socket.create_connection(server.getsockname()) as sock,
            pytest.raises(sealed.SealError, match="does not know"),
        ):
            sealed.introduce(sock, TOKEN, calls=True)
        thread.join(300)
        assert TOKEN.encode() not in b"".join(said)
        assert len(said[1]) == 65  # a proof, for this connection alone
        with waiting.connect() as sock:  # which is not good for another one
            sock.sendall(said[0])
            sock.recv(200)
            sock.sendall(said[1])
            assert said_to(sock) == b""


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
def test_another_user_asks_no_job_through_a_waiting_door_and_answers_in_the_place_of_none(
    monkeypatch, other_user
):
    """Another user connects to the socket through which `ps` and `where` ask jobs, also where its folder was opened by a mistake, and
    listens where they look for it: he hears nothing, and is told no question."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("DKDBG_RUNTIME_DIR", folder)
        left = Path(folder, "calls-1.sock")  # of one that was killed
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(left))
        desk = Desk(dict, editor=5678)
        desk.start()
        try:
            ((path, jobs),) = desks()
            assert (jobs, left.exists()) == ([], False)
            assert other_user.python(ASKS, path).stdout == "no way\n"
            Path(folder).chmod(0o711)
            Path(path).chmod(0o666)
            assert other_user.python(ASKS, path).stdout == "heard b''\n"
        finally:
            desk.close()
        assert not list(Path(folder).iterdir())
        Path(folder).chmod(0o777)
        words = [other_user.interpreter(), "-c", LISTENS, str(left)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, **other_user.popen()) as running:
            try:
                assert running.stdout.readline() == "listens\n"
                assert list(desks()) == []
                assert running.stdout.readline() == "b''\n"
            finally:
                running.kill()
