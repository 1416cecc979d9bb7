"""Forward local ports to a remote machine over one command that runs on it; connections survive when it is cut.

The command (`agent relay WORD`, wrapped by the target's `wrap`) carries frames to a keeper, a remote process that
outlives the command. When the command ends, or sends nothing for DEAD_S seconds, it is restarted and the
unacknowledged frames are sent again. The remote side is untrusted: its data only reaches the local ends of its
own connections, and buffers are limited.
"""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import select
import socket
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from dkdbg import process
from dkdbg.agent import sockets
from dkdbg.agent.contract import LOOPBACK
from dkdbg.agent.proxy.listener import containers, local_users
from dkdbg.agent.relay import wire
from dkdbg.agent.relay.exchange import Channel, Counting, Exchange
from dkdbg.agent.relay.wire import WireError
from dkdbg.core.known_errors import last_line
from dkdbg.errors import DkdbgError, GoneError
from dkdbg.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds between two pings; seconds without a frame after which a transport counts as dead.
PING_S, DEAD_S = 1.0, 3.0
#: Seconds to wait for the first line of a new transport, at first and at most; each failure doubles the time.
FIRST_TIMEOUT_S, MAX_TIMEOUT_S = 8.0, 30.0
#: Minimum and maximum pause in seconds before the next transport is started.
MIN_PAUSE_S, MAX_PAUSE_S = 0.05, 2.0
#: Timeout in seconds to end the connections and the keeper.
GOODBYE_TIMEOUT_S = 2.0
#: Maximum bytes before the relay's first line, such as a login shell's greeting, and bytes of stderr to keep.
_MAX_NOISE_BYTES, _STDERR_TAIL_BYTES = 1 << 16, 4000


class ProgramObserver(Protocol):
    """Observer of a program that a relay started; called on the relay's threads."""

    def exited(self, code: int) -> None:
        """Record the program's exit code, in a shell's form (128 + signal)."""

    def lost(self) -> None:
        """Record that the program's keeper is gone: the exit code will never arrive."""


class Transport(Protocol):
    """The streams of an `agent relay WORD` process."""

    def files(self) -> tuple[int, int, int]:
        """Return the descriptors of its input, output and errors; the transport closes them."""

    def close(self) -> None:
        """End the transport; called on the thread that requested it."""


class _Running:
    """Transport over a local command. Raises DkdbgError if it cannot be started."""

    def __init__(self, command: Sequence[str]) -> None:
        self._running = process.converse(command)

    def files(self) -> tuple[int, int, int]:
        streams = (self._running.stdin, self._running.stdout, self._running.stderr)
        first, second, third = (each.fileno() for each in streams if each)
        return first, second, third

    def close(self) -> None:
        process.end(self._running)


class Answer:
    """A remote agent's answer to one query.

    Args:
        leave: called to abandon the query on both machines.

    Attributes:
        stdio, stderr: sockets with the query's output and errors.
        ended: event that is set once `code` is final.
        code: exit code of the query; None if the keeper is gone.
    """

    def __init__(self, stdio: socket.socket, stderr: socket.socket, leave: Callable[[], None]) -> None:
        self.stdio, self.stderr = stdio, stderr
        self.ended = threading.Event()
        self.code: int | None = None
        self._leave = leave

    def close(self) -> None:
        """Abandon the query on both machines, and close the sockets."""
        self._leave()
        self.stdio.close()
        self.stderr.close()


class _KeeperGoneError(Exception):
    """The keeper no longer exists."""


