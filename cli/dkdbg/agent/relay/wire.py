"""Frames between a relay here and its keeper there. Pure; both ends parse with it, and neither trusts the other.

A frame is a kind (1 byte), a channel (4), the payload's length (4, all big-endian) and the payload. A channel is one
connection. Those in COUNTED are counted by both ends, and sent again after a cut from where the other end
has read to; the others concern one transport only.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, List, Tuple

    #: kind, channel, payload.
    Frame = Tuple[int, int, bytes]

#: OPEN: port on loopback there (2 bytes). DATA. END: this direction is over. RESET: both are at once, why (text).
#: CREDIT: so many bytes of the channel were passed on (4 bytes).
#: RUN: a program, whose input and output are this channel, and its standard error is the next (JSON); SIGNAL: for it
#: (1 byte); SIZE: of its terminal (rows and columns, 2 bytes each); EXITED: with this code (2 bytes), said from there.
#: ASK: the agent, whose input and output are this channel, and its standard error is the next (JSON); answered by EXITED too.
#: Only who has said that it can be asked is (`questions.VERBS`): a keeper of before takes it for nonsense.
OPEN, DATA, END, RESET, CREDIT, RUN, SIGNAL, SIZE, EXITED, ASK = ALL_COUNTED = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
COUNTED = frozenset(ALL_COUNTED)
#: HELLO: see `hello`. PING, PONG: frames read so far (8 bytes). BYE: everything ends.
HELLO, PING, PONG, BYE = 16, 17, 18, 19
VERSION = 2
#: Ends the first line of a relay that should find a keeper, and there is none any more.
GONE = b"-gone"

HEAD = struct.Struct(">BII")
_HELLO = struct.Struct(">B16sQ")
_COUNT = struct.Struct(">Q")
#: Bytes of one payload, and those of a channel that may be under way without credit.
LARGEST = 1 << 16
WINDOW = 4 << 20
#: Connections at one time.
CHANNELS = 64
#: Who has not heard of a keeper yet.
NOBODY = bytes(16)
#: Lengths that a kind's payload may have.
_LENGTHS = {
    OPEN: (2, 2), DATA: (1, LARGEST), END: (0, 0), RESET: (0, 500), CREDIT: (4, 4),
    RUN: (2, LARGEST), SIGNAL: (1, 1), SIZE: (4, 4), EXITED: (2, 2), ASK: (2, LARGEST),
    HELLO: (_HELLO.size, _HELLO.size), PING: (8, 8), PONG: (8, 8), BYE: (0, 0),
}  # fmt: skip
_NONE = (1, 0)


class WireError(Exception):
    """What came is no frame, or none that may come now; the message says in a few words what is wrong."""


def pack(kind: int, channel: int = 0, payload: bytes = b"") -> bytes:
    """Return a frame."""
    return HEAD.pack(kind, channel, len(payload)) + payload


def hello(keeper: bytes, count: int) -> bytes:
    """Return the first frame of a transport: which keeper is meant or speaks (16 bytes), counted frames read so far."""
    return pack(HELLO, 0, _HELLO.pack(VERSION, keeper, count))


def read_hello(payload: bytes) -> Tuple[bytes, int]:
    """Return keeper and count. Raises WireError: the other end is of another version."""
    version, keeper, count = _HELLO.unpack(payload)
    if version != VERSION:
        raise WireError("it speaks version %d of the relay, we %d" % (version, VERSION))
    return keeper, count


def counted(payload: bytes) -> int:
    """Return the number of a PING or PONG."""
    count: int = _COUNT.unpack(payload)[0]
    return count


def count(number: int) -> bytes:
    """Return the payload of a PING or PONG."""
    return _COUNT.pack(number)


class Parser:
    """Takes bytes as they come and gives frames; holds no more than one frame and what was fed last."""

    def __init__(self) -> None:
        self._pieces: List[bytes] = []
        self._lacks = HEAD.size

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are whole now. Raises WireError; nothing can be read from this transport then."""
        if len(data) < self._lacks:  # a large frame is not put together anew with each piece of it
            self._pieces.append(data)
            self._lacks -= len(data)
            return
        if self._pieces:
            data = b"".join([*self._pieces, data])
        start, end, lacks = 0, len(data), HEAD.size
        while end - start >= HEAD.size:
            kind, channel, length = HEAD.unpack_from(data, start)
            least, most = _LENGTHS.get(kind, _NONE)
            if not least <= length <= most:
                raise WireError("a frame of kind %d with %d bytes" % (kind, length))
            lacks = HEAD.size + length
            if end - start < lacks:
                break
            body, start = start + HEAD.size, start + lacks
            lacks = HEAD.size
            yield kind, channel, data[body:start]
        self._pieces = [data[start:]] if start < end else []
        self._lacks = lacks - (end - start)
