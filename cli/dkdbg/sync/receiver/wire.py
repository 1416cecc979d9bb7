"""Frames of the sync stream: bytes in, (kind, head, body) out, and back. No I/O; both sides use it.

A frame is `!BII` (kind, length of the head, length of the body), the head (a JSON object in ASCII) and the
body. The head of a LISTING is compressed (zlib). A path in a head is text relative to the root with `/`; bytes that are
not UTF-8 are lone surrogates, as os.fsdecode makes them ("surrogateescape"). Kinds are above ASCII, so that a login
banner on the stream is recognized.
"""

from __future__ import annotations

import itertools
import json
import struct
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

    Frame = Tuple[int, Dict[str, Any], bytes]
    Entry = List[Any]

VERSION = 5

#: Maximum bytes of a head or a body.
MAX_HEAD = 1 << 20
MAX_BODY = 1 << 20
MAX_MOUNTS = 100

#: Range of file times in a frame, in nanoseconds: the years 1677 to 2262. File systems can store others, too.
EARLIEST, LATEST = -(1 << 63), (1 << 63) - 1

HEADER = struct.Struct("!BII")

# Host to receiver; DATA and END go both ways.
HELLO, STAT, PUT, BEGIN, DATA, END, MKDIR, LINK = 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88
MODE, ADOPT, DELETE, VERIFY, LIST, GET, PING, BYE = 0x89, 0x8A, 0x8B, 0x8C, 0x8D, 0x8E, 0x8F, 0x90
# Receiver to host.
READY, LISTING, STATS, RESUME, DONE, FAILED = 0xC1, 0xC2, 0xC3, 0xC4, 0xC5, 0xC6
KEPT, REMOTE, FILE, PONG, ERROR = 0xC7, 0xC8, 0xC9, 0xCA, 0xCB

NAMES = {
    HELLO: "HELLO", STAT: "STAT", PUT: "PUT", BEGIN: "BEGIN", DATA: "DATA", END: "END", MKDIR: "MKDIR",
    LINK: "LINK", MODE: "MODE", ADOPT: "ADOPT", DELETE: "DELETE", VERIFY: "VERIFY", LIST: "LIST", GET: "GET",
    PING: "PING", BYE: "BYE", READY: "READY", LISTING: "LISTING", STATS: "STATS", RESUME: "RESUME", DONE: "DONE",
    FAILED: "FAILED", KEPT: "KEPT", REMOTE: "REMOTE", FILE: "FILE", PONG: "PONG", ERROR: "ERROR",
}  # fmt: skip

#: Entries in one LISTING, STATS or REMOTE; fewer if their paths are unusually long.
LISTING_ENTRIES = 2000

_dumps = json.JSONEncoder(separators=(",", ":")).encode


def time_of(mtime_ns: int) -> int:
    """Return `mtime_ns`, limited to the range of a frame."""
    return max(EARLIEST, min(mtime_ns, LATEST))


class WireError(ValueError):
    """The bytes are not a frame of this protocol, or the frame is too large. The stream cannot continue."""


