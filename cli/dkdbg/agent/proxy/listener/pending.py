"""Connections that may still be anybody's: so many at most, and a new one takes the place of the one that matters least.

Who has come and says nothing keeps nobody out. No I/O; not for several threads at a time: the front has a lock for it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Dict, List, Optional


class _Entry:
    def __init__(self, address: str) -> None:
        self.address = address
        self.introduced = False


class PendingConnections:
    """Those who have not been let in yet, in the order in which they came.

    Args:
        most: how many at one time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: Dict[socket.socket, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, sock: object) -> bool:
        return sock in self._entries

    def enter(self, sock: socket.socket, address: str) -> Optional[socket.socket]:
        """Add one; return whom it takes the place of, None while there is room."""
        victim = self.victim() if len(self._entries) >= self._most else None
        if victim is not None:
            del self._entries[victim]
        self._entries[sock] = _Entry(address)
        return victim

    def introduced(self, sock: socket.socket) -> None:
        """Note that one has sent its first request."""
        entry = self._entries.get(sock)
        if entry is not None:
            entry.introduced = True

    def leave(self, sock: socket.socket) -> None:
        """Remove one that was let in or has gone, if it is there."""
        self._entries.pop(sock, None)

    def victim(self) -> Optional[socket.socket]:
        """Return who matters least: silent before introduced, then of the address with the most, then the oldest.

        Behind Docker's proxy all have the same address: it decides nothing alone.
        """
        silent: List[socket.socket] = [sock for sock, entry in self._entries.items() if not entry.introduced]
        found = silent or list(self._entries)
        counts: Dict[str, int] = {}
        for sock in found:
            address = self._entries[sock].address
            counts[address] = counts.get(address, 0) + 1
        return max(found, key=lambda sock: counts[self._entries[sock].address], default=None)
