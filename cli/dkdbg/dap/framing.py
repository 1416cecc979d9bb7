"""Parse messages of the Debug Adapter Protocol from bytes. No I/O; the frame parser is the agent's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dkdbg.agent.dap.frames import MAX_BODY, FrameError, FrameParser, decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    #: A message or a part of one as JSON; the protocol is extensible, so the values are checked at use.
    Body: TypeAlias = dict[str, Any]

__all__ = ["FrameError", "MessageReader", "encode"]

#: The key that a message of each type needs.
_NEEDED = {"request": "command", "event": "event", "response": "request_seq"}


class MessageReader:
    """Parser that splits a byte stream into messages; a message may arrive in any number of pieces.

    After a FrameError the stream is unusable: the protocol cannot resynchronise.
    """

    def __init__(self, *, max_body: int = MAX_BODY) -> None:
        """Set the largest accepted body, `max_body`, in bytes."""
        self._frames = FrameParser(max_body=max_body)

    def feed(self, data: bytes) -> Iterator[Body]:
        """Yield the messages that `data` completes, in order.

        Raises:
            FrameError: the bytes are not a frame, are too large, or are not a message of the protocol.
        """
        self._frames.feed(data)
        while (body := self._frames.take()) is not None:
            message = decode(body)
            needed = _NEEDED.get(str(message.get("type")))
            if needed is None or needed not in message:
                raise FrameError(f"not a request, response or event: {body[:80]!r}")
            yield message
