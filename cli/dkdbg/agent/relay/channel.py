"""One connection of a relay: its local socket, and the flow control towards the other end and back."""

from __future__ import annotations

import socket

from dkdbg.agent.relay import wire
from dkdbg.agent.relay.wire import WireError

#: Bytes passed on before the other end is credited for them.
_CREDIT_FROM = wire.WINDOW // 16


class Channel:
    """A socket and its two directions.

    Attributes:
        waiting: bytes for the socket.
        allowance: bytes that may be sent to the other end now.
        is_read_out: the socket has reached the end of its input, and the other end was notified.
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
        """Queue bytes from the other end. Raises WireError: more than it may send."""
        self._uncredited += len(data)
        if self._uncredited > wire.WINDOW or self._is_ended:
            raise WireError("more on a connection than it may send")
        self.waiting += data

    def end(self) -> None:
        """Note that the other end has ended its direction. Raises WireError: it already had."""
        if self._is_ended:
            raise WireError("a connection that ends twice")
        self._is_ended = True

    def credit(self, payload: bytes) -> None:
        """Add credit from the other end, which has passed bytes on. Raises WireError: more than it received."""
        self.allowance += int.from_bytes(payload, "big")
        if self.allowance > wire.WINDOW:
            raise WireError("credit for what was not sent")

    def read(self) -> bytes:
        """Return bytes from the socket, empty at its end. Raises BlockingIOError (none now), OSError (it broke)."""
        data = self.sock.recv(min(wire.LARGEST, self.allowance))
        self.allowance -= len(data)
        self.is_read_out = not data
        return data

    def write(self) -> int:
        """Write as much as the socket accepts; return the bytes to credit now. Raises OSError: the connection broke."""
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
