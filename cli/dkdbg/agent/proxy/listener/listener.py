"""Listens on the port that an editor attaches to, and passes only real DAP clients on.

A connection is passed on only after a complete, valid `initialize` request. Bare TCP probes, other protocols and
half-open clients end here. HTTP is answered here: `GET /healthz`, and `/status` for the attach proxy. The health
check of a container needs no HTTP, see state/records.py.

Browsers that act for a web page are refused. DNS rebinding could let a page read an answer, but then the browser
sends the page's host name in `Host`. All legitimate clients send an address.
"""

from __future__ import annotations

import collections
import contextlib
import errno
import ipaddress
import json
import socket
import threading
import time

from dkdbg.agent import sockets
from dkdbg.agent.dap import frames, messages
from dkdbg.agent.proxy.listener import containers, local_users, peers, proof, tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Set, Tuple

    #: Serves a client until both sides have ended. Takes its socket, the body of its first request, and the parser
    #: with the data after it.
    Serve = Callable[[socket.socket, bytes, frames.FrameParser], None]

#: Seconds for the first complete request; an editor sends it within milliseconds.
FIRST_FRAME_TIMEOUT_S = 10.0
#: Seconds of silence before the listener sends the greeting of debugpy's adapter, which some clients wait for.
GREETING_AFTER_S = 1.0
#: Maximum bytes of the first message: an `initialize` request has about 600.
MAX_FIRST_FRAME_BYTES = 64 << 10
#: Maximum bytes of a message before a successful attach: limits the memory for an unauthenticated connection.
MAX_PENDING_BODY_BYTES = 256 << 10
#: Maximum connections: an editor uses one for each process; 64 ranks with their data loaders need many.
MAX_CONNECTIONS = 512
#: Maximum connections that are not admitted yet; a further one replaces the oldest silent one.
MAX_PENDING = 64
#: Seconds to wait for a refused client to read the reason and close.
CLOSE_TIMEOUT_S = 1.0
#: Seconds between two log lines for refused peers.
REFUSAL_LOG_INTERVAL_S = 10.0
#: Status fields for clients without the token. The attach proxy needs the agent's identity and `adapter_up`.
_PUBLIC = ("id", "name", "pid", "state", "client", "adapter_up", "started", "updated", "runs", "exit_code")
_HTTP_METHODS = (b"GET ", b"HEAD ")
#: Maximum bytes of a request's head.
_MAX_HEAD_BYTES = 8192
_HEAD_END = b"\r\n\r\n"
_MISDIRECTED = "use an address or localhost, not a host name: http://127.0.0.1:PORT/healthz"
_WEB_PAGE = "requests from web pages are rejected"
_BROKEN_HEAD = "the head of this request is incomplete or too long"
_HEAD = (
    b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n"
    b"X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n%s\r\n"
)


