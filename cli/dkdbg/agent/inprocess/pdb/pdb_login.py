"""Accepts the first client of a listener that types the token; silent or wrong clients cannot block it.

Every user of the machine can reach a port on loopback, and so can a web page in a browser. A browser sends HTTP or TLS
first, which cannot be mistaken for a token. A client with a wrong first line is disconnected, and the rest of its input
is not read.

If the user has set a token, the program's environment has its salt and digest: with these, processes can check a token
without knowing it. Otherwise each process generates its own, prints it on stderr, and keeps it in memory.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import threading
import time

from .. import own_socket, session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, MutableMapping, Optional, Set

#: Seconds that a client has to send the line with the token.
LOGIN_TIMEOUT_S = 10.0
#: Maximum clients that may be typing the token at the same time; `_too_many` chooses which of more to disconnect.
_MAX_PENDING = 32
#: Maximum bytes of the line with the token, including its end.
_MAX_LINE_BYTES = 4097
#: Seconds between two checks for clients if the program has removed `select.poll`, as eventlet does.
_INTERVAL_S = 0.02
#: Seconds for which clients that have not sent the token may still delay this process; see `first`.
_seconds_left = LOGIN_TIMEOUT_S
_ROUNDS = 100000
_ENV = "DKDBG_PDB_TOKEN"
#: Token that this process has generated, because the user has set none.
_made = ""
#: Held while the token in the environment is replaced by its digest: in between, another thread would see neither.
_taking = threading.RLock()


def digest(token: str) -> str:
    """Return `SALT:DIGEST` of a token, in hexadecimal digits (PBKDF2, RFC 8018)."""
    salt = os.urandom(16)
    return "%s:%s" % (salt.hex(), _derive(token, salt))


def _fits(given: str, wanted: str) -> bool:
    """Tell whether a token matches `SALT:DIGEST`; False for malformed text."""
    import hmac

    salt, _, derived = wanted.partition(":")
    try:
        return hmac.compare_digest(_derive(given, bytes.fromhex(salt)), derived)
    except (ValueError, TypeError):
        return False


def token_is_named(environment: MutableMapping[str, str]) -> bool:
    """Tell whether the user has set a token; replace a plain one in the environment by its digest, as the agent does.

    Raises:
        OSError, ValueError: DKDBG_TOKEN_FILE cannot be read, or is empty.
    """
    with _taking:
        token = environment.pop("DKDBG_TOKEN", "").strip()
        path = environment.pop("DKDBG_TOKEN_FILE", "")
        if not token and path:
            with open(path) as source:
                token = source.read(4096).strip()
            if not token:
                raise ValueError("DKDBG_TOKEN_FILE=%s is empty: it must contain the token" % path)
        if token:
            environment[_ENV] = digest(token)
        return bool(environment.get(_ENV))


def renew_lock() -> None:
    """Replace the lock in a forked child: another thread of the parent may have held it."""
    global _taking  # noqa: PLW0603
    _taking = threading.RLock()


def _is_right(line: str) -> bool:
    """Tell whether a client's first line is the token of this process."""
    import hmac

    named = os.environ.get(_ENV, "")
    if named:
        return _fits(line.strip(), named)
    return bool(_made) and hmac.compare_digest(line.strip().encode("utf-8", "replace"), _made.encode("ascii"))


def to_type() -> str:
    """Return the instruction for the first line to type; generate a token if the user has set none."""
    global _made  # noqa: PLW0603
    if os.environ.get(_ENV, ""):
        return "type your DKDBG_TOKEN first"
    _made = _made or os.urandom(8).hex()
    return "type this first: %s" % _made


def forget_token() -> None:
    """Invalidate the generated token; the next call of `to_type` generates another one."""
    global _made  # noqa: PLW0603
    _made = ""


def _derive(token: str, salt: bytes) -> str:
    import hashlib

    return hashlib.pbkdf2_hmac("sha256", token.encode("utf-8", "replace"), salt, _ROUNDS).hex()


class _PendingConnection:
    """A client that has not typed the token yet."""

    def __init__(self, connection: own_socket.OwnSocket, host: str) -> None:
        self.connection = connection
        self.host = host
        self.end = session.monotonic() + LOGIN_TIMEOUT_S
        self._line = b""
        connection.settimeout(0.0)

    def poll(self) -> Optional[bool]:
        """Read more of the first line; return whether it is the token, or None while it is incomplete.

        Raises:
            OSError: the client is gone.
        """
        while True:
            try:
                seen = self.connection.recv(_MAX_LINE_BYTES, socket.MSG_PEEK)
            except BlockingIOError:
                return None
            if not seen:
                raise OSError("gone")
            line, end, _ = seen.partition(b"\n")
            self._line += self.connection.recv(
                len(line) + len(end)
            )  # no more than the line: the rest is for pdb
            if end:
                return _is_right(self._line.decode("utf-8", "replace"))
            if len(self._line) >= _MAX_LINE_BYTES or any(
                byte < 32 and byte not in b"\t\r" for byte in self._line
            ):
                return False

    def is_http(self) -> bool:
        """Tell whether the line is an HTTP request, for which the refusal has another reason."""
        return b" HTTP/" in self._line

    def send_away(self, why: str) -> None:
        """Send the client the reason, and close the connection."""
        with contextlib.suppress(OSError):
            self.connection.sendall(b"dkdbg: %s\n" % why.encode())
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()


