"""The relay alone, without ssh: its command runs on this machine, is killed, stopped, and replaced by what is hostile."""

import array
import contextlib
import hashlib
import json
import os
import random
import shlex
import signal
import socket
import stat
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dkdbg.agent.relay import keeper as keepers
from dkdbg.agent.relay import program as programs
from dkdbg.agent.relay import wire
from dkdbg.agent.relay.keeper import SECRET, Keeper
from dkdbg.relay.relay import Relay, _Loop
from tests.agent.dap_probe import wait_for
from tests.ports import free_port
from tests.processes import children

AGENT = [sys.executable, "-m", "dkdbg.agent", "relay"]


class Far:
    """What a relay leads to: a server of ours on loopback, and the transports that were started."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._server = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port: int = self._server.getsockname()[1]
        self.accepted: list[socket.socket] = []

    def command(self, word: str, silent: bool, limit: float) -> list[str]:  # noqa: ARG002
        self.words.append(word)
        return [*AGENT, word]

    def transports(self) -> list[int]:
        return children(os.getpid(), self.words[-1]) if self.words else []

    def signal(self, number: int) -> None:
        for each in wait_for(self.transports, bool):
            os.kill(each, number)

    def accept(self) -> socket.socket:
        self._server.settimeout(300)
        client, _ = self._server.accept()
        self.accepted.append(client)
        return client

    def echo(self) -> None:
        def serve():
            with contextlib.suppress(OSError):
                while True:
                    client, _ = self._server.accept()
                    threading.Thread(target=_echo, args=(client,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()

    def close(self) -> None:
        self._server.close()
        for each in self.accepted:
            each.close()


def _echo(client: socket.socket) -> None:
    with client, contextlib.suppress(OSError):
        while data := client.recv(1 << 16):
            client.sendall(data)
        client.shutdown(socket.SHUT_WR)


@pytest.fixture
def far():
    made = Far()
    yield made
    made.close()


@pytest.fixture
def relay(far):
    made = Relay(far.command)
    yield made
    made.close()


def connect(relay: Relay, port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", relay.listen(port)), 10)
    client.settimeout(300)
    return client


def exactly(client: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = client.recv(size - len(data))
        assert more, len(data)
        data += more
    return bytes(data)


def ends(client: socket.socket) -> bool:
    client.settimeout(300)
    try:
        return client.recv(100) == b""
    except ConnectionError:
        return True


def test_bytes_pass_both_ways_and_each_direction_ends_by_itself(far, relay):
    far.echo()
    local = relay.listen(far.port)
    data = os.urandom(3 << 20)

    def once(answers):
        with socket.create_connection(("127.0.0.1", local), 30) as client:
            sender = threading.Thread(target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR)))
            sender.start()
            digest = hashlib.sha256()
            while more := client.recv(1 << 16):
                digest.update(more)
            sender.join()
            answers.append(digest.digest())

    answers: list[bytes] = []
    threads = [threading.Thread(target=once, args=(answers,)) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(300)
    assert answers == [hashlib.sha256(data).digest()] * 4


def test_a_connection_outlives_transports_that_are_killed_in_the_middle_of_it(far, relay):
    far.echo()
    client = connect(relay, far.port)
    data = os.urandom(12 << 20)
    sender = threading.Thread(target=client.sendall, args=(data,))
    sender.start()
    got = bytearray()
    for part in range(4):
        got += exactly(client, (part + 1) * len(data) // 6 - len(got))
        before = len(far.words)
        far.signal(signal.SIGKILL)
        wait_for(lambda before=before: len(far.words) > before, bool)
    got += exactly(client, len(data) - len(got))
    sender.join(300)
    client.close()
    assert bytes(got) == data


#: Stands for ssh: carries between us and the command that it is given.
CARRIER = """
import os, subprocess, sys, threading
far = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def carry(source, target):
    while data := os.read(source, 1 << 16):
        os.write(target, data)
    os._exit(0)
