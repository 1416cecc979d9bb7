"""The first words on a worker's debug port: debugpy's own greeting, or the question of the guard that we put before it.

debugpy speaks first, and so does the guard (`inprocess/ray/worker.py`): whoever connects tells them apart without sending
a byte. The guard's question is answered with HMAC-SHA256 over its number, keyed with the secret of the run, which the driver
has left in its session's folder (runs.py).
"""

from __future__ import annotations

import hashlib
import hmac
import socket
import time

from dkdbg.agent.ray import runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple

#: What the guard begins with; then two numbers in hexadecimal digits, of the run and of this connection, and a new line.
MARK = b"dkdbg-ray "
_GREETING = b"Content-Length: "
_LONGEST = 200
#: Seconds for the connection and the first words.
_LIMIT = 10.0


class GuardError(OSError):
    """What listens there is neither debugpy nor our guard, or does not let us in."""


def answer(number: str, secret: bytes) -> bytes:
    """Return what a guard takes for its number, a line."""
    return hmac.new(secret, number.encode(), hashlib.sha256).hexdigest().encode() + b"\n"


def connect(ip: str, port: int) -> Tuple[socket.socket, bytes, str]:
    """Return a connection to a worker's debugger, what it has said already, and the run whose guard let us in (runs.py).

    Raises:
        OSError: nothing listens there any more, or something else does.
    """
    sock = socket.create_connection((ip, port), timeout=_LIMIT)
    try:
        end = time.monotonic() + _LIMIT
        said = _more(sock, b"", end)
        while len(said) < len(_GREETING) and (
            _GREETING.startswith(said) or MARK.startswith(said[: len(MARK)])
        ):
            said = _more(sock, said, end)
        if said.startswith(_GREETING):
            sock.settimeout(None)
            return sock, said, ""
        while said.startswith(MARK) and b"\n" not in said and len(said) < _LONGEST:
            said = _more(sock, said, end)
        line, newline, rest = said.partition(b"\n")
        words = line.decode("ascii", "replace").split()
        if not newline or len(words) != 3 or not said.startswith(MARK):
            raise GuardError(0, "what listens there is not a debugger")
        secrets = [each.secret for each in runs.here() if each.id == words[1]]
        if not secrets:
            raise GuardError(
                0,
                "its driver was started from another machine, or by another user: attach from where it runs",
            )
        sock.sendall(answer(words[2], secrets[0]))
        if not rest:
            rest = _more(sock, b"", end)
        sock.settimeout(None)
        return sock, rest, words[1]
    except BaseException:
        sock.close()
        raise


def _more(sock: socket.socket, said: bytes, end: float) -> bytes:
    sock.settimeout(max(0.01, end - time.monotonic()))
    data = sock.recv(4096)
    if not data:
        raise GuardError(0, "it has hung up: it does not know us, or another debugger is there")
    return said + data
