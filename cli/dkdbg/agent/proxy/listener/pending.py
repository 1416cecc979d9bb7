"""Pending connections, which have not shown a token yet. Above their maximum number a new one replaces one of them.

So silent connections cannot lock others out. No I/O. Not thread-safe: the listener has a lock.
"""

from __future__ import annotations

import collections

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Dict, Optional, Set


class PendingConnections:
    """At most `most` connections that are not admitted yet, in order of arrival."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._addresses: Dict[socket.socket, str] = {}
        self._initialized: Set[socket.socket] = set()

    def __len__(self) -> int:
        return len(self._addresses)

    def __contains__(self, sock: object) -> bool:
        return sock in self._addresses

    def enter(self, sock: socket.socket, address: str) -> Optional[socket.socket]:
        """Add a connection; return the one that it replaces, None while there is room."""
        victim = self.victim() if len(self._addresses) >= self._most else None
        if victim is not None:
            self.leave(victim)
        self._addresses[sock] = address
        return victim

    def initialized(self, sock: socket.socket) -> None:
        """Note that a connection has sent its first request."""
        if sock in self._addresses:
            self._initialized.add(sock)

    def leave(self, sock: socket.socket) -> None:
        """Remove a connection that was admitted or closed, if present."""
        self._addresses.pop(sock, None)
        self._initialized.discard(sock)

    def victim(self) -> Optional[socket.socket]:
        """Return the connection to replace: silent ones first, then of the address with the most, then the oldest.

        Behind Docker's proxy all have the same address, so that the address alone is not enough.
        """
        found = [each for each in self._addresses if each not in self._initialized] or list(self._addresses)
        counts = collections.Counter(self._addresses[each] for each in found)
        return max(found, key=lambda each: counts[self._addresses[each]], default=None)