threading.Thread(target=carry, args=(0, far.stdin.fileno())).start()
carry(far.stdout.fileno(), 1)
"""


def test_a_transport_that_falls_silent_is_replaced(far, monkeypatch):
    def carried(word, *_):
        return [sys.executable, "-c", CARRIER, *Far.command(far, word, False, 0)]

    monkeypatch.setattr(far, "command", carried)
    far.echo()
    with contextlib.closing(Relay(far.command)) as relay, connect(relay, far.port) as client:
        client.sendall(b"a")
        assert client.recv(1) == b"a"
        (stopped,) = wait_for(far.transports, bool)
        began = time.monotonic()
        os.kill(stopped, signal.SIGSTOP)
        client.sendall(b"b")
        assert client.recv(1) == b"b"
        assert time.monotonic() - began > 1  # it was not answered by the one that was stopped
        wait_for(lambda: not Path(f"/proc/{stopped}").exists(), bool)


def test_who_does_not_read_makes_nobody_else_wait_and_is_not_stored(far, relay):
    client = connect(relay, far.port)
    client.sendall(b"x")
    server = far.accept()
    server.settimeout(0.5)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 100 << 20:
            sent += server.send(bytes(1 << 16))
    assert sent < 20 << 20, sent
    far.echo()
    second = socket.create_connection(("127.0.0.1", relay.listen(far.port)), 10)
    second.sendall(b"b")
    second.settimeout(300)
    assert second.recv(1) == b"b"
    second.close()
    assert exactly(client, sent) == bytes(sent)
    client.close()


def test_a_port_where_nothing_listens_ends_the_connection(relay):
    with connect(relay, free_port()) as client:
        assert ends(client)


def test_short_pieces_are_answered_at_once(far, tmp_path):
    """What flows back takes TCP's acknowledgement along: a jump host's sshd holds the next short piece until it has come."""
    said = tmp_path / "said"

    def command(word, silent, limit):
        return ["sh", "-c", f'tee "$0" | {shlex.join(far.command(word, silent, limit))}', str(said)]

    made = Relay(command)
    try:
        with connect(made, far.port) as client, far.accept() as server:
            server.sendall(b"stopped")
            assert exactly(client, 7) == b"stopped"
            wait_for(lambda: any(wire.counted(payload) for payload in pongs(said)), bool)
    finally:
        made.close()


def test_who_sends_short_pieces_and_reads_no_answer_makes_none_pile_up():
    """The attack of a hostile far side: a frame at a time, and its end of our pipe is never read."""
    loop = _Loop(lambda: None, lambda *_: None, None)
    (reads, says), (hears, writes) = os.pipe(), os.pipe()
    for each in (reads, writes):
        os.set_blocking(each, False)
    try:
        loop.join(reads, writes)
        os.write(says, wire.hello(b"k" * len(wire.NO_KEEPER_ID), 0))
        for _ in range(20_000):  # five times what the pipe holds of answers
            loop.turn(0)
            os.write(says, wire.pack(wire.PONG, 0, wire.count(0)))
        assert loop.counting.out.size < 100
        assert loop.has_transport
    finally:
        loop.end()
        for each in (reads, says, hears, writes):
            os.close(each)


def pongs(said: Path) -> list[bytes]:
    """The payloads of the PONGs among frames that were written down, after the line of secrets."""
    _, _, raw = said.read_bytes().partition(b"\n") if said.exists() else (b"", b"", b"")
    return [payload for kind, _, payload in wire.Parser().feed(raw) if kind == wire.PONG]


def test_at_the_end_keeper_socket_and_connections_are_gone(far):
    relay = Relay(far.command)
    mine = Path(f"/tmp/dkdbg-relay-{os.getuid()}") / relay._name  # others lie there too
    client = connect(relay, far.port)
    server = far.accept()
    assert mine.exists()
    relay.close()
    assert ends(client)
    assert ends(server)
    wait_for(lambda: not mine.exists(), bool)
    client.close()


#: A relay; the keeper of another one ends just after it has looked for the folder of the sockets.
EMPTIED = """
import os, sys
from dkdbg.agent.relay import stdio

