"""The keeper, a relay's end on the remote machine: holds connections there while transports are replaced.

It listens on a Unix socket in a private folder, and serves processes of its own user that know its secret. They pass it
transports; a newer one replaces the current one. After GRACE seconds without data, or on request, the keeper exits and
leaves nothing behind. If it runs a program instead of holding connections, it stays while the program runs, with or
without a transport.
"""

from __future__ import annotations

import array
import contextlib
import hmac
import os
import signal
import socket
import subprocess
import threading
import time

from dkdbg.agent import sockets
from dkdbg.agent.contract import LOOPBACK
from dkdbg.agent.proxy.listener import local_users
from dkdbg.agent.relay import wire
from dkdbg.agent.relay.exchange import Channel, Exchange
from dkdbg.agent.relay.program import MAX_QUERIES, Order, Program, query
from dkdbg.agent.relay.wire import WireError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Optional, Tuple

#: Seconds until the keeper exits: without data, and without a first HELLO (the host's dkdbg has ended while
#: connecting).
GRACE, FIRST_GRACE = 120.0, 15.0
#: Seconds to keep the last output of a program for a host that sleeps overnight; seconds of silence after which the
#: host counts as asleep.
NIGHT, SILENT = 12 * 3600.0, 10.0
#: Length in bytes of the secret that a client sends first, and the timeout in seconds to receive it.
SECRET = 32
_SECRET_LIMIT = 5.0
#: Number of descriptors of a transport: one to read, one to write.
_STREAMS = 2
#: Timeout in seconds to connect on this machine; less than the silence after which the other end takes the relay for
#: dead.
_CONNECT_LIMIT = 1.5
#: Exit code of a query that is refused because MAX_QUERIES others are running.
_BUSY = 75
_TURN = 1.0


