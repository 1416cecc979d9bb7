"""Frames between a local relay and its remote keeper. Pure. Both ends parse with it, and neither trusts the other.

A frame consists of kind (1 byte), channel (4 bytes), payload length (4 bytes), all big-endian, and payload. A channel
is one connection. Both ends count the frames whose kinds are in COUNTED; after a cut, they send those again that the
other end has not read. Frames of the other kinds concern one transport only.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, List, Tuple

    #: kind, channel, payload.
    Frame = Tuple[int, int, bytes]

#: Kinds of counted frames, with the payload in brackets. OPEN: connect to a loopback port of the remote machine (port,
#: 2 bytes). DATA (bytes). END: the sender sends no more data on the channel. RESET: close the channel (reason, text).
#: CREDIT: this end has passed that many bytes on, and may be sent as many more (4 bytes). RUN: start a program with
#: its input and output on this channel and its standard error on the next (JSON). SIGNAL: send the program a signal (1
#: byte). SIZE: resize its terminal (rows and columns, 2 bytes each). EXITED: the keeper reports its exit code (2
#: bytes). ASK: run the agent for a query, with channels and EXITED as for RUN (JSON). Send ASK only to an agent that
#: has announced `program.QUERIES`: an older keeper rejects it as invalid.
OPEN, DATA, END, RESET, CREDIT, RUN, SIGNAL, SIZE, EXITED, ASK = ALL_COUNTED = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
COUNTED = frozenset(ALL_COUNTED)
#: Kinds of other frames. HELLO: see `hello`. PING asks for a PONG; both have the number of counted frames read so far
#: (8 bytes). BYE: end the relay.
HELLO, PING, PONG, BYE = 16, 17, 18, 19
VERSION = 2
#: Suffix of the relay's first output line if its keeper no longer exists; see stdio.py.
GONE = b"-gone"

HEAD = struct.Struct(">BII")
_HELLO = struct.Struct(">B16sQ")
_COUNT = struct.Struct(">Q")
#: Maximum bytes of one payload, and of a channel's data that may be sent before the other end gives credit.
LARGEST = 1 << 16
WINDOW = 4 << 20
#: Maximum number of channels at a time.
CHANNELS = 64
#: Identity sent before the keeper is known.
NO_KEEPER_ID = bytes(16)
#: Minimum and maximum payload length of each kind.
_LENGTHS = {
    OPEN: (2, 2), DATA: (1, LARGEST), END: (0, 0), RESET: (0, 500), CREDIT: (4, 4),
    RUN: (2, LARGEST), SIGNAL: (1, 1), SIZE: (4, 4), EXITED: (2, 2), ASK: (2, LARGEST),
    HELLO: (_HELLO.size, _HELLO.size), PING: (8, 8), PONG: (8, 8), BYE: (0, 0),
}  # fmt: skip
_NONE = (1, 0)


class WireError(Exception):
    """The bytes are not a valid frame, or the frame is not allowed at this point; the message is a short phrase."""


def pack(kind: int, channel: int = 0, payload: bytes = b"") -> bytes:
    """Return a frame."""
    return HEAD.pack(kind, channel, len(payload)) + payload


def hello(keeper_id: bytes, count: int) -> bytes:
    """Return the HELLO that begins a transport: id of the expected or own keeper, number of counted frames read."""
    return pack(HELLO, 0, _HELLO.pack(VERSION, keeper_id, count))


def read_hello(payload: bytes) -> Tuple[bytes, int]:
    """Return the keeper's id and the count. Raises WireError: the other end has another version."""
    version, keeper_id, count = _HELLO.unpack(payload)
    if version != VERSION:
        raise WireError("it speaks relay protocol version %d, this dkdbg %d" % (version, VERSION))
    return keeper_id, count


def counted(payload: bytes) -> int:
    """Return the number in a PING or PONG."""
    count: int = _COUNT.unpack(payload)[0]
    return count


def count(number: int) -> bytes:
    """Return the payload of a PING or PONG."""
    return _COUNT.pack(number)


class Parser:
    """Parses an incoming byte stream into frames; buffers at most one frame and the last input."""

    def __init__(self) -> None:
        self._pieces: List[bytes] = []
        self._lacks = HEAD.size

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that `data` completes. Raises WireError, after which this transport is unusable."""
        if len(data) < self._lacks:  # join the pieces of a large frame only once
            self._pieces.append(data)
            self._lacks -= len(data)
            return
        if self._pieces:
            data = b"".join([*self._pieces, data])
        start, end, lacks = 0, len(data), HEAD.size
        while end - start >= HEAD.size:
            kind, channel, length = HEAD.unpack_from(data, start)
            min_length, max_length = _LENGTHS.get(kind, _NONE)
            if not min_length <= length <= max_length:
                raise WireError("invalid length of a frame of kind %d: %d bytes" % (kind, length))
            lacks = HEAD.size + length
            if end - start < lacks:
                break
            body, start = start + HEAD.size, start + lacks
            lacks = HEAD.size
            yield kind, channel, data[body:start]
        self._pieces = [data[start:]] if start < end else []
        self._lacks = lacks - (end - start)
