"""A socket that stops using its descriptor once the program has closed it.

Programs close descriptors that they have not opened (`os.closerange`, daemons, sandboxes) and open their own
under the same numbers. A write to the number would then go into the program's file.
"""

# ruff: noqa: ANN401

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from typing import Any, Callable, Optional, Tuple

#: Lowest number for dkdbg's descriptors, so high that the program's own get the same numbers as without dkdbg.
LOWEST = 1000
#: Seconds after which a thread that waits for data notices that the descriptor was closed: the kernel keeps the
#: connection open while the thread waits.
NOTICE_S = 1


if TYPE_CHECKING:
    _Socket = socket.socket
elif "gevent.monkey" in sys.modules:  # use Python's own class, which gevent has replaced
    _Socket = sys.modules["gevent.monkey"].get_original("socket", "socket")
else:  # eventlet replaces it too, and keeps a copy of the original module
    _Socket = sys.modules.get("__original_module_socket", socket).socket


class OwnSocket(_Socket):
    """A socket that checks before each use whether the descriptor is still its own.

    Attributes:
        on_loss: called once, on the thread that notices it, when the program has closed the descriptor.
    """

    def __init__(self, number: int, family: int, kind: int, proto: int) -> None:
        super().__init__(family, kind, proto, number)
        self.on_loss: Optional[Callable[[], None]] = None
        self._identity = identity(number)
        self._notices = False

    def is_own(self) -> bool:
        """Tell whether the descriptor still belongs to this socket."""
        return self.fileno() >= 0 and identity(self.fileno()) == self._identity is not None

    def notice_loss(self) -> None:
        """Make a receiving thread notice the loss too, after NOTICE_S seconds."""
        self._notices = True
        self.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", NOTICE_S, 0))

    def recv(self, *args: Any) -> bytes:
        """Receive as a socket does. Raises OSError: EBADF if the program has closed the descriptor."""
        while True:
            self._check()
            try:
                data = super().recv(*args)
            except BlockingIOError:
                if not self._notices:
                    raise
            else:
                self._check()  # the descriptor may have been lost during the wait
                return data

    def _check(self) -> None:
        if not self.is_own():
            on_loss = self.on_loss
            self.detach()
            if on_loss is not None:
                on_loss()
            raise OSError(errno.EBADF, "the program has closed this descriptor")

    def detach(self) -> int:
        """Release the descriptor without closing it."""
        self.on_loss = None
        return super().detach() if self.fileno() >= 0 else -1

    def _real_close(self, *args: Any) -> None:
        if self.is_own():
            self.on_loss = None
            super()._real_close(*args)  # type: ignore[misc]
        else:
            self.detach()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # Python is shutting down
            self._real_close()


def _checking(name: str) -> Callable[..., Any]:
    method = getattr(_Socket, name)

    def call(self: OwnSocket, *args: Any, **kwargs: Any) -> Any:
        self._check()
        return method(self, *args, **kwargs)

    call.__name__ = name
    return call


for _name in (
    "accept",
    "getsockname",
    "recv_into",
    "send",
    "sendall",
    "setsockopt",
    "settimeout",
    "shutdown",
):
    setattr(OwnSocket, _name, _checking(_name))


def take(sock: _socket.socket) -> OwnSocket:
    """Turn a socket into an OwnSocket, with a high descriptor number if `ulimit -n` allows; close the original."""
    family, kind, proto, limit = sock.family, sock.type, sock.proto, sock.gettimeout()
    number = lifted(sock.fileno())
    if number is None:
        number = sock.detach()
    else:
        sock.close()
    own = OwnSocket(number, family, kind, proto)
    own.settimeout(limit)
    return own


def lift(sock: _socket.socket) -> _socket.socket:
    """Move a plain `_socket.socket` to a high descriptor; return it unchanged where `ulimit -n` forbids that."""
    number = lifted(sock.fileno())
    if number is None:
        return sock
    high = type(sock)(sock.family, sock.type, sock.proto, number)
    sock.close()
    return high


def identity(number: int) -> Optional[Tuple[int, int]]:
    """Return the device and inode of a descriptor's file, None when it is closed."""
    try:
        found = os.fstat(number)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def lifted(number: int) -> Optional[int]:
    """Return a copy of a descriptor under a high number; None if `ulimit -n` forbids it."""
    try:
        return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, LOWEST)
    except OSError:
        return None
