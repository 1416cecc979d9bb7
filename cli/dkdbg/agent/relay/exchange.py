"""Move bytes between sockets on one side and one replaceable transport on the other, in a loop on one thread."""

from __future__ import annotations

import contextlib
import os
import selectors
import time

from dkdbg.agent.relay import wire
from dkdbg.agent.relay.channel import Channel
from dkdbg.agent.relay.counting import Counting
from dkdbg.agent.relay.wire import WireError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
#: A read from the transport with fewer bytes is acknowledged at once; see `Exchange.answers`.
_SHORT = 4096


class Exchange:
    """The part that both ends share; see `Keeper`, and `dkdbg.relay.relay` on the other machine.

    Attributes:
        keeper: identity of this keeper, or of the remote one; zeros until known.
        heard: time.monotonic() of the last data from the transport.
    """

    #: Answer short reads at once. An sshd that only forwards (a jump host) holds small packets back until
    #: the previous one was acknowledged (Nagle), and the other side delays acknowledgements by 40 ms: data that flows
    #: back carries them.
    answers = False

    def __init__(self) -> None:
        self.keeper = wire.NO_KEEPER
        self.heard = time.monotonic()
        self.counting = Counting()
        self.channels: Dict[int, Channel] = {}
        self.last_channel = 0
        self._selector = selectors.DefaultSelector()
        self._watched: Dict[int, int] = {}
        self._transport: Optional[tuple[int, int]] = None
        self._parser = wire.Parser()

    # -- for subclasses -----------------------------------------------------------------------------------------

    def greeted(self, keeper: bytes, read: int) -> None:
        """Handle the other end's hello on this transport. Raises WireError."""
        raise NotImplementedError

    def opened(self, channel: int, payload: bytes) -> None:
        """Handle a connection that the other end opens. Raises WireError."""
        raise NotImplementedError

    def told(self, kind: int, channel: int, payload: bytes) -> None:  # noqa: ARG002
        """Handle a frame about a program. Raises WireError: no program can run here."""
        raise WireError("kind %d, where no program is" % kind)

    def said_goodbye(self) -> None:
        """Handle the other end's request to end everything. Raises WireError."""
        raise NotImplementedError

    def transport_ended(self, why: str) -> None:
        """Handle the end of the transport, which is no longer watched."""
        raise NotImplementedError

    # -- the loop ---------------------------------------------------------------------------------------------

    @property
    def has_transport(self) -> bool:
        """Return whether there is a transport, greeted or not."""
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
        """Continue on this transport: two nonblocking descriptors, which remain the caller's."""
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
        """Move the bytes of a connection from now on."""
        self.channels[channel.number] = channel

    def reset(self, channel: Channel, why: str = "") -> None:
        """Reset a connection at both ends."""
        self.counting.send(wire.RESET, channel.number, why.encode("utf-8", "replace")[:500])
        self.remove(channel)

    def remove(self, channel: Channel) -> None:
        """Close this end of a connection."""
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
        """Watch exactly the descriptors that can make progress."""
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
        if channel.number not in self.channels:  # this turn has closed the channel already
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
            self.counting.note_read()
            self._take_counted(kind, number, payload)

    def _take_counted(self, kind: int, number: int, payload: bytes) -> None:
        if kind == wire.OPEN:
            self.opened(number, payload)
            return
        if kind > wire.CREDIT:
            self.told(kind, number, payload)
            return
        channel = self.channels.get(number)
        if channel is None:
            if not 0 < number <= self.last_channel:
                raise WireError("a connection that was not opened")
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
        try:  # in most cases the socket accepts it at once
            self._write(channel)
        except OSError as error:
            self.reset(channel, error.strerror or str(error))
            return
        if channel.is_over:
            self.remove(channel)
