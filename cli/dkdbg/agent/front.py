"""The one port that an editor attaches to: it keeps everything but real DAP clients away from the adapter.

A connection to the adapter is made only after a whole, valid first `initialize` request has arrived. Bare TCP
probes, other protocols and half-open clients end here; `GET /healthz` and `GET /status` are answered here.
From then on bytes are passed on both ways unread.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time

from dkdbg.agent import dap_frames, peers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional, Set

#: Seconds for the first whole request; an editor sends it within milliseconds.
FIRST_FRAME_LIMIT = 10.0
#: An `initialize` request has about 600 bytes.
FIRST_FRAME_SIZE = 64 << 10
#: Connections at one time: an editor uses one for each process, and 64 ranks with their loaders are a lot.
MAX_CONNECTIONS = 512
#: Of them, those that have not sent their first request; more are left in the kernel's queue meanwhile.
MAX_NEWCOMERS = 64
#: Seconds that a client waits for an adapter that is just (re)starting.
BACKEND_LIMIT = 15.0
#: At most one line in the log for refused peers in so many seconds.
REFUSAL_LOG_INTERVAL = 10.0
_HTTP = (b"GET ", b"HEAD ")


class Front:
    """Listens on one port, one thread a connection and direction.

    Args:
        host: address to bind; an empty one means all, IPv6 included.
        port: 0 for any free one; the `port` attribute has the real one.
        backend_port: returns the adapter's loopback port, 0 while there is none.
        status: what /status answers, and `state` and `client` of it what /healthz answers.
        allow: who may connect besides loopback and the gateway.
        log: takes one line for the user.

    Raises:
        OSError: the port cannot be listened on.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        backend_port: Callable[[], int],
        status: Callable[[], Dict[str, Any]],
        allow: peers.AllowList,
        log: Callable[[str], None],
    ) -> None:
        self._backend_port = backend_port
        self._status = status
        self._allow = allow
        self._log = log
        self._lock = threading.Lock()
        self._open: Set[socket.socket] = set()
        self._newcomers = threading.BoundedSemaphore(MAX_NEWCOMERS)
        self._refused = 0
        self._next_refusal_log = 0.0
        self._listener = _listen(host, port)
        self.host = host
        self.port: int = self._listener.getsockname()[1]

    def start(self) -> None:
        """Accept connections from now on."""
        threading.Thread(target=self._accept, name="dkdbg front", daemon=True).start()

    @property
    def connections(self) -> int:
        """Number of connections to clients now."""
        with self._lock:
            return len(self._open)

    def drain(self, seconds: float) -> None:
        """Wait until every client has left, so long at most."""
        end = time.monotonic() + seconds
        while self.connections and time.monotonic() < end:
            time.sleep(0.01)

    def stop(self) -> None:
        """Close the port and every connection."""
        _close(self._listener)
        with self._lock:
            left = list(self._open)
        for sock in left:
            _close(sock)

    def _accept(self) -> None:
        while True:
            self._newcomers.acquire()
            try:
                sock, _ = self._listener.accept()
            except OSError:
                self._newcomers.release()
                if self._listener.fileno() < 0:
                    return
                time.sleep(0.05)  # out of file descriptors, or a client that was gone at once
                continue
            with self._lock:
                full = len(self._open) >= MAX_CONNECTIONS
                if not full:
                    self._open.add(sock)
            if full:
                self._newcomers.release()
                _close(sock)
                continue
            threading.Thread(target=self._serve, args=(sock,), name="dkdbg client", daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            backend = self._introduce(sock)
        except (OSError, ValueError):
            backend = None
        finally:
            self._newcomers.release()
        try:
            if backend is not None:
                _relay(sock, backend)
        finally:
            with self._lock:
                self._open.discard(sock)
            _close(sock)

    def _introduce(self, sock: socket.socket) -> Optional[socket.socket]:
        """Read the first request; return a connection to the adapter that has received it, or None."""
        reason = peers.refusal(*peers.peer_and_local(sock), self._allow)
        if reason:
            self._refuse(sock, reason)
            return None
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        deadline = time.monotonic() + FIRST_FRAME_LIMIT
        first = _receive(sock, deadline)
        while first and len(first) < 5 and any(word.startswith(first) for word in _HTTP):
            first += _receive(sock, deadline)
        if first.startswith(_HTTP):
            self._answer_http(sock, first, deadline)
            return None
        parser = dap_frames.FrameParser(max_body=FIRST_FRAME_SIZE)
        parser.feed(first)
        body = parser.take()
        while body is None:
            data = _receive(sock, deadline)
            if not data:
                return None
            parser.feed(data)
            body = parser.take()
        message = dap_frames.decode(body)
        if message.get("type") != "request" or message.get("command") != "initialize":
            raise dap_frames.FrameError("the first request is not initialize")
        sock.settimeout(None)
        backend = self._connect()
        if backend is not None:
            backend.sendall(dap_frames.wrap(body) + parser.rest())
        return backend

    def _connect(self) -> Optional[socket.socket]:
        end = time.monotonic() + BACKEND_LIMIT
        while time.monotonic() < end:
            port = self._backend_port()
            if port:
                try:
                    backend = socket.create_connection(("127.0.0.1", port), timeout=5)
                except OSError:
                    pass
                else:
                    backend.settimeout(None)
                    backend.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    return backend
            time.sleep(0.02)
        return None

    def _answer_http(self, sock: socket.socket, first: bytes, deadline: float) -> None:
        request = first
        while b"\r\n\r\n" not in request and len(request) < 8192:
            data = _receive(sock, deadline)
            if not data:
                break
            request += data
        status = self._status()
        path = request.split(b" ", 2)[1:2]
        if path == [b"/status"]:
            code, content = b"200 OK", status
        elif path == [b"/healthz"]:
            ready = status.get("state") in ("waiting", "attached", "running") and self._backend_port() != 0
            code = b"200 OK" if ready else b"503 Service Unavailable"
            content = {"state": status.get("state"), "client": status.get("client")}
        else:
            code, content = b"404 Not Found", {"paths": ["/healthz", "/status"]}
        body = json.dumps(content).encode() + b"\n"
        head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
        sock.sendall(head % (code, len(body)) + (b"" if first.startswith(b"HEAD ") else body))

    def _refuse(self, sock: socket.socket, reason: str) -> None:
        with self._lock:
            self._refused += 1
            now = time.monotonic()
            if now < self._next_refusal_log:
                return
            self._next_refusal_log = now + REFUSAL_LOG_INTERVAL
            count, self._refused = self._refused, 0
        peer = sock.getpeername()[0]
        more = " (%d refused so far)" % count if count > 1 else ""
        self._log(
            "refused a connection from %s: %s; DKDBG_ALLOW=%s lets it in%s" % (peer, reason, peer, more)
        )


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
    """Receive some bytes; empty at the end of the stream.

    Raises:
        OSError: nothing came before the deadline, or the connection broke.
    """
    sock.settimeout(max(0.01, deadline - time.monotonic()))
    return sock.recv(65536)


def _relay(client: socket.socket, backend: socket.socket) -> None:
    """Pass bytes both ways until both directions have ended."""
    answers = threading.Thread(target=_pump, args=(backend, client), name="dkdbg answers", daemon=True)
    answers.start()
    _pump(client, backend)
    answers.join()
    _close(backend)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Pass bytes one way; an end of stream is passed on as such, a broken side ends both."""
    quick_ack = getattr(socket, "TCP_QUICKACK", None)
    try:
        while True:
            data = source.recv(65536)
            if quick_ack is not None:
                source.setsockopt(socket.IPPROTO_TCP, quick_ack, 1)  # it does not last: each time
            if not data:
                sink.shutdown(socket.SHUT_WR)
                return
            sink.sendall(data)
    except OSError:
        for sock in (source, sink):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def _close(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