def emptied(_):
    os.mkdir(sys.argv[2])
    os.rmdir(sys.argv[2])
    return sys.argv[2]

stdio.runtime_dir.private_folder = emptied
sys.exit(stdio.main([sys.argv[1]]))
"""


def test_a_relay_starts_where_the_keeper_of_another_one_removes_the_folder_at_its_end(far, tmp_path):
    folder = tmp_path / "r"
    relay = Relay(lambda word, _silent, _limit: [sys.executable, "-c", EMPTIED, word, str(folder)])
    try:
        with connect(relay, far.port):
            assert far.accept()
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert relay.connections == 1
    finally:
        relay.close()


def test_another_user_of_this_machine_is_not_let_in(far, relay, other_user):
    local = relay.listen(far.port)
    asks = (
        f"import socket; s = socket.create_connection(('127.0.0.1', {local}), 10); s.settimeout(300)\n"
        "try:\n    s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n'); print(s.recv(10))\nexcept ConnectionError:\n    print(b'')\n"
    )
    done = other_user.python(asks, timeout=300)
    assert done.stdout == "b''\n", done.stderr
    with connect(relay, far.port):  # and nothing of it arrived before this one
        assert far.accept()


def test_nothing_is_sent_to_what_another_user_over_there_listens_with(relay, other_user):
    """Where an agent has ended, its port is anybody's."""
    program = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)\n"
        "c, _ = s.accept(); c.settimeout(300); print(c.recv(100), flush=True)\n"
    )
    with other_user.begun(program) as squatter:
        with connect(relay, int(squatter.stdout.readline())) as client:
            with contextlib.suppress(ConnectionError):
                client.sendall(b"secret")
            assert ends(client)
        assert squatter.stdout.readline() == "b''\n"


# -- hostile ends --------------------------------------------------------------------------------------------------------


def frames(chance: random.Random) -> bytes:
    said = b""
    for _ in range(chance.randint(1, 12)):
        kind = chance.choice([*wire.COUNTED, wire.HELLO, wire.PING, wire.PONG, wire.BYE, 0, 99])
        channel = chance.choice([0, 1, 1, 1, 2, 3, 1 << 31])
        size = chance.choice([0, 1, 2, 4, 8, 25, 500, 501, 1 << 16, (1 << 16) + 1])
        body = chance.choice([bytes(size), chance.randbytes(size), b"\xff" * size])
        if kind == wire.HELLO and chance.random() < 0.9:
            greeting = (
                chance.choice([1, 1, 1, 2]),
                chance.choice([bytes(16), b"k" * 16]),
                chance.choice([0, 0, 1, 1 << 63]),
            )
            body = struct.pack(">B16sQ", *greeting)
        if kind in {wire.PING, wire.PONG} and chance.random() < 0.9:
            body = struct.pack(">Q", chance.choice([0, 1, 2, 1 << 63]))
        frame = wire.pack(kind, channel, body)
        cut = [frame[:-1], chance.randbytes(20), struct.pack(">BII", kind, channel, 0xFFFFFFFF)]
        said += chance.choice([frame, frame, frame, *cut])
    return said


HOSTILE = """
import os, sys, random
word, seed = sys.argv[1], int(sys.argv[2])
sys.stdin.buffer.readline()
os.write(1, word.encode() + b"\\n")
os.write(1, bytes.fromhex(sys.argv[3]))
os.read(0, 1 << 16)
"""


@contextlib.contextmanager
def transport(path: str, client: socket.socket, secret: bytes, streams: int = 2) -> Iterator[socket.socket]:
    """Connect to a keeper and hand it the streams of a transport; their other end."""
    client.connect(path)
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            handed = array.array("i", [theirs.fileno()] * streams)
            client.sendmsg([secret], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handed)] if streams else [])
        yield ours


