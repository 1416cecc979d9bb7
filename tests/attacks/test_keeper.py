"""The keeper of a far session, attacked by who knows the secret of another session, or of this one, or plays it again."""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dkdbg.agent.relay import keeper as keepers
from dkdbg.agent.relay import wire
from tests.far.test_relay import a_keeper

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Says each line back, and notes in a file that it was started and what it was told.
ECHO = "import sys\nfile = open(sys.argv[1], 'a', 1)\nfile.write('started\\n')\nfor line in sys.stdin:\n    file.write(line)\n    print(line, end='', flush=True)\n"


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """On a machine that stands still for some seconds a secret comes late."""
    monkeypatch.setattr(keepers, "_SECRET_LIMIT", 300.0)


class Session:
    """A keeper with a program, as `dkdbg run --on ssh://` has one; and its owner's transport."""

    def __init__(self, folder: Path) -> None:
        self._keeper, path, self.secret = a_keeper(folder, runs_in=folder.parent)
        self.path, self.notes = Path(path), folder.parent / f"{folder.name}.notes"
        argv = [sys.executable, "-c", ECHO, str(self.notes)]
        order = json.dumps({"argv": argv, "terminal": None, "environment": {}}).encode()
        self.said = wire.hello(wire.NO_KEEPER_ID, 0) + wire.pack(wire.RUN, 1, order)
        self.read = 0
        self.client, self.stream = transport(self.path, self.secret)
        self.id, _ = self._greeted(self.said)

    def _greeted(self, said: bytes) -> tuple[bytes, int]:
        self.stream.sendall(said)
        self.parser = wire.Parser()
        self.frames: list[wire.Frame] = []
        while not (hello := [each for each in self._more() if each[0] == wire.HELLO]):
            pass
        return wire.read_hello(hello[0][2])

    def _more(self) -> list[wire.Frame]:
        self.stream.settimeout(300)
        data = self.stream.recv(1 << 16)
        assert data, "the keeper has hung up"
        found = list(self.parser.feed(data))
        self.read += sum(each[0] in wire.COUNTED for each in found)
        self.frames += found
        return found

    def again(self) -> None:
        self.close_transport()
        self.client, self.stream = transport(self.path, self.secret)
        found, _ = self._greeted(wire.hello(self.id, self.read))
        assert found == self.id

    def type(self, line: bytes) -> bytes:
        frame = wire.pack(wire.DATA, 1, line)
        self.said += frame
        self.stream.sendall(frame)
        said = b""
        while not said.endswith(b"\n"):
            said += b"".join(each[2] for each in self._more() if each[:2] == (wire.DATA, 1))
        return said

    def close_transport(self) -> None:
        for each in (self.client, self.stream):
            each.close()

    def end(self) -> None:
        self.stream.sendall(wire.pack(wire.END, 1))
        while not any(each[0] == wire.EXITED for each in self.frames):
            self._more()
        self.stream.sendall(wire.pack(wire.BYE))
        self._keeper.join(300)
        self.close_transport()
        assert not self._keeper.is_alive()


def transport(path: Path, secret: bytes) -> tuple[socket.socket, socket.socket]:
    """Hand the streams of a transport to whatever keeper listens at `path`; the connection, and the streams' other end."""
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(path))
    ours, theirs = socket.socketpair()
    with theirs:
        handed = array.array("i", [theirs.fileno()] * 2)
        client.sendmsg([secret], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handed)])
    return client, ours


def is_let_go(client: socket.socket, stream: socket.socket, said: bytes) -> bool:
    """Whether the keeper ends this transport on which so much is said, and says nothing itself."""
    with client, stream:
        with contextlib.suppress(OSError):
            stream.sendall(said)
        client.settimeout(300)
        stream.settimeout(300)
        try:
            return client.recv(1) == b"" and stream.recv(100) == b""
        except ConnectionError:
            return True


@contextlib.contextmanager
def session(folder: Path) -> Iterator[Session]:
    made = Session(folder)
    try:
        assert made.type(b"one\n") == b"one\n"
        yield made
    finally:
        made.end()


@pytest.mark.attack(0)
def test_the_secret_of_one_session_opens_no_other(tmp_path):
    """Knows the secret of a session of the same user, and asks the keeper of another one with it."""
    with session(tmp_path / "a") as mine, session(tmp_path / "b") as other:
        for _ in range(20):
            client, stream = transport(mine.path, other.secret)
            said = wire.hello(mine.id, mine.read) + wire.pack(wire.DATA, 1, b"evil\n")
            assert is_let_go(client, stream, said)
        assert mine.type(b"two\n") == b"two\n"
        assert other.type(b"three\n") == b"three\n"
    assert mine.notes.read_text() == "started\none\ntwo\n"
    assert other.notes.read_text() == "started\none\nthree\n"


@pytest.mark.attack(0)
def test_a_recorded_transport_that_is_played_again_runs_nothing_and_types_nothing_twice(tmp_path):
    """Has recorded all that a transport has carried, the secret too, and plays it to the keeper again: it is cut, and the
    session's owner comes back to the same program."""
    with session(tmp_path / "a") as mine:
        for _ in range(5):
            client, stream = transport(mine.path, mine.secret)
            assert is_let_go(client, stream, mine.said)
        mine.again()
        assert mine.type(b"two\n") == b"two\n"
    assert mine.notes.read_text() == "started\none\ntwo\n"


@pytest.mark.attack(1)
def test_another_user_who_knows_the_secret_and_reaches_the_socket_is_not_heard(tmp_path, other_user):
    """Is another user of the machine, was told the secret, and finds the folder and the socket open: the kernel says who
    connects."""
    if os.getuid() != 0:
        pytest.skip("only root can open its folders to another user here")
    for each in (tmp_path, *tmp_path.parents):
        mode = stat.S_IMODE(each.stat().st_mode)
        if mode & 0o055 != 0o055:
            each.chmod(mode | 0o055)
    with session(tmp_path / "a") as mine:
        mine.path.parent.chmod(0o777)
        mine.path.chmod(0o777)
        done = other_user.python(KNOCKS, str(mine.path), mine.secret.hex(), mine.said.hex())
        assert (done.returncode, done.stdout) == (0, "b'' b''\n"), done.stderr
        assert mine.type(b"two\n") == b"two\n"
    assert mine.notes.read_text() == "started\none\ntwo\n"


KNOCKS = """\
import array, os, socket, sys
client = socket.socket(socket.AF_UNIX)
client.settimeout(300)
client.connect(sys.argv[1])
ours, theirs = socket.socketpair()
ours.settimeout(300)
handed = array.array("i", [theirs.fileno()] * 2)
try:
    client.sendmsg([bytes.fromhex(sys.argv[2])], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handed)])
except OSError:  # refused before it was said
    pass
theirs.close()
def read(sock):
    try:
        return sock.recv(100)
    except ConnectionError:
        return b""
try:
    ours.sendall(bytes.fromhex(sys.argv[3]))
except OSError:
    pass
print(read(client), read(ours))
"""
