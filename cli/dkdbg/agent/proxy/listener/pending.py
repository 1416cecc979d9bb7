"""Pending connections, which have not shown a token yet: a limited number, of which a new one replaces one.

Silent connections cannot lock others out. No I/O. Not thread-safe: the listener has a lock.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Dict, List, Optional


class _Entry:
    def __init__(self, address: str) -> None:
        self.address = address
        self.initialized = False


class PendingConnections:
    """Connections that are not admitted yet, in order of arrival.

    Args:
        most: maximum number.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: Dict[socket.socket, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, sock: object) -> bool:
        return sock in self._entries

    def enter(self, sock: socket.socket, address: str) -> Optional[socket.socket]:
        """Add a connection; return the one that it replaces, None while there is room."""
        victim = self.victim() if len(self._entries) >= self._most else None
        if victim is not None:
            del self._entries[victim]
        self._entries[sock] = _Entry(address)
        return victim

    def initialized(self, sock: socket.socket) -> None:
        """Note that a connection has sent its first request."""
        entry = self._entries.get(sock)
        if entry is not None:
            entry.initialized = True

    def leave(self, sock: socket.socket) -> None:
        """Remove a connection that was admitted or closed, if present."""
        self._entries.pop(sock, None)

    def victim(self) -> Optional[socket.socket]:
        """Return the connection to replace: silent ones first, then of the address with the most, then the oldest.

        Behind Docker's proxy all have the same address, so that the address alone is not enough.
        """
        silent: List[socket.socket] = [sock for sock, entry in self._entries.items() if not entry.initialized]
        found = silent or list(self._entries)
        counts: Dict[str, int] = {}
        for sock in found:
            address = self._entries[sock].address
            counts[address] = counts.get(address, 0) + 1
        return max(found, key=lambda sock: counts[self._entries[sock].address], default=None)
