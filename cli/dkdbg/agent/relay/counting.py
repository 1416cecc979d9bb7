"""Deliver frames once and in order, even when the transports that carry them are replaced."""

from __future__ import annotations

import collections
import itertools
import os

from dkdbg.agent.relay import wire
from dkdbg.agent.relay.wire import WireError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Deque

#: Counted frames to read before confirming them, so that the other end keeps few; the answer to a ping confirms too.
_TELL_AFTER = 64
#: Buffers of one writev.
_MAX_BUFFERS = 16
#: Maximum bytes to keep for a later transport. Channels and their windows bound them; this limit ends everything else.
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
        connected: the other end has sent its hello on this transport.
        read: number of counted frames read from the other end.
    """

    def __init__(self) -> None:
        self.out = Outgoing()
        self.connected = False
        self.read = 0
        self._told = 0
        self._kept: Deque[bytes] = collections.deque()
        self._kept_bytes = 0
        self._forgotten = 0

    @property
    def is_confirmed(self) -> bool:
        """Return whether the other end has read every frame sent so far."""
        return not self._kept

    def send(self, kind: int, channel: int, payload: bytes = b"") -> None:
        """Send a counted frame, now or on a later transport. Raises WireError: the other end confirms nothing."""
        frame = wire.pack(kind, channel, payload)
        self._kept.append(frame)
        self._kept_bytes += len(frame)
        if self._kept_bytes > _MAX_KEPT_BYTES:
            raise WireError("the other end confirms nothing")
        if self.connected:
            self.out.add(frame)

    def say(self, frame: bytes) -> None:
        """Send a frame on this transport only."""
        self.out.add(frame)

    def connect(self, read: int) -> None:
        """Resume on a new transport: resend all counted frames but the first `read`, which the other end has read.

        Raises:
            WireError: the count is impossible.
        """
        self.confirm(read)
        self.connected = True
        for frame in self._kept:
            self.out.add(frame)

    def lose(self) -> None:
        """Note that the transport is gone."""
        self.connected = False
        self.out = Outgoing()

    def confirm(self, read: int) -> None:
        """Drop the first `read` counted frames, which the other end has read. Raises WireError: an impossible count."""
        if not self._forgotten <= read <= self._forgotten + len(self._kept):
            raise WireError("it has read %d frames of %d" % (read, self._forgotten + len(self._kept)))
        while self._forgotten < read:
            self._kept_bytes -= len(self._kept.popleft())
            self._forgotten += 1

    def note_read(self) -> None:
        """Count a frame as read."""
        self.read += 1
        if self.read - self._told >= _TELL_AFTER:
            self.tell()

    def tell(self) -> None:
        """Send the number of counted frames read so far."""
        self._told = self.read
        self.say(wire.pack(wire.PONG, 0, wire.count(self.read)))
