"""The server's side of a WebSocket (RFC 6455), as much of it as kubectl uses."""

import base64
import hashlib
import socket
import struct
import threading
from typing import BinaryIO

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTINUED, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
#: Bytes of a message at most: kubectl sends 32 kB at a time.
_LARGEST = 1 << 22


def accept_of(key: str) -> str:
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()


class WebSocket:
    """Whole messages in and out; any thread may send."""

    def __init__(self, source: BinaryIO, connection: socket.socket) -> None:
        self._source, self._connection = source, connection
        self._lock = threading.Lock()

    def receive(self) -> bytes | None:
        """Return the next message; None when the client has closed or is gone."""
        message = b""
        while True:
            try:
                first, second = self._exactly(2)
                kind, size = first & 0x0F, second & 0x7F
                if size > 125:
                    size = int.from_bytes(self._exactly(2 if size == 126 else 8), "big")
                if size > _LARGEST or not second & 0x80:
                    return None
                mask, masked = self._exactly(4), self._exactly(size)
            except EOFError:
                return None
            data = _unmasked(mask, masked)
            if kind == _CLOSE:
                return None
            if kind == _PING:
                self._frame(_PONG, data)
            elif kind in {_CONTINUED, _TEXT, _BINARY}:
                message += data
                if first & 0x80:
                    return message

    def send(self, message: bytes) -> None:
        """Send a message. Raises OSError when the client is gone."""
        self._frame(_BINARY, message)

    def close(self) -> None:
        self._frame(_CLOSE, struct.pack(">H", 1000))

    def _frame(self, kind: int, data: bytes) -> None:
        size = len(data)
        if size < 126:
            head = struct.pack(">BB", 0x80 | kind, size)
        elif size < 1 << 16:
            head = struct.pack(">BBH", 0x80 | kind, 126, size)
        else:
            head = struct.pack(">BBQ", 0x80 | kind, 127, size)
        with self._lock:
            self._connection.sendall(head + data)

    def _exactly(self, size: int) -> bytes:
        try:
            data = self._source.read(size)
        except (OSError, ValueError):
            raise EOFError from None
        if len(data) < size:
            raise EOFError
        return data


def _unmasked(mask: bytes, data: bytes) -> bytes:
    key = (mask * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(len(data), "big")
