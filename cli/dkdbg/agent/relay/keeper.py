"""What stays on the far machine: it holds the connections there while transports come and go.

It listens on a Unix socket in a private folder, and serves who is its own user and knows its secret; of two transports
the newer one. Without a word for GRACE seconds, and when it is told to, it ends and leaves nothing. A keeper may have a
program instead of connections: it stays as long as that runs, whether anybody comes or not.
"""

from __future__ import annotations

import array
import contextlib
import hmac
import os
import socket
import time

from dkdbg.agent import sockets
from dkdbg.agent.contract import LOOPBACK
from dkdbg.agent.proxy.listener import local_users
from dkdbg.agent.relay import questions, watch, wire
from dkdbg.agent.relay.channel import Channel
from dkdbg.agent.relay.exchange import Exchange
from dkdbg.agent.relay.program import Order, Program
from dkdbg.agent.relay.wire import WireError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Optional, Tuple

#: Seconds without a word of the other end, and without its first one: it was ended while it connected.
GRACE, FIRST_GRACE = 120.0, 15.0
#: Seconds that what a program has said before its end is kept for one that sleeps, and until one that says nothing counts
#: as one that does.
NIGHT, SILENT = 12 * 3600.0, 10.0
#: Bytes of the secret that a transport begins with, and seconds that it may take to say it.
SECRET = 32
_SECRET_LIMIT = 5.0
#: Descriptors of a transport: what is read, and what is written.
_STREAMS = 2
#: Seconds for a connection on this machine: shorter than the other end waits for a sign of life.
_CONNECT_LIMIT = 1.5
#: The exit code of a question too many.
_BUSY = 75
_TURN = 1.0


