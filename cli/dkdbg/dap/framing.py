"""Messages of the Debug Adapter Protocol: bytes in, whole messages out. No I/O; the agent has the parser of frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dkdbg.agent.dap.frames import MAX_BODY, FrameError, FrameParser, decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    #: A message or a part of one, as JSON has it: the protocol is open, so what is inside is looked at late.
    Body: TypeAlias = dict[str, Any]

__all__ = ["FrameError", "MessageReader", "encode"]

#: What makes a message of each type one that can be handled.
_NEEDED = {"request": "command", "event": "event", "response": "request_seq"}


class MessageReader:
    """Splits a byte stream into messages; a message may arrive in any number of pieces.

    After a FrameError the stream is lost: the protocol has no way to find the next frame.
    """

    def __init__(self, *, max_body: int = MAX_BODY) -> None:
        """`max_body` is the largest body that is taken, in bytes."""
        self._frames = FrameParser(max_body=max_body)

    def feed(self, data: bytes) -> Iterator[Body]:
        """Yield the messages that are whole with `data`, in order.

        Raises:
            FrameError: the bytes are no frame, too large, or no message of the protocol.
        """
        self._frames.feed(data)
        while (body := self._frames.take()) is not None:
            message = decode(body)
            needed = _NEEDED.get(str(message.get("type")))
            if needed is None or needed not in message:
                raise FrameError(f"not a request, response or event: {body[:80]!r}")
            yield message
