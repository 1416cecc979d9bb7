"""Parse and build frames of the Debug Adapter Protocol. No I/O.

A frame is `Content-Length: N CR LF CR LF` and N bytes of JSON (microsoft.github.io/debug-adapter-protocol,
"Base Protocol"). Other header lines are allowed and ignored.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, Optional

MAX_HEADER = 1024
MAX_BODY = 64 << 20
_END = b"\r\n\r\n"
_NAME = b"content-length"


class FrameError(ValueError):
    """The bytes are not a frame, or the frame is larger than allowed."""


class FrameParser:
    """Splits a byte stream into frames; a frame may arrive in any number of pieces.

    `feed` accepts bytes, `take` returns the body of the next complete frame or None.
    After a FrameError the stream is unusable: the protocol has no way to find the next frame.
    """

    def __init__(self, max_body: int = MAX_BODY) -> None:
        self._buffer = bytearray()
        self._length: Optional[int] = None
        self._max_body = max_body

    def allow(self, max_body: int) -> None:
        """Set the maximum size of a body in bytes, for frames whose header has not been read."""
        self._max_body = max_body

    def feed(self, data: bytes) -> None:
        """Append received bytes."""
        self._buffer += data

    def take(self) -> Optional[bytes]:
        """Return the body of the next frame, None when more bytes are needed.

        Raises:
            FrameError: the bytes cannot be the start of a frame; raised as early as possible.
        """
        if self._length is None and not self._take_header():
            return None
        length = self._length
        if length is None or len(self._buffer) < length:
            return None
        body = bytes(self._buffer[:length])
        del self._buffer[:length]
        self._length = None
        return body

    def _take_header(self) -> bool:
        end = self._buffer.find(_END, 0, MAX_HEADER + len(_END))
        if end < 0:
            if len(self._buffer) > MAX_HEADER:
                raise FrameError("no end of the header within %d bytes" % MAX_HEADER)
            _reject_garbage(bytes(self._buffer))
            return False
        self._length = _content_length(bytes(self._buffer[:end]), self._max_body)
        del self._buffer[: end + len(_END)]
        return True


def received(receive: Callable[[int], bytes], parser: FrameParser) -> Iterator[bytes]:
    """Yield the body of each message until the stream ends.

    Args:
        receive: `recv` of a socket.

    Raises:
        OSError: the connection broke.
        FrameError: the stream is malformed.
    """
    while True:
        body = parser.take()
        while body is not None:
            yield body
            body = parser.take()
        data = receive(1 << 16)
        if not data:
            return
        parser.feed(data)


def encode(message: Dict[str, Any]) -> bytes:
    """Return the frame of a message."""
    return wrap(json.dumps(message, separators=(",", ":")).encode())


def wrap(body: bytes) -> bytes:
    """Return a frame with this body."""
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def decode(body: bytes) -> Dict[str, Any]:
    """Return the message in a frame's body. Raises FrameError: the body is not a JSON object."""
    try:
        message = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FrameError("the body is not JSON: %s" % error) from error
    if not isinstance(message, dict):
        raise FrameError("the body is not a JSON object")
    return message


def _reject_garbage(start: bytes) -> None:
    """Raise as soon as a line cannot become a header, to reject other protocols at their first bytes."""
    for line in start.split(b"\r\n"):
        name, colon, _ = line.partition(b":")
        if not colon:
            name = name.rstrip(b"\r")  # the "\n" has not arrived yet
        if not all(c == 0x2D or 0x41 <= c <= 0x5A or 0x61 <= c <= 0x7A for c in name):
            raise FrameError("not a header line: %r" % line[:40])
        if not colon and len(name) > 64:
            raise FrameError("not a header line: %r" % line[:40])


def _content_length(header: bytes, max_body: int) -> int:
    _reject_garbage(header)
    length: Optional[int] = None
    for line in header.split(b"\r\n"):
        name, colon, value = line.partition(b":")
        if not colon:
            raise FrameError("not a header line: %r" % line[:40])
        if name.lower() != _NAME:
            continue
        digits = value.strip()
        if length is not None or not digits.isdigit() or len(digits) > 12:
            raise FrameError("bad Content-Length: %r" % value[:40])
        length = int(digits)
    if length is None:
        raise FrameError("a header without Content-Length")
    if length > max_body:
        raise FrameError("the body has %d bytes; the maximum is %d" % (length, max_body))
    return length