class Parser:
    """Splits a byte stream into frames, which may arrive in any number of pieces.

    Attributes:
        taken: sizes of head and body of the last taken frame, in bytes.
    """

    def __init__(self) -> None:
        self._buffer = b""
        self._at = 0  # start of the next frame
        self._pieces: List[bytes] = []
        self._arrived = 0  # bytes in _pieces
        self.taken = (0, 0)

    def feed(self, data: bytes) -> None:
        """Append bytes as they arrived."""
        self._pieces.append(data)
        self._arrived += len(data)

    def take(self) -> Optional[Frame]:
        """Return the next frame, None when more bytes are needed.

        Raises:
            WireError: no frame can begin with these bytes. The lengths are checked before head and body arrive.
        """
        if not self._has(HEADER.size):
            return None
        kind, head_size, body_size = HEADER.unpack_from(self._buffer, self._at)
        if kind not in NAMES:
            raise WireError("not a frame of sync: %r" % self._buffer[self._at : self._at + 60])
        if head_size > MAX_HEAD or body_size > MAX_BODY:
            raise WireError(
                "%s with a head of %d and a body of %d bytes; %d and %d are allowed"
                % (NAMES[kind], head_size, body_size, MAX_HEAD, MAX_BODY)
            )
        if not self._has(HEADER.size + head_size + body_size):
            return None
        start = self._at + HEADER.size
        end = start + head_size
        text = self._buffer[start:end]
        if kind == LISTING and text:
            text = _inflated(text)
        head = parse_head(text, kind)
        self._at = end + body_size
        self.taken = (len(text), body_size)
        return kind, head, self._buffer[end : self._at]

    def rest(self) -> int:
        """Return the number of bytes of an unfinished frame that have arrived."""
        return len(self._buffer) - self._at + self._arrived

    def _has(self, count: int) -> bool:
        """Return whether `count` bytes are available from _at on, and join the pieces only in that case."""
        have = len(self._buffer) - self._at
        if have >= count:
            return True
        if have + self._arrived < count:
            return False
        self._buffer = b"".join([self._buffer[self._at :], *self._pieces])
        self._at = self._arrived = 0
        self._pieces = []
        return True


def _inflated(data: bytes) -> bytes:
    """Return the decompressed head of a LISTING. Raises WireError if it would exceed MAX_HEAD."""
    inflater = zlib.decompressobj()
    try:
        text = inflater.decompress(data, MAX_HEAD + 1)
    except zlib.error as error:
        raise WireError("LISTING is not compressed: %s" % error) from None
    if not inflater.eof or len(text) > MAX_HEAD:
        raise WireError("LISTING with a head that is cut, or larger than %d bytes" % MAX_HEAD)
    return text


def _integer(text: str) -> int:
    if len(text) > 20:
        raise ValueError("a number of %d digits" % len(text))
    return int(text)


def _no_constant(text: str) -> None:
    raise ValueError(text)


_decoder = json.JSONDecoder(parse_int=_integer, parse_constant=_no_constant)


def parse_head(data: bytes, kind: int) -> Dict[str, Any]:
    """Return the object in a head; an empty head is an empty object.

    Raises:
        WireError: it is not a JSON object in ASCII.
    """
    if not data:
        return {}
    try:
        head = _decoder.decode(data.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise WireError("the head of %s is not JSON: %.200s" % (NAMES[kind], error)) from None
    if type(head) is not dict:
        raise WireError("the head of %s is not a JSON object" % NAMES[kind])
    return head


def encode(kind: int, head: Optional[Dict[str, Any]] = None, body: bytes = b"") -> bytes:
    """Return the bytes of a frame. Raises WireError: head or body is larger than a frame may be."""
    text = _dumps(head).encode("ascii") if head else b""
    if len(text) > MAX_HEAD or len(body) > MAX_BODY:
        raise WireError(
            "%s with a head of %d and a body of %d bytes is too large" % (NAMES[kind], len(text), len(body))
        )
    if kind == LISTING:
        text = zlib.compress(text, 1)
    return HEADER.pack(kind, len(text), len(body)) + text + body


def encode_entries(kind: int, entries: Iterable[Entry]) -> Iterator[bytes]:
    """Yield frames (LISTING, STATS or REMOTE) that carry `entries`, as many as their size requires.

    At least one frame is yielded; the last frame is marked.
    """
    source = iter(entries)
    chunk = list(itertools.islice(source, LISTING_ENTRIES))
    while True:
        more = list(itertools.islice(source, LISTING_ENTRIES))
        yield from _fitting(kind, chunk, end=not more)
        if not more:
            return
        chunk = more


def _fitting(kind: int, entries: Sequence[Entry], *, end: bool) -> List[bytes]:
    try:
        return [encode(kind, {"entries": entries, "end": end})]
    except WireError:
        half = len(entries) // 2
        if not half:
            raise
        return _fitting(kind, entries[:half], end=False) + _fitting(kind, entries[half:], end=end)
