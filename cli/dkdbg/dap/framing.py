"""Frames of the Debug Adapter Protocol: bytes in, whole messages out. No I/O.

A frame is `Content-Length: N CR LF CR LF` and N bytes of JSON (microsoft.github.io/debug-adapter-protocol, "Base
Protocol"). Other header lines are allowed and ignored.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    #: A message or a part of one, as JSON has it: the protocol is open, so what is inside is looked at late.
    Body: TypeAlias = dict[str, Any]

#: Bytes. A variable's value may be long, a header never is.
MAX_HEADER = 1024
MAX_BODY = 64 << 20

_HEADER_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"(?:^|\r\n)content-length:[ \t]*([0-9]{1,12})[ \t]*(?:\r\n|$)", re.IGNORECASE)
#: What makes a message of each type one that can be handled.
_NEEDED = {"request": "command", "event": "event", "response": "request_seq"}


class FrameError(ValueError):
    """The bytes are no frame, the frame is larger than allowed, or what is in it is no message."""


def encode(message: Body) -> bytes:
    """Return the frame of a message."""
    body = json.dumps(message, separators=(",", ":")).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class MessageReader:
    """Splits a byte stream into messages; a message may arrive in any number of pieces.

    After a FrameError the stream is lost: the protocol has no way to find the next frame.
    """

    def __init__(self, *, max_body: int = MAX_BODY) -> None:
        """`max_body` is the largest body that is taken, in bytes."""
        self._buffer = bytearray()
        self._max_body = max_body
        #: Bytes of the body that is awaited; None while its header is.
        self._length: int | None = None

    def feed(self, data: bytes) -> Iterator[Body]:
        """Yield the messages that are whole with `data`, in order.

        Raises:
            FrameError: the bytes are no frame, too large, or no message of the protocol.
        """
        self._buffer += data
        while True:
            if self._length is None:
                self._length = self._take_header()
            if self._length is None or len(self._buffer) < self._length:
                return
            body = bytes(self._buffer[: self._length])
            del self._buffer[: self._length]
            self._length = None
            yield _message(body)

    def _take_header(self) -> int | None:
        """Take a header and return the length that it announces, None while it is not whole."""
        end = self._buffer.find(_HEADER_END, 0, MAX_HEADER)
        if end < 0:
            if len(self._buffer) >= MAX_HEADER:
                raise FrameError(
                    f"no end of a header within {MAX_HEADER} bytes: {bytes(self._buffer[:40])!r}"
                )
            return None
        header = bytes(self._buffer[:end])
        found = _LENGTH.search(header)
        if not found:
            raise FrameError(f"a header without Content-Length: {header[:80]!r}")
        length = int(found.group(1))
        if length > self._max_body:
            raise FrameError(f"a message of {length} bytes, where {self._max_body} are allowed")
        del self._buffer[: end + len(_HEADER_END)]
        return length


def _message(body: bytes) -> Body:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"not JSON ({error}): {body[:80]!r}") from error
    needed = _NEEDED.get(str(message.get("type"))) if isinstance(message, dict) else None
    if needed is None or needed not in message:
        raise FrameError(f"not a request, response or event: {body[:80]!r}")
    return dict(message)