def test_a_hostile_far_side_reaches_nothing_but_its_own_connections(far):
    chance = random.Random(7)
    greeting = wire.hello(b"k" * 16, 0)
    tries: list[bytes] = []

    def command(word, silent, limit):  # noqa: ARG001
        said = chance.choice([b"", greeting, greeting]) + frames(chance)
        tries.append(said)
        return [sys.executable, "-I", "-S", "-c", HOSTILE, word, "0", said[:40000].hex()]

    threads = threading.active_count()
    relay = Relay(command)
    local = relay.listen(far.port)
    wanted = int(os.environ.get("DKDBG_TEST_FUZZ", "25"))
    end = time.monotonic() + 300
    while len(tries) < wanted:
        assert time.monotonic() < end, (len(tries), relay.why)
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", local), 5) as client:
            client.sendall(b"hello")
            client.settimeout(0.3)
            client.recv(1 << 20)
    relay.close()
    wait_for(lambda: threading.active_count() <= threads, bool)
    far._server.setblocking(False)
    with pytest.raises(BlockingIOError):  # nobody was connected to
        far._server.accept()


@pytest.fixture
def short_waits(monkeypatch):
    """A keeper that waits half a second for what does not come."""
    for name, seconds in (("GRACE", 0.5), ("FIRST_GRACE", 0.5), ("_TURN", 0.05)):
        monkeypatch.setattr(keepers, name, seconds)


def a_keeper(folder: Path, *, runs_in: Path = Path("/")) -> tuple[threading.Thread, str, bytes]:
    """One that serves: its thread, the path of its socket in a folder of its own, and its secret."""
    folder.mkdir()
    path, secret = str(folder / "s"), os.urandom(SECRET)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    keeper = threading.Thread(target=Keeper(listener, path, secret, str(runs_in)).run, daemon=True)
    keeper.start()
    return keeper, path, secret


def test_a_keeper_hears_nobody_without_its_secret_and_ends_after_nonsense(tmp_path, monkeypatch):
    # Who says no more is known by that; on a machine that stands still for some seconds a right secret comes late.
    monkeypatch.setattr(keepers, "_SECRET_LIMIT", 300.0)
    chance = random.Random(11)
    for number in range(12):
        keeper, path, secret = a_keeper(tmp_path / f"{number}")
        for said, streams in ((b"", 2), (secret[:-1], 2), (os.urandom(SECRET), 2), (secret, 1), (secret, 0)):
            with socket.socket(socket.AF_UNIX) as client, transport(path, client, said, streams) as handed:
                client.shutdown(socket.SHUT_WR)
                assert ends(client)
                assert ends(handed)  # and what was handed over was let go
        with socket.socket(socket.AF_UNIX) as client, transport(path, client, secret) as handed:
            handed.sendall(wire.hello(wire.NO_KEEPER_ID, 0))
            assert exactly(handed, 34)
            with contextlib.suppress(OSError):
                handed.sendall(frames(chance) + b"\x00" * 20)
            keeper.join(300)
        assert not keeper.is_alive()
        assert not Path(path).parent.exists()


@pytest.mark.usefixtures("short_waits")
def test_a_keeper_that_hears_nothing_ends_and_leaves_nothing(tmp_path, far):
    keeper, path, secret = a_keeper(tmp_path / "k")
    with socket.socket(socket.AF_UNIX) as client, transport(path, client, secret) as handed:
        handed.sendall(
            wire.hello(wire.NO_KEEPER_ID, 0) + wire.pack(wire.OPEN, 1, far.port.to_bytes(2, "big"))
        )
        server = far.accept()
        assert ends(server)
        keeper.join(300)
    assert not keeper.is_alive()
    assert not Path(path).parent.exists()