class Relay:
    """A relay to one machine; call its methods from any thread.

    Args:
        command: returns the local command line that runs `agent relay WORD` on the machine, or a transport to a relay
            process that runs already. Its arguments are WORD, whether the last transport went silent, and the
            connection timeout in seconds. Raises DkdbgError if it fails now, and GoneError if the target no longer
            exists: the relay then ends all connections.
        program: observer of the remote program; None for a relay of ports.
        ends: whether the relay ends once the keeper is gone; otherwise it starts a new keeper.

    Attributes:
        is_gone: whether the relay has ended because its keeper or the target is gone.
        why: why there is no transport, as text; empty while there is one.
        connections: number of transports so far: shows cuts that are too short to be seen in `why`.
    """

    def __init__(
        self,
        command: Callable[[str, bool, float], Sequence[str] | Transport],
        program: ProgramObserver | None = None,
        *,
        ends: bool = False,
    ) -> None:
        self.why = "it is connecting"
        self.is_gone = False
        self.connections = 0
        self._command = command
        self._program = program
        self._ends = ends
        self._loop = _Loop(self._found, self._lost, program)
        self._closing = threading.Event()
        self._ended = threading.Event()
        self._silent = False
        self._name, self._secret = _new_names()
        self._threads = [
            threading.Thread(target=self._turn, name="dkdbg relay", daemon=True),
            threading.Thread(target=self._connect, name="dkdbg relay transport", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def listen(self, port: int, *, local: int = 0) -> int:
        """Forward connections to a local port on 127.0.0.1 to the remote `port`, and return the local port.

        Args:
            local: the local port; 0 for a free one.

        Raises:
            OSError: the local port cannot be listened on.
        """
        listener = socket.create_server((LOOPBACK, local), backlog=wire.CHANNELS)
        listener.setblocking(False)
        number: int = listener.getsockname()[1]
        self._loop.call(lambda: self._loop.lead(number, port, listener))
        return number

    def aim(self, local: int, port: int) -> None:
        """Change the remote port to which the connections of a local port are forwarded."""
        self._loop.call(lambda: self._loop.lead(local, port, None))

    def start(self, order: bytes, stdio: socket.socket, stderr: socket.socket) -> None:
        """Run a program on the remote side, once, with these sockets as its streams.

        Args:
            order: see `agent.relay.program.Order`.
        """
        self._loop.call(lambda: self._loop.start(order, stdio, stderr))

    def withdraw(self) -> bool:
        """Cancel the program of `start` if no transport has connected yet; return whether it was cancelled.

        Once a transport has connected, the remote side may have received the order.
        """
        done = threading.Event()
        is_withdrawn = False

        def withdraw() -> None:
            nonlocal is_withdrawn
            if not self.connections:
                self._loop.start_over()
                is_withdrawn = True
            done.set()

        self._loop.call(withdraw)
        while not done.wait(PING_S) and not self._loop.finished.is_set():
            pass
        return is_withdrawn

    def ask(self, query: bytes) -> Answer:
        """Send a query to the remote agent, which has to support queries.

        Args:
            query: the query as a JSON array, see `agent.relay.program.query`.
        """
        stdio, theirs = socket.socketpair()
        stderr, their_errors = socket.socketpair()
        for each in (stdio, stderr):
            each.shutdown(socket.SHUT_WR)
        answer = Answer(stdio, stderr, lambda: self._loop.call(lambda: self._loop.drop(answer)))
        self._loop.call(lambda: self._loop.ask(query, theirs, their_errors, answer))
        return answer

    def tell(self, kind: int, payload: bytes) -> None:
        """Send the program a signal (wire.SIGNAL) or the size of the terminal (wire.SIZE)."""
        self._loop.call(lambda: self._loop.tell(kind, payload))

    def move(self) -> None:
        """End the keeper: the next transport starts a new one, on the machine that the command reaches now."""
        self._loop.call(self._loop.dismiss)

    def close(self) -> None:
        """End the connections and the remote keeper, and close all local sockets."""
        self._closing.set()
        self._loop.call(self._loop.say_goodbye)
        self._loop.finished.wait(GOODBYE_TIMEOUT_S)
        self._ended.set()
        for thread in self._threads:
            thread.join(DEAD_S)
        self._loop.end()

    # -- the loop's thread ------------------------------------------------------------------------------------

    def _turn(self) -> None:
        while not self._loop.finished.is_set():
            try:
                self._loop.step()
            except WireError as error:  # noqa: PERF203 - the loop goes on after an error
                self.why = f"the answer does not come from a dkdbg relay: {printable(error)}"
                self._name, self._secret = _new_names()
                self._loop.start_over()
                self._ended.set()
                if self._program is not None:
                    self._program.lost()

    def _found(self) -> None:
        self.connections += 1
        self.why = ""

    def _lost(self, why: str, silent: bool) -> None:
        self.why = why
        self._silent = silent
        self._ended.set()

    # -- the transport's thread -------------------------------------------------------------------------------

    def _connect(self) -> None:
        pause, answer = MIN_PAUSE_S, FIRST_TIMEOUT_S
        while not self._closing.is_set() and not self.is_gone:
            began = time.monotonic()
            try:
                self._serve(answer)
                pause, answer = MIN_PAUSE_S, FIRST_TIMEOUT_S
            except _KeeperGoneError:
                if self._program is not None:
                    self._program.lost()
                    return
                self._start_over(
                    "its remote relay process is gone: the machine was restarted, or its processes were killed"
                )
            except DkdbgError as error:
                self.why = printable(error.message)
                self._silent = True  # the cause is unknown: make the command check its connection
                if isinstance(error, GoneError) and self._program is None:
                    self._start_over(self.why)
                answer = min(MAX_TIMEOUT_S, answer * 2)
            if time.monotonic() - began < MAX_PAUSE_S:
                pause = min(MAX_PAUSE_S, pause * 2)
            self._closing.wait(pause)

    def _start_over(self, why: str) -> None:
        """Close all connections; the next transport uses a new keeper, unless the relay ends with its keeper."""
        self.why, self.is_gone = why, self._ends
        self._name, self._secret = _new_names()
        self._loop.call(self._loop.start_over)
        if self._ends:
            self._loop.call(self._loop.say_goodbye)

    def _serve(self, limit: float) -> None:
        """Run one transport until it is lost. Raises DkdbgError: no transport can be opened."""
        word = f"dkdbg-{secrets.token_hex(8)}"
        given = self._command(word, self._silent, limit)
        transport = _Running(given) if isinstance(given, Sequence) else given
        files = transport.files()
        try:
            for file in files:
                os.set_blocking(file, False)
            os.write(files[0], f"{self._name} {self._secret}\n".encode())
            _await(word, files[1], files[2], limit)
            self._ended.clear()
            if self._closing.is_set():
                return
            self._silent = False
            self._loop.call(lambda: self._loop.take_transport(*files))
            self._ended.wait()
        except OSError as error:
            raise DkdbgError(f"the relay's command has ended: {error.strerror or error}") from error
        finally:
            self._loop.drop_transport()
            transport.close()


class _Loop(Exchange):
    """The relay's end on this machine.

    Args:
        found: called when a transport has reached the keeper.
        lost: called when the transport is lost, with the reason and whether it went silent.
        program: see `Relay`.
    """

    answers = True

    def __init__(
        self, found: Callable[[], None], lost: Callable[[str, bool], None], program: ProgramObserver | None
    ) -> None:
        super().__init__()
        self.finished = threading.Event()
        self._tell_found = found
        self._tell_lost = lost
        self._program = program
        self._stderr: int | None = None
        self._pinged = 0.0
        self._leaving = 0.0
        self._targets: dict[int, int] = {}
        self._asked: dict[int, Answer] = {}
        self._listeners: list[socket.socket] = []
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        # Other threads may ring after `end`: a closed socket raises, the number of a closed pipe may be reused.
        self._bell, self._ringer = socket.socketpair()
        for each in (self._bell, self._ringer):
            each.setblocking(False)
        self.watch(self._bell.fileno(), self._called)

    # -- from other threads -----------------------------------------------------------------------------------

    def call(self, what: Callable[[], None]) -> None:
        """Run a function on the loop's thread."""
        self._calls.put(what)
        with contextlib.suppress(OSError):
            self._ringer.send(b"\0")

    def drop_transport(self) -> None:
        """Make the loop drop the transport, and wait until it has."""
        done = threading.Event()

        def drop() -> None:
            self._forget_transport()
            done.set()

        self.call(drop)
        while not done.wait(PING_S) and not self.finished.is_set():
            pass

    # -- on the loop's thread ---------------------------------------------------------------------------------

    def step(self) -> None:
        """Run one turn of the loop. Raises WireError."""
        self.turn(PING_S / 4)
        now = time.monotonic()
        if self.has_transport:
            if now - self.heard > DEAD_S:
                self._forget_transport()
                self._tell_lost(f"no data for {DEAD_S:g} s", True)
            elif self.counting.connected and now - self._pinged > PING_S:
                self._pinged = now
                self.counting.say(wire.pack(wire.PING, 0, wire.count(self.counting.read)))
        if self._leaving and (
            not self.has_transport or now > self._leaving
        ):  # the keeper closes the transport when it ends
            self.finished.set()

    def take_transport(self, writes: int, reads: int, says: int) -> None:
        """Exchange frames with the keeper over the standard streams of a command."""
        self.join(reads, writes)
        self._stderr = says
        self.watch(says, self._listen_to_stderr)
        self.counting.say(wire.hello(self.keeper_id, self.counting.read))

    def lead(self, local: int, port: int, listener: socket.socket | None) -> None:
        """See `Relay.listen` and `Relay.aim`."""
        self._targets[local] = port
        if listener is not None:
            self._listeners.append(listener)
            self.watch(listener.fileno(), lambda: self._accept(listener, local))

    def start(self, order: bytes, stdio: socket.socket, stderr: socket.socket) -> None:
        """See `Relay.start`."""
        self.last_channel = 1
        self.counting.send(wire.RUN, 1, order)
        for number, sock in enumerate((stdio, stderr), 1):
            self.add(Channel(number, sock))

    def ask(self, query: bytes, stdio: socket.socket, stderr: socket.socket, answer: Answer) -> None:
        """See `Relay.ask`."""
        if self._leaving or len(self.channels) + 2 > wire.CHANNELS:
            for sock in (stdio, stderr):
                sock.close()
            answer.ended.set()
            return
        first = self.last_channel + 1
        self.last_channel = first + 1
        self._asked[first] = answer
        self.counting.send(wire.ASK, first, query)
        for number, sock in enumerate((stdio, stderr), first):
            self.add(Channel(number, sock))

    def drop(self, answer: Answer) -> None:
        """See `Answer.close`."""
        first = next((number for number, each in self._asked.items() if each is answer), None)
        if first is not None:
            for number in (first, first + 1):
                if number in self.channels:
                    self.reset(self.channels[number])

    def tell(self, kind: int, payload: bytes) -> None:
        """See `Relay.tell`."""
        if self.last_channel:  # the program was started
            self.counting.send(kind, 1, payload)

    def dismiss(self) -> None:
        """End the remote keeper."""
        if self.has_transport and self.counting.connected:
            self.counting.say(wire.pack(wire.BYE))

    def say_goodbye(self) -> None:
        """End the connections and the keeper, then set `finished`."""
        for listener in self._listeners:
            self.forget(listener.fileno())
            listener.close()
        self.dismiss()
        self._leaving = time.monotonic() + GOODBYE_TIMEOUT_S

    def start_over(self) -> None:
        """Discard all connections: the old keeper is gone."""
        self._forget_transport()
        for channel in list(self.channels.values()):
            self.remove(channel)
        self._forget_asked()
        self.keeper_id, self.counting, self.last_channel = wire.NO_KEEPER_ID, Counting(), 0

    def end(self) -> None:
        """Close everything; the loop must not run again."""
        self._forget_asked()
        self.close()
        self._bell.close()
        self._ringer.close()

    # -- callbacks of the exchange ----------------------------------------------------------------------------

    def greeted(self, keeper_id: bytes, read: int) -> None:
        """Handle a keeper's greeting. If it is a new keeper, drop all connections first: it does not have them."""
        if self.keeper_id not in {keeper_id, wire.NO_KEEPER_ID}:
            for channel in list(self.channels.values()):
                self.remove(channel)
            self._forget_asked()
            if self._program is not None:
                self._program.lost()
            self.counting, self.last_channel = Counting(), 0
        self.keeper_id = keeper_id
        self.counting.connect(read)
        self._tell_found()

    def opened(self, channel: int, payload: bytes) -> None:  # noqa: ARG002
        """Reject a connection from the remote side."""
        raise WireError("it tries to open a connection to this machine")

    def about_program(self, kind: int, channel: int, payload: bytes) -> None:
        """Handle the exit of the program or of a query."""
        if kind == wire.EXITED and channel in self._asked:
            answer = self._asked.pop(channel)
            answer.code = int.from_bytes(payload, "big")
            answer.ended.set()
        elif kind != wire.EXITED or self._program is None:
            super().about_program(kind, channel, payload)
        else:
            self._program.exited(int.from_bytes(payload, "big"))

    def said_goodbye(self) -> None:
        """Reject a goodbye from the remote side."""
        raise WireError("it sends an unexpected goodbye")

    def transport_ended(self, why: str) -> None:
        """Drop the transport; the transport's thread opens another one."""
        self._forget_transport()
        self._tell_lost(f"the connection was cut: {why}", False)

    # -- the rest ---------------------------------------------------------------------------------------------

    def _forget_asked(self) -> None:
        """Mark all open answers as ended, because no more data will arrive."""
        while self._asked:
            self._asked.popitem()[1].ended.set()

    def _forget_transport(self) -> None:
        self.part()
        if self._stderr is not None:
            self.forget(self._stderr)
            self._stderr = None

    def _called(self) -> None:
        with contextlib.suppress(OSError):
            self._bell.recv(4096)
        with contextlib.suppress(queue.Empty):
            while True:
                self._calls.get_nowait()()

    def _listen_to_stderr(self) -> None:
        """Read and discard the command's stderr, so that it does not block."""
        if self._stderr is None:
            return
        try:
            data = os.read(self._stderr, _STDERR_TAIL_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.forget(self._stderr)
            self._stderr = None

    def _accept(self, listener: socket.socket, local: int) -> None:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        try:
            refused = local_users.refusal(client, {0, os.getuid()}) or containers.refusal(client)
            if refused or len(self.channels) >= wire.CHANNELS:
                client.close()
                return
            sockets.tune(client)
            self.last_channel += 1
            self.counting.send(wire.OPEN, self.last_channel, self._targets[local].to_bytes(2, "big"))
            self.add(Channel(self.last_channel, client))
        except OSError:
            client.close()


def _new_names() -> tuple[str, str]:
    """Return a random name and a random secret for a new keeper."""
    return secrets.token_hex(8), secrets.token_hex(32)


def _await(word: str, out: int, err: int, limit: float) -> None:
    """Wait until the command has printed its first line.

    Raises:
        DkdbgError: it prints something else, or nothing.
        _KeeperGoneError: it reports that the keeper is gone.
    """
    deadline = time.monotonic() + limit
    seen, stderr = b"", b""
    greeting = f"{word}\n".encode()
    streams = select.poll()  # select() fails from descriptor 1024 on
    for each in (out, err):
        streams.register(each, select.POLLIN)
    while not seen.endswith(greeting):
        ready = {each for each, _ in streams.poll(1000 * max(0.0, deadline - time.monotonic()))}
        if not ready:
            raise DkdbgError(f"no answer within {limit:g} s")
        if err in ready and (more := _read(err, _STDERR_TAIL_BYTES)):
            stderr = (stderr + more)[-_STDERR_TAIL_BYTES:]
            if out not in ready:
                continue
        if out in ready:
            data = _read(out, 1)  # byte by byte: the keeper's frames follow the line
            seen += data
            if seen.endswith(word.encode() + wire.GONE + b"\n"):
                raise _KeeperGoneError
            if not data or len(seen) > _MAX_NOISE_BYTES:
                last = last_line(stderr.decode("utf-8", "replace"))
                raise DkdbgError(f"the relay does not start: {last or 'it printed nothing'}")
        elif err in ready and time.monotonic() > deadline:
            raise DkdbgError(f"no answer within {limit:g} s")


def _read(file: int, max_bytes: int) -> bytes:
    try:
        return os.read(file, max_bytes)
    except BlockingIOError:
        return b""