class Keeper(Exchange):
    """Serves one relay, until it is over.

    Args:
        listener: a Unix socket that listens. path: where it lies.
        secret: see SECRET. folder: where a program runs.
        at_end: takes away what else is left; whoever sees the transport end finds nothing any more.
    """

    def __init__(
        self, listener: socket.socket, path: str, secret: bytes, folder: str = "/",
        at_end: Optional[Callable[[], None]] = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.keeper = os.urandom(len(wire.NOBODY))
        self._listener = listener
        self._path = path
        self._secret = secret
        self._current: Optional[socket.socket] = None
        self._streams: List[int] = []
        self._folder = folder
        self._at_end = at_end
        self._is_left = self._is_told = self._is_greeted = False
        self._patience = NIGHT
        self.program: Optional[Program] = None
        self._asked: Dict[int, Program] = {}
        self._is_over = False

    def run(self) -> None:
        """Serve."""
        self._listener.setblocking(False)
        self.watch(self._listener.fileno(), self._accept)
        try:
            while not self._is_at_its_end():
                try:
                    self.turn(_TURN)
                except WireError:  # noqa: PERF203 - the loop is what goes on
                    if self.counting.connected:
                        self._leave()  # who is known and then says nonsense is not one to go on with
                    else:
                        self._hang_up()  # a transport that was recorded and is played again: ours comes back
        finally:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            with contextlib.suppress(OSError):  # another relay's socket may lie there
                os.rmdir(os.path.dirname(self._path))
            self._listener.close()
            if self._at_end is not None:
                self._at_end()
            self.close()
            self._hang_up()

    def greeted(self, keeper: bytes, read: int) -> None:
        """Of a relay that knows another keeper, or none: we have to be new."""
        is_known = keeper == self.keeper
        if not is_known and self.last_channel:
            raise WireError("it does not know its keeper")
        self._is_greeted = True
        self.counting.say(wire.hello(self.keeper, self.counting.read))
        self.counting.connect(read if is_known else 0)

    def opened(self, channel: int, payload: bytes) -> None:
        """Connect to a port of this machine's loopback."""
        if channel <= self.last_channel or len(self.channels) >= wire.CHANNELS:
            raise WireError("a connection too many")
        self.last_channel = channel
        port = int.from_bytes(payload, "big")
        try:
            sock = socket.create_connection((LOOPBACK, port), _CONNECT_LIMIT)
        except OSError as error:
            self._refuse(channel, "port %d: %s" % (port, error.strerror or error))
            return
        if not _is_ours(sock):
            sock.close()
            self._refuse(channel, "port %d is another user's" % port)
            return
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.add(Channel(channel, sock))

    def told(self, kind: int, channel: int, payload: bytes) -> None:
        """Start a program, which every keeper may have one of, or tell it something."""
        if kind == wire.RUN and self.program is None and not self.last_channel and 0 < channel < 1 << 31:
            order = Order(payload)
            self.program = Program(order, self._folder, self._is_heard)
            if order.watch:
                watch.watch(order.watch, self.program, self.hurry)
            self.last_channel = channel + 1
            for number, sock in ((channel, self.program.stdio), (channel + 1, self.program.stderr)):
                self.add(Channel(number, sock))
            self.watch(self.program.ended, lambda: self._exited(channel))
        elif kind == wire.SIGNAL and self.program is not None:
            self.program.signal(payload[0])
        elif kind == wire.SIZE and self.program is not None:
            self.program.resize(int.from_bytes(payload[:2], "big"), int.from_bytes(payload[2:], "big"))
        elif kind == wire.ASK and self.program is None and self.last_channel < channel < 1 << 31:
            self._ask(channel, payload)
        else:
            super().told(kind, channel, payload)

    def remove(self, channel: Channel) -> None:
        """End a connection here; nobody waits for the answer any more of one that has not ended by itself."""
        asked = self._asked.get(channel.number)
        if asked is not None and asked.is_running and not channel.is_over:
            asked.kill()
        super().remove(channel)

    def hurry(self, patience: float = GRACE) -> None:
        """What this machine was ours for is over; a program's end is kept for so many seconds. From any thread."""
        self._patience = patience
        if self.program is None:
            self._is_over = True

    def said_goodbye(self) -> None:
        """End; when a program runs, with it."""
        self._leave()

    def _is_at_its_end(self) -> bool:
        if self.program is None:
            grace = GRACE if self._is_greeted else FIRST_GRACE
            return self._is_over or time.monotonic() - self.heard > grace
        if self.program.is_running:
            return False
        # Who has read the exit code comes back for nothing, also when its goodbye was lost.
        limit = min(self._patience, GRACE if self._is_told and self.counting.is_confirmed else NIGHT)
        quiet = time.monotonic() - max(self.heard, self.program.ended_at)
        return self._is_over or self._is_left or quiet > limit

    def _is_heard(self) -> bool:
        """Whether somebody takes what the program writes; on its threads."""
        return self.has_transport and time.monotonic() - self.heard < SILENT

    def _exited(self, channel: int) -> None:
        if self.program is not None and self.program.exit_code is not None:
            self.forget(self.program.ended)
            self._is_told = True
            self.counting.send(wire.EXITED, channel, self.program.exit_code.to_bytes(2, "big"))

    def _ask(self, channel: int, payload: bytes) -> None:
        """Start the agent with a question, and tell its end as that of a program."""
        order = questions.order(payload)
        self.last_channel = channel + 1
        if len(self._asked) >= questions.MOST or len(self.channels) + 2 > wire.CHANNELS:
            for number in (channel, channel + 1):
                self._refuse(number, "too many questions")
            self.counting.send(wire.EXITED, channel, _BUSY.to_bytes(2, "big"))
            return
        asked = self._asked[channel] = Program(order, self._folder, self._is_heard)
        for number, sock in ((channel, asked.stdio), (channel + 1, asked.stderr)):
            self.add(Channel(number, sock))
        self.watch(asked.ended, lambda: self._answered(channel, asked))

    def _answered(self, channel: int, asked: Program) -> None:
        if asked.exit_code is not None:
            self.forget(asked.ended)
            self.counting.send(wire.EXITED, channel, asked.exit_code.to_bytes(2, "big"))
            del self._asked[channel]
            asked.close()

    def _leave(self) -> None:
        """Nobody comes back: end, but not while a program runs, whose output has to go somewhere."""
        self._is_over = self._is_left = True
        if self.program is not None and self.program.is_running:
            self._hang_up()
        if self.program is not None and self._listener.fileno() >= 0:
            self.forget(self._listener.fileno())
            self._listener.close()

    def transport_ended(self, why: str) -> None:  # noqa: ARG002 - the other end says what there is to say
        """Wait for the next one."""
        self._hang_up()

    def _refuse(self, channel: int, why: str) -> None:
        self.counting.send(wire.RESET, channel, why.encode("utf-8", "replace")[:500])

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return
        # Only our own processes get here: the folder is closed to others. They say the secret at once, and hand over the
        # streams of the transport.
        said, streams = b"", []  # type: Tuple[bytes, List[int]]
        with contextlib.suppress(OSError):
            client.settimeout(_SECRET_LIMIT)
            if sockets.is_same_user(client):
                said, streams = _greeting(client)
        if not hmac.compare_digest(said, self._secret) or len(streams) != _STREAMS:
            client.close()
            for each in streams:
                os.close(each)
            return
        client.setblocking(False)
        for each in streams:
            os.set_blocking(each, False)
        self._hang_up()
        self.join(*streams)
        self._current, self._streams = client, streams
        self.watch(client.fileno(), lambda: self._orphaned(client))

    def _orphaned(self, client: socket.socket) -> None:
        """Who has handed over the transport was killed: sshd waits until its streams are closed."""
        if client is self._current:
            self._hang_up()

    def _hang_up(self) -> None:
        self.part()
        if self._current is not None:
            self.forget(self._current.fileno())
            self._current.close()
            self._current = None
        for each in self._streams:
            os.close(each)
        self._streams = []


def _greeting(client: socket.socket) -> Tuple[bytes, List[int]]:
    """What should be the secret, and the descriptors that came with it."""
    said, streams, end = b"", array.array("i"), time.monotonic() + _SECRET_LIMIT
    while len(said) < SECRET and time.monotonic() < end:
        more, beside, _, _ = client.recvmsg(
            SECRET - len(said), socket.CMSG_SPACE(_STREAMS * streams.itemsize)
        )
        for level, kind, data in beside:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                streams.frombytes(data[: len(data) - len(data) % streams.itemsize])
        if not more:
            break
        said += more
    return said, list(streams)


def _is_ours(sock: socket.socket) -> bool:
    """Tell whether what we have connected to on this machine is ours, or root's; True where the system does not tell."""
    try:
        owner = local_users.other_end(sock)
        if owner is not None and not owner[1]:  # it waits to be accepted
            owner = local_users.listening(sock.getpeername())
    except OSError:
        return not local_users.are_told()
    return owner is not None and owner[0] in (0, os.getuid())