@pytest.mark.usefixtures("short_waits")
def test_a_keeper_whose_relay_was_ended_while_it_connected_does_not_wait_as_long_as_for_one_that_was_cut(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(keepers, "GRACE", 120.0)
    keeper, path, secret = a_keeper(tmp_path / "k")
    with socket.socket(socket.AF_UNIX) as client, transport(path, client, secret):
        pass  # killed before its first frame
    keeper.join(100)
    assert not keeper.is_alive()
    assert not Path(path).parent.exists()


# -- a program's streams -------------------------------------------------------------------------------------------------


def order(*argv: str, **more: object) -> bytes:
    return json.dumps({"argv": argv, "terminal": None, "environment": {}, **more}).encode()


def test_a_program_runs_on_while_nobody_is_there_and_what_is_dropped_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "MAX_KEPT_BYTES", 100_000)
    heard = threading.Event()
    code = "for n in range(100000): print(n)\nopen('done', 'w')"
    program = programs.Program(programs.Order(order(sys.executable, "-c", code)), str(tmp_path), heard.is_set)
    wait_for((tmp_path / "done").exists, bool)
    wait_for(lambda: not program.is_running, bool)
    assert program.exit_code is None  # its output is still to be had
    heard.set()
    said = b"".join(iter(lambda: program.stdio.recv(1 << 16), b""))
    before, notice, after = said.partition(b"\n[dkdbg: ")
    assert notice
    numbers = after.partition(b"]\n")[2]
    assert len(before) + len(numbers) + int(after.split()[0]) == sum(len(f"{n}\n") for n in range(100000))
    assert numbers.endswith(b"99999\n")
    wait_for(lambda: program.exit_code == 0, bool)


def test_who_reads_slowly_makes_the_program_wait_and_who_reads_no_more_is_a_broken_pipe(tmp_path):
    code = "import sys\nwith open('done', 'w') as done:\n for n in range(1 << 22):\n  print('x' * 64)\n  done.seek(0); done.write(str(n)); done.flush()"
    program = programs.Program(programs.Order(order(sys.executable, "-c", code)), str(tmp_path), lambda: True)
    assert program.stdio.recv(10)
    at = -1
    while at != (at := int((tmp_path / "done").read_text() or 0)):
        time.sleep(0.5)  # it stands still at last
    program.stdio.close()
    wait_for(lambda: not program.is_running, bool)


def test_an_order_that_is_none_starts_nothing():
    for said in (
        b"", b"[]", b"{}", order(), order("a", terminal=[1]), order("a", terminal=[1, 1 << 16]), order("a\0b"),
        order("a", environment={"b": 1}), order("a", environment=[]), b"\xff\xfe", b'{"argv": "ls"}',
    ):  # fmt: skip
        with pytest.raises(wire.WireError):
            programs.Order(said)


def test_what_cannot_be_started_is_said_and_ends(tmp_path):
    program = programs.Program(programs.Order(order("no-such-program")), str(tmp_path), lambda: True)
    assert b"no-such-program" in program.stderr.recv(1000)
    assert program.stdio.recv(1) == b""
    assert (program.exit_code, program.is_running) == (126, False)


@pytest.mark.usefixtures("short_waits")
def test_a_keeper_whose_goodbye_was_lost_after_the_end_of_its_program_does_not_wait_for_a_night(tmp_path):
    keeper, path, secret = a_keeper(tmp_path / "k", runs_in=tmp_path)
    with socket.socket(socket.AF_UNIX) as client, transport(path, client, secret) as handed:
        handed.sendall(wire.hello(wire.NO_KEEPER_ID, 0) + wire.pack(wire.RUN, 1, order("sh", "-c", "exit 3")))
        handed.settimeout(300)
        parser, counted, kinds = wire.Parser(), 0, []
        while wire.EXITED not in kinds:
            for kind, _, payload in parser.feed(handed.recv(1 << 16)):
                kinds.append(kind)
                counted += kind in wire.COUNTED
                assert kind != wire.EXITED or int.from_bytes(payload, "big") == 3
        keeper.join(2)
        assert keeper.is_alive()  # nobody has said that it was read
        handed.sendall(wire.pack(wire.PING, 0, wire.count(counted)))
        keeper.join(300)
    assert not keeper.is_alive()