class Listener:
    """Listens on one port, with one thread for each connection and direction.

    Args:
        host: address to bind; an empty one means all, including IPv6.
        port: 0 for a free one; the `port` attribute has the actual port.
        or_free: take a free port if `port` is taken.
        serve: takes over each client that has sent `initialize`; an OSError ends it. The listener closes the socket.
        ready: tells whether an attach would work now; answers /healthz.
        status: answers /status; /healthz adds its `state` and `client`.
        allow: peers that may connect besides loopback and the gateway.
        token: required in `Authorization: Bearer` for the whole status; empty for none.
        users: uids of this machine that may attach and see the whole status; None for all of them.
        let_in_later: `serve` calls `let_in` for each client that it admits; otherwise the listener admits each client
            that it passes on.
        log: takes one line for the user.
        greeting: version of debugpy for a client that expects a greeting before it sends `initialize`; empty for none.
        outsiders: hint for a client that is refused as a process of another container; empty to accept those.
        admit: returns the reason to refuse a connection that `allow` accepts, in one line; empty to accept it.

    Raises:
        OSError: the port cannot be listened on.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        serve: Serve,
        ready: Callable[[], bool],
        status: Callable[[], Dict[str, Any]],
        allow: peers.AllowList,
        token: str = "",
        users: Optional[Set[int]] = None,
        let_in_later: bool = False,
        log: Callable[[str], None],
        greeting: str = "",
        outsiders: str = "",
        admit: Optional[Callable[[socket.socket], str]] = None,
        or_free: bool = False,
    ) -> None:
        self._admit = admit
        self._greeting = greeting
        self._outsiders = outsiders
        self._serve_client = serve
        self._ready = ready
        self._status = status
        self._allow = allow
        self._check = tokens.Check(token)
        self._users = users
        self._let_in_later = let_in_later
        self._log = log
        self._lock = threading.Lock()
        self._open: Set[socket.socket] = set()
        self._is_stopped = False
        self._pending = PendingConnections(MAX_PENDING)
        self._refused = 0
        self._next_refusal_log = 0.0
        try:
            self._listener = _listen(host, port)
        except OSError as error:
            if not or_free or error.errno != errno.EADDRINUSE:
                raise
            self._listener = _listen(host, 0)
        self.host = host
        self.port: int = self._listener.getsockname()[1]

    def start(self) -> None:
        """Accept connections from now on."""
        threading.Thread(target=self._accept, name="dkdbg listener", daemon=True).start()

    @property
    def connections(self) -> int:
        """Return the number of current connections to clients."""
        with self._lock:
            return len(self._open)

    def drain(self, seconds: float) -> None:
        """Wait until every client has left, for at most this time."""
        end = time.monotonic() + seconds
        while self.connections and time.monotonic() < end:
            time.sleep(0.01)

    def stop(self) -> None:
        """Close the port and every connection."""
        _close(self._listener)
        with self._lock:
            self._is_stopped = True  # a connection may have been accepted before
            left = list(self._open)
        for sock in left:
            _close(sock)

    def let_in(self, sock: socket.socket) -> None:
        """Note that this client was admitted: no other connection replaces it any more."""
        with self._lock:
            self._pending.leave(sock)

    def _accept(self) -> None:
        while True:
            try:
                sock, address = self._listener.accept()
            except OSError:
                if self._listener.fileno() < 0:
                    return
                with self._lock:
                    victim = self._pending.victim()
                sockets.shut(victim)  # the victim's own thread ends the connection
                time.sleep(0.05)  # out of file descriptors, or the client was gone at once
                continue
            if not self._take(sock, str(address[0])):
                _close(sock)
            elif not sockets.begin(self._serve, sock, name="dkdbg client"):
                self._leave(sock)

    def _take(self, sock: socket.socket, address: str) -> bool:
        """Make room for a connection; return False if admitted clients use all connections, or after `stop`."""
        with self._lock:
            if self._is_stopped or len(self._open) - len(self._pending) >= MAX_CONNECTIONS - MAX_PENDING:
                return False
            self._open.add(sock)
            victim = self._pending.enter(sock, address)
        sockets.shut(victim)
        return True

    def _serve(self, sock: socket.socket) -> None:
        try:
            first = self._introduce(sock)
        except (OSError, ValueError):
            first = None
        try:
            if first is not None:
                with self._lock:
                    if self._let_in_later:
                        self._pending.initialized(sock)
                    else:
                        self._pending.leave(sock)
                with contextlib.suppress(OSError):  # a client that is gone already
                    sockets.keep_alive(sock)
                    self._serve_client(sock, *first)
        finally:
            self._leave(sock)

    def _leave(self, sock: socket.socket) -> None:
        with self._lock:
            self._pending.leave(sock)
            self._open.discard(sock)
        _close(sock)

    def _introduce(self, sock: socket.socket) -> Optional[Tuple[bytes, frames.FrameParser]]:
        """Read the first request; return it with the parser of the following data, or None."""
        peer = sock.getpeername()[0]
        reason = peers.refusal(peer, sock.getsockname()[0], self._allow)
        way = "; set DKDBG_ALLOW=%s to accept it" % peer
        if not reason and self._admit is not None:
            reason, way = self._admit(sock), ""
        if reason:
            self._refuse(sock, reason, way)
            return None
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        deadline = time.monotonic() + FIRST_FRAME_TIMEOUT_S
        first = self._first(sock, deadline)
        while first and len(first) < 5 and any(word.startswith(first) for word in _HTTP_METHODS):
            more = _receive(sock, deadline)
            if not more:
                return None
            first += more
        if first.startswith(_HTTP_METHODS):
            self._answer_http(sock, first, deadline)
            return None
        parser = frames.FrameParser(max_body=MAX_FIRST_FRAME_BYTES)
        parser.feed(first)
        body = next(frames.received(lambda _: _receive(sock, deadline), parser), None)
        if body is None:
            return None
        message = frames.decode(body)
        if message.get("type") != "request" or message.get("command") != "initialize":
            raise frames.FrameError("the first request is not initialize")
        reason = self._refusal_of_user(sock)
        way = "set DKDBG_TOKEN where the program runs, or DKDBG_ALLOW=any to accept all users"
        if not reason and self._outsiders:
            reason, way = containers.refusal(sock), self._outsiders
        if reason:
            self._refuse(sock, reason, "; " + way)
            sock.sendall(frames.wrap(messages.refuse(message, "%s; %s" % (reason, way))))
            sock.shutdown(socket.SHUT_WR)
            sockets.drain(sock, CLOSE_TIMEOUT_S)
            return None
        parser.allow(MAX_PENDING_BODY_BYTES)
        return body, parser

    def _first(self, sock: socket.socket, deadline: float) -> bytes:
        """Receive the first bytes; greet a client that waits for debugpy's greeting and is not refused."""
        with contextlib.suppress(socket.timeout):
            return _receive(sock, time.monotonic() + GREETING_AFTER_S)
        if self._greeting and not self._refusal_of_user(sock):
            host, port = sock.getsockname()[:2]
            sock.sendall(b"".join(map(frames.wrap, messages.greeting(self._greeting, str(host), port))))
        return _receive(sock, deadline)

    def _answer_http(self, sock: socket.socket, first: bytes, deadline: float) -> None:
        request = _HttpRequest(_read_head(sock, first, deadline))
        code, content = request.refusal
        exchange = proof.begin(proof.STATUS, request.nonce) if self._check and not code else None
        if exchange is not None:
            sock.sendall(proof.challenge(exchange))
            request = _HttpRequest(_read_head(sock, b"", deadline))
            code, content = request.refusal
        status, more = self._status(), b""
        if code:
            pass
        elif request.path == b"/status":
            whole = False
            if exchange is not None:
                whole = self._knows(sock, self._check.proven(exchange, request.shown(b"dkdbg")))
            if exchange is not None and whole:
                more = ("%s: %s\r\n" % (proof.HTTP_PROOF, self._check.answer(exchange))).encode()
            whole = whole or self._may_see_all(sock, request)
            code, content = b"200 OK", status if whole else _brief(status)
        elif request.path == b"/healthz":
            code = b"200 OK" if self._ready() else b"503 Service Unavailable"
            content = {"state": status.get("state"), "client": status.get("client")}
        else:
            code, content = b"404 Not Found", {"paths": ["/healthz", "/status"]}
        sock.sendall(request.answer(code, content, more))

    def _may_see_all(self, sock: socket.socket, request: _HttpRequest) -> bool:
        token = request.shown(b"bearer")
        if not token or not self._check:  # must not count as a wrong token
            return not self._check and not self._refusal_of_user(sock)
        return self._knows(sock, token)

    def _knows(self, sock: socket.socket, shown: str) -> bool:
        """Tell whether `shown` is the token; delay the answer after many wrong tokens."""
        with self._lock:
            reason, seconds = self._check.refusal(shown, str(sock.getpeername()[0]), time.monotonic())
        time.sleep(seconds)
        return not reason

    def _refusal_of_user(self, sock: socket.socket) -> str:
        """Return why a connection from another user of this machine is refused; empty if it is accepted."""
        return "" if self._users is None else local_users.refusal(sock, self._users)

    def _refuse(self, sock: socket.socket, reason: str, way: str) -> None:
        with self._lock:
            self._refused += 1
            now = time.monotonic()
            if now < self._next_refusal_log:
                return
            self._next_refusal_log = now + REFUSAL_LOG_INTERVAL_S
            count, self._refused = self._refused, 0
        more = " (%d refused so far)" % count if count > 1 else ""
        self._log("refused a connection from %s: %s%s%s" % (sock.getpeername()[0], reason, way, more))


