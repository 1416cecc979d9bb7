"""Receive a remote agent's answer to a query; from any thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable


class Answer:
    """A remote agent's answer to one query.

    Args:
        leave: function that abandons the query on both machines.

    Attributes:
        stdio, stderr: sockets with the query's output and errors.
        ended: set once `code` is known, or will never be known.
        code: exit code of the query; None if the keeper is gone.
    """

    def __init__(self, stdio: socket.socket, stderr: socket.socket, leave: Callable[[], None]) -> None:
        self.stdio, self.stderr = stdio, stderr
        self.ended = threading.Event()
        self.code: int | None = None
        self._leave = leave

    def close(self) -> None:
        """Abandon the query on both machines, and close the sockets."""
        self._leave()
        self.stdio.close()
        self.stderr.close()