def first(listener: own_socket.OwnSocket, seconds: float) -> Optional[own_socket.OwnSocket]:
    """Return the first client that has typed the token, None if there is no such client within this many seconds.

    Clients that are connected at the timeout may still type it. All together they can delay the program by at most
    LOGIN_TIMEOUT_S seconds, and by as many again after each successful login.

    Args:
        listener: a TCP listener, which requires a token, or a Unix socket in the session's private folder.
        seconds: timeout; 0 to check only clients that are already connected.

    Raises:
        OSError: the listener is gone.
    """
    global _seconds_left  # noqa: PLW0603
    end = session.monotonic() + seconds
    waiting: List[_PendingConnection] = []
    try:
        while True:
            waiting += _arrived(listener)
            for each in _too_many(waiting):
                waiting.remove(each)
                each.send_away("too many clients are waiting")
            tried: Set[str] = set()  # addresses; checking a token is slow, so check one of each in a round
            for each in list(waiting):
                if each.host in tried:
                    continue
                found = _judged(listener, each)
                if found is not None:
                    waiting.remove(each)
                    tried.add(each.host)
                if found:
                    _seconds_left = LOGIN_TIMEOUT_S
                    return _let_in(listener, each.connection)
            now = session.monotonic()
            last = end + _seconds_left if waiting else end
            if now >= last:
                _seconds_left = max(0.0, _seconds_left - (now - end))
                return None
            _wait(listener, waiting, min(1.0, last - now))
    finally:
        for each in waiting:
            each.send_away("another client is connected, or the program no longer waits")


def _arrived(listener: own_socket.OwnSocket) -> List[_PendingConnection]:
    """Accept the connections that are in the listener's queue, and ask them for the token."""
    found: List[_PendingConnection] = []
    listener.settimeout(0.0)
    while len(found) <= _MAX_PENDING:
        try:
            accepted, address = listener.accept()
        except BlockingIOError:
            break
        except OSError as error:
            if error.errno == errno.ECONNABORTED:
                continue
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                raise
            time.sleep(_INTERVAL_S)
            break
        each = _PendingConnection(own_socket.take(accepted), address[0] if _asks(listener) else "")
        found.append(each)
        if _asks(listener):
            with contextlib.suppress(OSError):
                each.connection.sendall(b"token: ")
    return found


def _too_many(waiting: List[_PendingConnection]) -> List[_PendingConnection]:
    """Return the clients to disconnect: the oldest of the address with the most clients, so that others get in."""
    hosts = [each.host for each in waiting]
    gone: List[_PendingConnection] = []
    while len(hosts) > _MAX_PENDING:
        host = max(hosts, key=hosts.count)
        hosts.remove(host)
        gone.append(next(each for each in waiting if each.host == host and each not in gone))
    return gone


def _judged(listener: own_socket.OwnSocket, each: _PendingConnection) -> Optional[bool]:
    """Return True to accept a client, None while it may still type; False after closing its connection."""
    if not _asks(listener):
        return True
    try:
        found = each.poll()
    except OSError:
        each.connection.close()
        return False
    if found is None and session.monotonic() < each.end:
        return None
    if not found:
        each.send_away(
            "this is a debugger, not a web server" if each.is_http() else "wrong token" if found is not None
            else "no token within %g s" % LOGIN_TIMEOUT_S
        )  # fmt: skip
    return bool(found)


def _let_in(listener: own_socket.OwnSocket, connection: own_socket.OwnSocket) -> own_socket.OwnSocket:
    connection.settimeout(None)
    if _asks(listener):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return connection


def _asks(listener: own_socket.OwnSocket) -> bool:
    """Tell whether a listener requires a token: not a Unix socket, because it is in the session's private folder."""
    return listener.family != socket.AF_UNIX


def _wait(listener: own_socket.OwnSocket, waiting: List[_PendingConnection], seconds: float) -> None:
    """Wait for a new connection or input. Not with `select.select`: these descriptors are too high for it."""
    if not hasattr(select, "poll"):
        time.sleep(min(_INTERVAL_S, seconds))
        return
    poll = select.poll()
    for sock in [listener, *(each.connection for each in waiting)]:
        if sock.fileno() >= 0:
            poll.register(sock.fileno(), select.POLLIN)
    poll.poll(seconds * 1000)