def _read_head(sock: socket.socket, first: bytes, deadline: float) -> bytes:
    """Read the head of an HTTP request; `first` has arrived already."""
    data = first
    while not _is_whole(data):
        more = _receive(sock, deadline)
        if not more:
            break
        data += more
    return data


def _brief(status: Dict[str, Any]) -> Dict[str, Any]:
    """Return the public part of the status: no arguments and no output of the program."""
    found = {name: status[name] for name in _PUBLIC if name in status}
    processes = status.get("processes")
    if isinstance(processes, list):
        found["process_count"] = len(processes)
    return found


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # `::` means both
        listener.bind((host, port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def _receive(sock: socket.socket, deadline: float) -> bytes:
    """Receive some bytes; empty at the end. Raises OSError: nothing came in time, or the connection broke."""
    sock.settimeout(max(0.01, deadline - time.monotonic()))
    return sock.recv(65536)


def _close(sock: socket.socket) -> None:
    sockets.shut(sock)
    sock.close()


class PendingConnections:
    """At most `max_pending` connections that are not admitted yet, in order of arrival.

    When full, a new connection replaces one of them, so silent connections cannot lock others out. Not thread-safe.
    """

    def __init__(self, max_pending: int) -> None:
        self._max_pending = max_pending
        self._addresses: Dict[socket.socket, str] = {}
        self._initialized: Set[socket.socket] = set()

    def __len__(self) -> int:
        return len(self._addresses)

    def __contains__(self, sock: object) -> bool:
        return sock in self._addresses

    def enter(self, sock: socket.socket, address: str) -> Optional[socket.socket]:
        """Add a connection; return the one that it replaces, None while there is room."""
        victim = self.victim() if len(self._addresses) >= self._max_pending else None
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
        """Return the connection to replace: the oldest of the address with the most connections.

        Connections without an `initialize` go first: behind Docker's proxy all have the same address.
        """
        found = [each for each in self._addresses if each not in self._initialized] or list(self._addresses)
        counts = collections.Counter(self._addresses[each] for each in found)
        return max(found, key=lambda each: counts[self._addresses[each]], default=None)


def _is_whole(data: bytes) -> bool:
    """Tell whether a request's head is complete, or too long."""
    return _HEAD_END in data or len(data) >= _MAX_HEAD_BYTES


class _HttpRequest:
    """Head of one request; its `path` is empty if missing."""

    def __init__(self, data: bytes) -> None:
        head, end, _ = data[:_MAX_HEAD_BYTES].partition(_HEAD_END)
        line, _, rest = head.partition(b"\r\n")
        self.path = b"".join(line.split(b" ", 2)[1:2])
        self._has_body = not data.startswith(b"HEAD ")
        self._whole = bool(end)
        self._fields: Dict[bytes, List[bytes]] = {}
        for field in rest.split(b"\r\n"):
            name, _, value = field.partition(b":")
            self._fields.setdefault(name.strip().lower(), []).append(value.strip())

    @property
    def refusal(self) -> Tuple[bytes, Dict[str, Any]]:
        """Return status line and content of a refusal; both empty if the request is accepted.

        A request without `Host` does not come from a browser.
        """
        if not self._whole:
            return b"400 Bad Request", {"error": _BROKEN_HEAD}
        asked_by = self._fields.get(b"sec-fetch-site", [])  # `none`: the user has typed the address
        if b"origin" in self._fields or any(value != b"none" for value in asked_by):
            return b"403 Forbidden", {"error": _WEB_PAGE}
        hosts = self._fields.get(b"host", [])
        if len(hosts) > 1 or not all(map(_is_address, hosts)):
            return b"421 Misdirected Request", {"error": _MISDIRECTED}
        return b"", {}

    @property
    def nonce(self) -> str:
        """Return the client's nonce for a proof (proof.py), empty if missing."""
        return b"".join(self._fields.get(b"dkdbg-nonce", [])[:1]).decode("ascii", "replace")

    def shown(self, scheme: bytes) -> str:
        """Return the credentials in `Authorization` for a scheme, named in lower case; empty if missing."""
        for value in self._fields.get(b"authorization", []):
            kind, _, shown = value.partition(b" ")
            if kind.lower() == scheme and shown.strip():
                return shown.strip().decode("utf-8", "replace")
        return ""

    def answer(self, code: bytes, content: Dict[str, Any], more: bytes = b"") -> bytes:
        """Return the whole answer; `more` are further header lines with line ends."""
        body = json.dumps(content).encode() + b"\n"
        return _HEAD % (code, len(body), more) + (body if self._has_body else b"")


def _is_address(host: bytes) -> bool:
    """Tell whether a `Host` field is an address or localhost, with or without a port."""
    name = host.decode("ascii", "replace").lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
