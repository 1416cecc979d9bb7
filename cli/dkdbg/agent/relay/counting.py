"""Frames that arrive once and in order, whatever becomes of the transports that carry them."""

from __future__ import annotations

import collections
import itertools
import os

from dkdbg.agent.relay import wire
from dkdbg.agent.relay.wire import WireError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Deque

#: Counted frames read until the other end is told, so that it keeps few; each ping tells it as well.
_TELL_AFTER = 64
#: Pieces of one writev.
_AT_ONCE = 16
#: Bytes that are kept for a transport to come; channels and their windows bound them, this ends what does not.
_MOST_KEPT = 2 * wire.CHANNELS * wire.WINDOW


class Outgoing:
    """Bytes for a transport, in the pieces that they came in: large ones are not copied again and again."""

    def __init__(self) -> None:
        self._pieces: Deque[bytes] = collections.deque()
        self.size = 0

    def add(self, piece: bytes) -> None:
        """Append."""
        self._pieces.append(piece)
        self.size += len(piece)

    def write(self, file: int) -> None:
        """Write all that the descriptor takes. Raises BlockingIOError: not all of it. OSError: the transport broke."""
        while self._pieces:
            pieces = list(itertools.islice(self._pieces, _AT_ONCE)) if len(self._pieces) > 1 else self._pieces
            done = os.writev(file, pieces)
            self.size -= done
            while done and done >= len(self._pieces[0]):
                done -= len(self._pieces.popleft())
            if done:
                self._pieces[0] = self._pieces[0][done:]


class Counting:
    """One end. What is to be sent gathers in `out`, as far as there is a transport.

    Attributes:
        out: for the transport.
        connected: a transport has said who is at its other end.
        read: counted frames of the other end that were read.
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
        """Whether the other end has read all that was ever sent."""
        return not self._kept

    def send(self, kind: int, channel: int, payload: bytes = b"") -> None:
        """Send a counted frame, now or with a later transport. Raises WireError: the other end takes nothing."""
        frame = wire.pack(kind, channel, payload)
        self._kept.append(frame)
        self._kept_bytes += len(frame)
        if self._kept_bytes > _MOST_KEPT:
            raise WireError("the other end confirms nothing")
        if self.connected:
            self.out.add(frame)

    def say(self, frame: bytes) -> None:
        """Send a frame that is for this transport only."""
        self.out.add(frame)

    def connect(self, read: int) -> None:
        """There is a transport, and the other end has read so many of our counted frames: send it the others.

        Raises:
            WireError: that cannot be.
        """
        self.confirm(read)
        self.connected = True
        for frame in self._kept:
            self.out.add(frame)

    def lose(self) -> None:
        """The transport is gone."""
        self.connected = False
        self.out = Outgoing()

    def confirm(self, read: int) -> None:
        """The other end has read so many of our counted frames. Raises WireError: more than there were, or fewer."""
        if not self._forgotten <= read <= self._forgotten + len(self._kept):
            raise WireError("it has read %d frames of %d" % (read, self._forgotten + len(self._kept)))
        while self._forgotten < read:
            self._kept_bytes -= len(self._kept.popleft())
            self._forgotten += 1

    def note_read(self) -> None:
        """A counted frame was read."""
        self.read += 1
        if self.read - self._told >= _TELL_AFTER:
            self.tell()

    def tell(self) -> None:
        """Say now how many counted frames were read."""
        self._told = self.read
        self.say(wire.pack(wire.PONG, 0, wire.count(self.read)))
