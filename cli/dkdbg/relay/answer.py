"""What an agent at the other end of a relay says to one question; from any thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable


class Answer:
    """What the agent there says to a question.

    Args:
        leave: lets go of what is not over yet, there and here.

    Attributes:
        stdio, stderr: sockets, its output and errors until their ends.
        ended: set when `code` is known or never will be.
        code: its exit code; None where its keeper is gone.
    """

    def __init__(self, stdio: socket.socket, stderr: socket.socket, leave: Callable[[], None]) -> None:
        self.stdio, self.stderr = stdio, stderr
        self.ended = threading.Event()
        self.code: int | None = None
        self._leave = leave

    def close(self) -> None:
        """Hear no more."""
        self._leave()
        self.stdio.close()
        self.stderr.close()
