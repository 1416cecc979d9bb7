"""Moves bytes between sockets on one side and one replaceable transport on the other, in a loop on one thread.

Frames are delivered exactly once and in order, even when the transport is replaced by another one.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import selectors
import socket
import time

from dkdbg.agent.relay import wire
from dkdbg.agent.relay.wire import WireError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Deque, Dict, Optional

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
#: Reads from the transport below this size in bytes are acknowledged at once; see `Exchange.answers`.
_SHORT = 4096
#: Minimum bytes to pass on to a socket before the other end gets credit to send as many more.
_CREDIT_FROM = wire.WINDOW // 16
#: Number of counted frames after which to confirm them, so that the other end keeps few. A PONG confirms too.
_ACKNOWLEDGE_AFTER = 64
#: Maximum buffers for one writev.
_MAX_BUFFERS = 16
#: Maximum bytes of unconfirmed frames to keep for a later transport. The data of each channel is limited by its window;
#: this limit is for all other frames.
_MAX_KEPT_BYTES = 2 * wire.CHANNELS * wire.WINDOW


class Outgoing:
    """Bytes for a transport, kept in the pieces in which they arrived so that large ones are not copied repeatedly."""

    def __init__(self) -> None:
        self._pieces: Deque[bytes] = collections.deque()
        self.size = 0

    def add(self, piece: bytes) -> None:
        """Append a piece."""
        self._pieces.append(piece)
        self.size += len(piece)

    def write(self, file: int) -> None:
        """Write all bytes. Raises BlockingIOError: some are left. OSError: the transport broke."""
        while self._pieces:
            pieces = (
                list(itertools.islice(self._pieces, _MAX_BUFFERS)) if len(self._pieces) > 1 else self._pieces
            )
            done = os.writev(file, pieces)
            self.size -= done
            while done and done >= len(self._pieces[0]):
                done -= len(self._pieces.popleft())
            if done:
                self._pieces[0] = self._pieces[0][done:]


class Counting:
    """One end of a relay: numbers its frames and keeps them until they are confirmed.

    Attributes:
        out: bytes for the transport.
        connected: whether the other end has sent its HELLO on this transport.
        read: number of counted frames read from the other end.
    """

    def __init__(self) -> None:
        self.out = Outgoing()
        self.connected = False
        self.read = 0
        self._acknowledged = 0
        self._kept: Deque[bytes] = collections.deque()
        self._kept_bytes = 0
        self._forgotten = 0

    @property
    def is_confirmed(self) -> bool:
        """Return whether the other end has read every frame sent so far."""
        return not self._kept

    def send(self, kind: int, channel: int, payload: bytes = b"") -> None:
        """Send a counted frame, now or on a later transport. Raises WireError: too many frames are unconfirmed."""
        frame = wire.pack(kind, channel, payload)
        self._kept.append(frame)
        self._kept_bytes += len(frame)
        if self._kept_bytes > _MAX_KEPT_BYTES:
            raise WireError("the other end acknowledges no frames")
        if self.connected:
            self.out.add(frame)

    def say(self, frame: bytes) -> None:
        """Send a frame that is not counted, on this transport only."""
        self.out.add(frame)

    def connect(self, read: int) -> None:
        """Resume on a new transport: resend all counted frames except the first `read`, which the other end has read.

        Raises:
            WireError: the other end cannot have read that many.
        """
        self.confirm(read)
        self.connected = True
        for frame in self._kept:
            self.out.add(frame)

    def lose(self) -> None:
        """Record that the transport is gone."""
        self.connected = False
        self.out = Outgoing()

    def confirm(self, read: int) -> None:
        """Drop the first `read` counted frames, which the other end has read. Raises WireError: it cannot have."""
        if not self._forgotten <= read <= self._forgotten + len(self._kept):
            raise WireError("it acknowledged %d frames of %d" % (read, self._forgotten + len(self._kept)))
        while self._forgotten < read:
            self._kept_bytes -= len(self._kept.popleft())
            self._forgotten += 1

    def count_read(self) -> None:
        """Count a frame as read."""
        self.read += 1
        if self.read - self._acknowledged >= _ACKNOWLEDGE_AFTER:
            self.tell()

    def tell(self) -> None:
        """Send the number of counted frames read so far."""
        self._acknowledged = self.read
        self.say(wire.pack(wire.PONG, 0, wire.count(self.read)))


class Channel:
    """A socket, whose two directions end separately.

    Attributes:
        waiting: bytes to write to the socket.
        allowance: number of bytes that may be sent to the other end now.
        is_read_out: whether the socket's input has ended.
    """

    def __init__(self, number: int, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.number = number
        self.sock = sock
        self.waiting = bytearray()
        self.allowance = wire.WINDOW
        self.is_read_out = False
        self._is_ended = False
        self._is_shut = False
        self._uncredited = 0
        self._passed_on = 0

    @property
    def wants_to_read(self) -> bool:
        """Return whether to read from the socket now."""
        return not self.is_read_out and self.allowance > 0

    @property
    def is_over(self) -> bool:
        """Return whether both directions have ended."""
        return self.is_read_out and self._is_shut

    def take(self, data: bytes) -> None:
        """Queue bytes from the other end. Raises WireError: the other end has exceeded its credit."""
        self._uncredited += len(data)
        if self._uncredited > wire.WINDOW or self._is_ended:
            raise WireError("the other end sent more than its credit")
        self.waiting += data

    def end(self) -> None:
        """Record that the other end sends no more data. Raises WireError: it has said so before."""
        if self._is_ended:
            raise WireError("a connection that ends twice")
        self._is_ended = True

    def credit(self, payload: bytes) -> None:
        """Add credit from the other end for bytes that it has passed on. Raises WireError: it never got so many."""
        self.allowance += int.from_bytes(payload, "big")
        if self.allowance > wire.WINDOW:
            raise WireError("credit for bytes that were not sent")

    def read(self) -> bytes:
        """Return bytes from the socket, empty at its end. Raises BlockingIOError (no data now), OSError (it broke)."""
        data = self.sock.recv(min(wire.LARGEST, self.allowance))
        self.allowance -= len(data)
        self.is_read_out = not data
        return data

    def write(self) -> int:
        """Write as much as the socket accepts; return how many bytes to credit now. Raises OSError: it broke."""
        if self.waiting:
            try:
                done = self.sock.send(self.waiting)
            except BlockingIOError:
                return 0
            del self.waiting[:done]
            self._passed_on += done
        if not self.waiting and self._is_ended and not self._is_shut:
            self._is_shut = True
            self.sock.shutdown(socket.SHUT_WR)
        if self._passed_on < _CREDIT_FROM:
            return 0
        due, self._passed_on = self._passed_on, 0
        self._uncredited -= due
        return due


class Exchange:
    """Base class of both ends of a relay: `Keeper` at the target, and `dkdbg.relay.relay` on the host.

    Attributes:
        keeper_id: identity of the relay's keeper; zeros until known.
        heard: time.monotonic() of the last data from the transport.
    """

    #: True to answer short reads at once, which carries the TCP acknowledgement back too. The sshd of a jump host
    #: holds small packets back until the previous one was acknowledged (Nagle), and the receiver's kernel would delay
    #: the acknowledgement by 40 ms.
    answers = False

    def __init__(self) -> None:
        self.keeper_id = wire.NO_KEEPER_ID
        self.heard = time.monotonic()
        self.counting = Counting()
        self.channels: Dict[int, Channel] = {}
        self.last_channel = 0
        self._selector = selectors.DefaultSelector()
        self._watched: Dict[int, int] = {}
        self._transport: Optional[tuple[int, int]] = None
        self._parser = wire.Parser()

    # -- for subclasses -----------------------------------------------------------------------------------------

    def greeted(self, keeper_id: bytes, read: int) -> None:
        """Handle the other end's HELLO on this transport. Raises WireError."""
        raise NotImplementedError

    def opened(self, channel: int, payload: bytes) -> None:
        """Handle a connection that the other end opens. Raises WireError."""
        raise NotImplementedError

    def about_program(self, kind: int, channel: int, payload: bytes) -> None:  # noqa: ARG002
        """Handle a frame about a program. Raises WireError: no program can run here."""
        raise WireError("frame of kind %d, but no program runs here" % kind)

    def said_goodbye(self) -> None:
        """Handle the other end's request to end everything. Raises WireError."""
        raise NotImplementedError

    def transport_ended(self, why: str) -> None:
        """Handle the end of the transport, which has been removed already; `why` is for the user."""
        raise NotImplementedError

    # -- the loop ---------------------------------------------------------------------------------------------

    @property
    def has_transport(self) -> bool:
        """Return whether there is a transport, even one without a HELLO yet."""
        return self._transport is not None

    def turn(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for events, and handle them. Raises WireError: an invalid frame came."""
        self._choose()
        for key, events in self._selector.select(timeout):
            what: Any = key.data
            if isinstance(what, Channel):
                self._move(what, events)
            elif what is not None:
                what()
            elif self._transport is not None and key.fd in self._transport:
                self._transported(key.fd, events)
        self._flush()

    def watch(self, file: int, arrived: Callable[[], None]) -> None:
        """Call `arrived` whenever the descriptor is readable, until `forget`."""
        self._selector.register(file, _READ, arrived)

    def forget(self, file: int) -> None:
        """Stop watching a descriptor."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(file)
        self._watched.pop(file, None)

    def join(self, reads: int, writes: int) -> None:
        """Continue on this transport: two nonblocking descriptors, which the caller closes."""
        self.part()
        self._transport = (reads, writes)
        self._parser = wire.Parser()
        self.heard = time.monotonic()

    def part(self) -> None:
        """Continue without a transport."""
        if self._transport is not None:
            for file in set(self._transport):
                self.forget(file)
            self._transport = None
        self.counting.lose()

    def add(self, channel: Channel) -> None:
        """Start to move the bytes of a channel."""
        self.channels[channel.number] = channel

    def reset(self, channel: Channel, why: str = "") -> None:
        """Reset a channel at both ends."""
        self.counting.send(wire.RESET, channel.number, why.encode("utf-8", "replace")[:500])
        self.remove(channel)

    def remove(self, channel: Channel) -> None:
        """Close this end of a channel."""
        self.channels.pop(channel.number, None)
        self.forget(channel.sock.fileno())
        channel.sock.close()

    def close(self) -> None:
        """Close everything on this side."""
        self.part()
        for channel in list(self.channels.values()):
            self.remove(channel)
        self._selector.close()

    def _choose(self) -> None:
        """Watch exactly the descriptors on which there is something to do."""
        for channel in self.channels.values():
            events = (_READ if channel.wants_to_read else 0) | (_WRITE if channel.waiting else 0)
            self._set(channel.sock.fileno(), events, channel)
        if self._transport is not None:
            reads, writes = self._transport
            wanted = _WRITE if self.counting.out.size else 0
            if reads == writes:
                self._set(reads, _READ | wanted, None)
            else:
                self._set(reads, _READ, None)
                self._set(writes, wanted, None)

    def _set(self, file: int, events: int, what: Optional[Channel]) -> None:
        before = self._watched.get(file, 0)
        if events == before:
            return
        if not events:
            self.forget(file)
            return
        if before:
            self._selector.modify(file, events, what)
        else:
            self._selector.register(file, events, what)
        self._watched[file] = events

    # -- connections ------------------------------------------------------------------------------------------

    def _move(self, channel: Channel, events: int) -> None:
        if channel.number not in self.channels:  # an earlier event of this turn has closed the channel
            return
        try:
            if events & _WRITE:
                self._write(channel)
            if events & _READ and channel.wants_to_read:
                data = channel.read()
                self.counting.send(wire.DATA if data else wire.END, channel.number, data)
        except BlockingIOError:
            return
        except OSError as error:
            self.reset(channel, error.strerror or str(error))
            return
        if channel.is_over:
            self.remove(channel)

    def _write(self, channel: Channel) -> None:
        credit = channel.write()
        if credit:
            self.counting.send(wire.CREDIT, channel.number, credit.to_bytes(4, "big"))

    # -- the transport ----------------------------------------------------------------------------------------

    def _transported(self, file: int, events: int) -> None:
        if events & _WRITE:
            self._flush()
        if self._transport is None or file != self._transport[0] or not events & ~_WRITE:
            return
        try:
            data = os.read(file, wire.LARGEST * 4)
        except BlockingIOError:
            return
        except OSError as error:
            self._lost(error.strerror or str(error))
            return
        if not data:
            self._lost("it has ended")
            return
        self.heard = time.monotonic()
        for frame in self._parser.feed(data):
            self._take(*frame)
            if self._transport is None:
                return
        if self.answers and len(data) < _SHORT and self.counting.connected and not self.counting.out.size:
            self.counting.tell()

    def _flush(self) -> None:
        if self._transport is None or not self.counting.out.size:
            return
        try:
            self.counting.out.write(self._transport[1])
        except BlockingIOError:
            return
        except OSError as error:
            self._lost(error.strerror or str(error))

    def _lost(self, why: str) -> None:
        self.part()
        self.transport_ended(why)

    def _take(self, kind: int, number: int, payload: bytes) -> None:
        if kind == wire.HELLO:
            if self.counting.connected:
                raise WireError("a second hello")
            self.greeted(*wire.read_hello(payload))
        elif not self.counting.connected:
            raise WireError("a frame before hello")
        elif kind in (wire.PING, wire.PONG):
            self.counting.confirm(wire.counted(payload))
            if kind == wire.PING:
                self.counting.say(wire.pack(wire.PONG, 0, wire.count(self.counting.read)))
        elif kind == wire.BYE:
            self.said_goodbye()
        else:
            self.counting.count_read()
            self._take_counted(kind, number, payload)

    def _take_counted(self, kind: int, number: int, payload: bytes) -> None:
        if kind == wire.OPEN:
            self.opened(number, payload)
            return
        if kind > wire.CREDIT:
            self.about_program(kind, number, payload)
            return
        channel = self.channels.get(number)
        if channel is None:
            if not 0 < number <= self.last_channel:
                raise WireError("a frame for a connection that was never opened")
            return  # this end has closed the channel meanwhile
        if kind == wire.RESET:
            self.remove(channel)
            return
        if kind == wire.CREDIT:
            channel.credit(payload)
            return
        if kind == wire.DATA:
            channel.take(payload)
        else:
            channel.end()
        try:  # at once instead of in the next turn: the socket mostly accepts the data
            self._write(channel)
        except OSError as error:
            self.reset(channel, error.strerror or str(error))
            return
        if channel.is_over:
            self.remove(channel)
