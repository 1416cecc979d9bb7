"""The receiver's output: frames, collected until they are needed."""

from __future__ import annotations

import os

from dkdbg.sync.receiver import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

_FLUSH_BYTES = 1 << 16


class Outlet:
    """Writes frames to a descriptor. Raises BrokenPipeError when the host is gone."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting: List[bytes] = []
        self._size = 0

    def send(self, kind: int, head: Dict[str, Any]) -> None:
        """Send a frame without a body at the next flush."""
        self.send_encoded(wire.encode(kind, head))

    def send_encoded(self, frame: bytes) -> None:
        """Send a frame at the next flush, or at once when much is waiting."""
        self._waiting.append(frame)
        self._size += len(frame)
        if self._size > _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the collected frames."""
        if not self._waiting:
            return
        data = memoryview(b"".join(self._waiting))
        self._waiting.clear()
        self._size = 0
        while data:
            data = data[os.write(self._descriptor, data) :]