class Keeper(Exchange):
    """The remote end of one relay.

    Args:
        listener: a listening Unix socket. path: its path.
        secret: see SECRET. folder: working directory of a program.
        at_end: called before the transport is closed at the end: after that the other end finds all files removed.
    """

    def __init__(
        self, listener: socket.socket, path: str, secret: bytes, folder: str = "/",
        at_end: Optional[Callable[[], None]] = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.keeper_id = os.urandom(len(wire.NO_KEEPER_ID))
        self._listener = listener
        self._path = path
        self._secret = secret
        self._current: Optional[socket.socket] = None
        self._streams: List[int] = []
        self._folder = folder
        self._at_end = at_end
        self._is_left = self._is_exit_sent = self._is_greeted = False
        self._result_timeout = NIGHT
        self.program: Optional[Program] = None
        self._asked: Dict[int, Program] = {}
        self._is_over = False

    def run(self) -> None:
        """Serve until the relay is over."""
        self._listener.setblocking(False)
        self.watch(self._listener.fileno(), self._accept)
        try:
            while not self._is_at_its_end():
                try:
                    self.turn(_TURN)
                except WireError:  # noqa: PERF203 - the loop goes on
                    if self.counting.connected:
                        self.said_goodbye()  # the other end, though authenticated, sends invalid frames: give it up
                    else:
                        self._hang_up()  # no valid HELLO: drop only this transport; the real other end reconnects
        finally:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            with contextlib.suppress(OSError):  # not empty: another relay's socket is in the folder
                os.rmdir(os.path.dirname(self._path))
            self._listener.close()
            if self._at_end is not None:
                self._at_end()
            self.close()
            self._hang_up()

    def greeted(self, keeper_id: bytes, read: int) -> None:
        """Answer the HELLO of a relay; a keeper that has opened channels rejects a relay that does not know its id."""
        is_known = keeper_id == self.keeper_id
        if not is_known and self.last_channel:
            raise WireError("the relay does not know this keeper")
        self._is_greeted = True
        self.counting.say(wire.hello(self.keeper_id, self.counting.read))
        self.counting.connect(read if is_known else 0)

    def opened(self, channel: int, payload: bytes) -> None:
        """Connect to a port of this machine's loopback interface."""
        if channel <= self.last_channel or len(self.channels) >= wire.CHANNELS:
            raise WireError("a connection too many")
        self.last_channel = channel
        port = int.from_bytes(payload, "big")
        try:
            sock = socket.create_connection((LOOPBACK, port), _CONNECT_LIMIT)
        except OSError as error:
            self._refuse(channel, "port %d: %s" % (port, error.strerror or error))
            return
        if not local_users.is_own_server(sock):
            sock.close()
            self._refuse(channel, "port %d is another user's" % port)
            return
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.add(Channel(channel, sock))

    def about_program(self, kind: int, channel: int, payload: bytes) -> None:
        """Start the keeper's one program, send it a signal or its terminal's size, or start a query."""
        if kind == wire.RUN and self.program is None and not self.last_channel and 0 < channel < 1 << 31:
            order = Order(payload)
            self.program = Program(order, self._folder, self._is_heard)
            if order.watch:
                ends = (order.watch, self.program, self.hurry)
                threading.Thread(target=end_with, args=ends, daemon=True).start()
            self._carry(channel, self.program)
        elif kind == wire.SIGNAL and self.program is not None:
            self.program.signal(payload[0])
        elif kind == wire.SIZE and self.program is not None:
            self.program.resize(int.from_bytes(payload[:2], "big"), int.from_bytes(payload[2:], "big"))
        elif kind == wire.ASK and self.program is None and self.last_channel < channel < 1 << 31:
            self._ask(channel, payload)
        else:
            super().about_program(kind, channel, payload)

    def remove(self, channel: Channel) -> None:
        """Close this end of a channel; kill the query that answers on it if the other end no longer waits."""
        asked = self._asked.get(channel.number)
        if asked is not None and asked.is_running and not channel.is_over:
            asked.kill()
        super().remove(channel)

    def hurry(self, timeout: float = GRACE) -> None:
        """End soon, because the job here is over; keep the program's result `timeout` seconds. Thread-safe."""
        self._result_timeout = timeout
        if self.program is None:
            self._is_over = True

    def _is_at_its_end(self) -> bool:
        if self.program is None:
            grace = GRACE if self._is_greeted else FIRST_GRACE
            return self._is_over or time.monotonic() - self.heard > grace
        if self.program.is_running:
            return False
        # If the other end has read the exit code, wait only GRACE for its BYE, which may be lost; else for a night.
        limit = min(
            self._result_timeout, GRACE if self._is_exit_sent and self.counting.is_confirmed else NIGHT
        )
        quiet = time.monotonic() - max(self.heard, self.program.ended_at)
        return self._is_over or self._is_left or quiet > limit

    def _is_heard(self) -> bool:
        """Return whether the other end is awake to read the program's output; called on the program's threads."""
        return self.has_transport and time.monotonic() - self.heard < SILENT

    def _carry(self, channel: int, program: Program) -> None:
        """Open the channels of a program, and watch for its exit."""
        self.last_channel = channel + 1
        for number, sock in ((channel, program.stdio), (channel + 1, program.stderr)):
            self.add(Channel(number, sock))
        self.watch(program.ended, lambda: self._exited(channel, program))

    def _exited(self, channel: int, program: Program) -> None:
        if program.exit_code is None:
            return
        self.forget(program.ended)
        self.counting.send(wire.EXITED, channel, program.exit_code.to_bytes(2, "big"))
        if program is self.program:
            self._is_exit_sent = True
        else:
            del self._asked[channel]
            program.close()

    def _ask(self, channel: int, payload: bytes) -> None:
        """Run the agent with a query from the other end, and report its output and exit like a program's."""
        order = query(payload)
        if len(self._asked) >= MAX_QUERIES or len(self.channels) + 2 > wire.CHANNELS:
            self.last_channel = channel + 1
            for number in (channel, channel + 1):
                self._refuse(number, "too many queries")
            self.counting.send(wire.EXITED, channel, _BUSY.to_bytes(2, "big"))
            return
        self._asked[channel] = Program(order, self._folder, self._is_heard)
        self._carry(channel, self._asked[channel])

    def said_goodbye(self) -> None:
        """End because the other end will not return; while a program runs, stay to drain its output."""
        self._is_over = self._is_left = True
        if self.program is not None and self.program.is_running:
            self._hang_up()
        if self.program is not None and self._listener.fileno() >= 0:
            self.forget(self._listener.fileno())
            self._listener.close()

    def transport_ended(self, why: str) -> None:  # noqa: ARG002 - the other end reports the reason
        """Wait for the next transport."""
        self._hang_up()

    def _refuse(self, channel: int, why: str) -> None:
        self.counting.send(wire.RESET, channel, why.encode("utf-8", "replace")[:500])

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return
        # The folder is closed to other users, so only our own processes get here. They send the secret at once,
        # together with the descriptors of the transport.
        greeting, streams = b"", []  # type: Tuple[bytes, List[int]]
        with contextlib.suppress(OSError):
            client.settimeout(_SECRET_LIMIT)
            if sockets.is_same_user(client):
                greeting, streams = _greeting(client)
        if not hmac.compare_digest(greeting, self._secret) or len(streams) != _STREAMS:
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
        """Close the transport if the process that passed it was killed: sshd waits until the streams are closed."""
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
    """Return the bytes received as the secret, and the descriptors that came with them."""
    received, streams, end = b"", array.array("i"), time.monotonic() + _SECRET_LIMIT
    while len(received) < SECRET and time.monotonic() < end:
        more, beside, _, _ = client.recvmsg(
            SECRET - len(received), socket.CMSG_SPACE(_STREAMS * streams.itemsize)
        )
        for level, kind, data in beside:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                streams.frombytes(data[: len(data) - len(data) % streams.itemsize])
        if not more:
            break
        received += more
    return received, list(streams)


#: Seconds between two runs of an order's `watch` command, long because each loads the cluster's batch system, and the
#: timeout of one run.
PAUSE, _OVER_TIMEOUT_S = 30.0, 20.0
#: Seconds for the program to exit after SIGTERM, like Slurm's KillWait.
KILL_WAIT = 30.0


def end_with(argv: List[str], program: Program, over: Callable[[], None]) -> None:
    """Run the command `argv` repeatedly; when it exits with 0, call `over` and end the program."""
    while not program.has_exited.wait(PAUSE):
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                timeout=_OVER_TIMEOUT_S, check=False,
            )  # fmt: skip
            if done.returncode == 0:
                break
    else:
        return
    over()
    program.signal(signal.SIGTERM)
    if not program.has_exited.wait(KILL_WAIT):
        program.kill()
