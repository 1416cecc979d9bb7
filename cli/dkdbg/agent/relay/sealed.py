"""A connection over an open network, sealed with the token: who does not know it reads nothing, and changes nothing unseen.

Each side says a random number for this connection; then the one that has connected proves to know the token, then the
other (agent/proxy/listener/proof.py; the order, too). Keys for each direction are made of the token and both numbers, so that nothing
that was recorded is good for another connection. A record is its length (4 bytes, big-endian), its bytes under
a key stream (SHAKE-256 of the key and the record's number), and 16 bytes of HMAC-SHA256 over number, length and bytes.

The standard library has no cipher, and TLS has no way with a secret alone before Python 3.13; these two are its own.
Who comes to know the token later can read what he has recorded.
"""

from __future__ import annotations

import hashlib
import hmac
import selectors
import socket
import struct
import time

from dkdbg.agent.proxy.listener import proof

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, Optional

#: The first line of each side: this, and its number.
GREETING = "DKDBG-CALL-1"
_LONGEST_LINE = 100
#: What a proof is for.
CALL = "call"
#: Seconds for the whole introduction: one round trip and a half.
INTRODUCTION = 10.0
#: Bytes of one record, and those that may wait for a slow side.
LARGEST = 1 << 16
_WAITING = 4 * LARGEST
_LENGTH = struct.Struct(">I")
_NUMBER = struct.Struct(">Q")
_TAG = 16
#: Seconds for what is left at the end.
_LAST = 1.0


class SealError(Exception):
    """The other side does not know the token, or what came is not from it; the message says which, in a few words."""


class Seal:
    """One direction of a connection.

    Args:
        key: 32 bytes, of this direction alone.
    """

    def __init__(self, key: bytes) -> None:
        self._cipher = hmac.new(key, b"cipher", hashlib.sha256).digest()
        self._mac = hmac.new(key, b"mac", hashlib.sha256).digest()
        self._number = 0
        self._received = bytearray()

    def close(self, data: bytes) -> bytes:
        """Return records that hold `data`."""
        return b"".join(self._record(data[at : at + LARGEST]) for at in range(0, len(data), LARGEST))

    def open(self, received: bytes) -> Iterator[bytes]:
        """Take bytes as they come, and yield what the records hold that are whole now.

        Raises:
            SealError: a record is not from the other side, or is not the next one.
        """
        held = self._received
        held += received
        while len(held) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(held)
            if not 0 < length <= LARGEST:
                raise SealError("what came is not a record")
            end = _LENGTH.size + length
            if len(held) < end + _TAG:
                return
            body = bytes(held[_LENGTH.size : end])
            if not hmac.compare_digest(bytes(held[end : end + _TAG]), self._tag(body)):
                raise SealError("what came is not from the other side")
            del held[: end + _TAG]
            plain = self._mixed(body)
            self._number += 1
            yield plain

    def _record(self, data: bytes) -> bytes:
        body = self._mixed(data)
        record = _LENGTH.pack(len(body)) + body + self._tag(body)
        self._number += 1
        return record

    def _tag(self, body: bytes) -> bytes:
        said = _NUMBER.pack(self._number) + _LENGTH.pack(len(body)) + body
        return hmac.new(self._mac, said, hashlib.sha256).digest()[:_TAG]

    def _mixed(self, data: bytes) -> bytes:
        stream = hashlib.shake_256(self._cipher + _NUMBER.pack(self._number)).digest(len(data))
        mixed = int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")
        return mixed.to_bytes(len(data), "big")


class Sealed:
    """A connection whose two sides have proven to know the token.

    Args:
        sock: see `introduce`. incoming, outgoing: the two directions.
    """

    def __init__(self, sock: socket.socket, incoming: Seal, outgoing: Seal) -> None:
        self.sock = sock
        self._incoming = incoming
        self._outgoing = outgoing
        self._left = b""

    def say(self, line: str) -> None:
        """Send a line. Raises OSError."""
        self.sock.sendall(self._outgoing.close(line.encode() + b"\n"))

    def hear(self, longest: int, limit: float) -> str:
        """Return the other side's next line.

        Raises:
            SealError: there is none within `limit` seconds and `longest` bytes. OSError: the connection has ended.
        """
        end = time.monotonic() + limit
        while b"\n" not in self._left:
            if len(self._left) > longest:
                raise SealError("a line that is too long")
            self._left += b"".join(self._incoming.open(_received(self.sock, end)))
        line, _, self._left = self._left.partition(b"\n")
        if len(line) > longest:
            raise SealError("a line that is too long")
        return line.decode("utf-8", "replace")

    def pump(
        self, inner: socket.socket, *, silence: Optional[float] = None, until: Optional[int] = None
    ) -> str:
        """Pass bytes between the connection and `inner`, both ways, until one of them ends; say in a few words which and why.

        Args:
            inner: closed by the caller, as the connection is.
            silence: seconds without a byte from the other side after which it counts as gone.
            until: a descriptor at whose end all ends.
        """
        return _Pump(self, inner, until).run(silence)

    def seal(self, data: bytes) -> bytes:
        """Return what is to be sent."""
        return self._outgoing.close(data)

    def unseal(self, received: bytes) -> bytes:
        """Return what was sent. Raises SealError."""
        left, self._left = self._left, b""
        return left + b"".join(self._incoming.open(received))


def introduce(sock: socket.socket, token: str, *, calls: bool) -> Sealed:
    """Prove to know the token, and be proven to; the socket blocks, and stays the caller's.

    Args:
        calls: we have connected, and not the other side.

    Raises:
        SealError: the other side does not know it, or does not say so in time. OSError: the connection has ended.
    """
    end = time.monotonic() + INTRODUCTION
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    mine = proof.number()
    if calls:  # who listens says nothing to who says nothing
        _say(sock, "%s %s" % (GREETING, mine))
    theirs = _number_of(_line(sock, end))
    if not calls:
        _say(sock, "%s %s" % (GREETING, mine))
    exchange = proof.Exchange(CALL, mine if calls else theirs, theirs if calls else mine)
    right = exchange.of_agent(token) if calls else exchange.of_client(token)
    if calls:
        _say(sock, exchange.of_client(token))
    if not proof.is_same(_line(sock, end), right):
        raise SealError("it does not know the token")
    if not calls:
        _say(sock, exchange.of_agent(token))
    from_client, from_agent = Seal(exchange.key(token, "client")), Seal(exchange.key(token, "agent"))
    sock.settimeout(None)
    return Sealed(sock, from_agent, from_client) if calls else Sealed(sock, from_client, from_agent)


class _Pump:
    def __init__(self, sealed: Sealed, inner: socket.socket, until: Optional[int]) -> None:
        self._sealed, self._outer, self._inner, self._until = sealed, sealed.sock, inner, until
        self._to_outer, self._to_inner = bytearray(), bytearray(sealed.unseal(b""))
        self._heard = time.monotonic()

    def run(self, silence: Optional[float]) -> str:
        self._outer.setblocking(False)
        self._inner.setblocking(False)
        with selectors.DefaultSelector() as waits:
            waits.register(self._outer, selectors.EVENT_READ)
            waits.register(self._inner, selectors.EVENT_READ)
            if self._until is not None:
                waits.register(self._until, selectors.EVENT_READ)
            while True:
                self._choose(waits, self._outer, len(self._to_inner), len(self._to_outer))
                self._choose(waits, self._inner, len(self._to_outer), len(self._to_inner))
                ready = waits.select(1.0)
                why = self._move({key.fd: events for key, events in ready})
                if why:
                    self._flush()
                    return why
                if silence is not None and time.monotonic() - self._heard > silence:
                    return "nothing was heard for %g s" % silence

    def _choose(
        self, waits: selectors.DefaultSelector, sock: socket.socket, unread: int, unsent: int
    ) -> None:
        wanted = (selectors.EVENT_READ if unread < _WAITING else 0) | (selectors.EVENT_WRITE if unsent else 0)
        known = waits.get_map().get(sock)
        if known is not None and known.events != wanted:
            if wanted:
                waits.modify(sock, wanted)
            else:
                waits.unregister(sock)
        elif known is None and wanted:
            waits.register(sock, wanted)

    def _move(self, ready: dict[int, int]) -> str:
        """Read and write what can be; why it is over, empty while it is not."""
        try:
            if ready.get(self._outer.fileno(), 0) & selectors.EVENT_READ:
                received = self._outer.recv(LARGEST)
                if not received:
                    return "the other side has closed the connection"
                self._heard = time.monotonic()
                self._to_inner += self._sealed.unseal(received)
            if ready.get(self._inner.fileno(), 0) & selectors.EVENT_READ:
                said = self._inner.recv(LARGEST)
                if not said:
                    return "the relay has ended"
                self._to_outer += self._sealed.seal(said)
            for sock, waiting in ((self._outer, self._to_outer), (self._inner, self._to_inner)):
                if waiting:
                    del waiting[: _sent(sock, waiting)]
        except SealError as error:
            return str(error)
        except BlockingIOError:
            return ""
        except OSError as error:
            return error.strerror or str(error)
        return "it is not needed any more" if self._until is not None and self._until in ready else ""

    def _flush(self) -> None:
        """What was said before the end still arrives."""
        try:
            for sock, waiting in ((self._outer, self._to_outer), (self._inner, self._to_inner)):
                sock.settimeout(_LAST)
                sock.sendall(waiting)
        except OSError:
            pass


def _sent(sock: socket.socket, data: bytearray) -> int:
    try:
        return sock.send(data)
    except BlockingIOError:
        return 0


def _say(sock: socket.socket, line: str) -> None:
    sock.settimeout(INTRODUCTION)
    sock.sendall(line.encode() + b"\n")


def _line(sock: socket.socket, end: float) -> str:
    """The other side's next line, and not a byte more."""
    line = b""
    while not line.endswith(b"\n"):
        if len(line) > _LONGEST_LINE:
            raise SealError("it does not speak as dkdbg does")
        line += _received(sock, end, 1)
    return line[:-1].decode("ascii", "replace")


def _number_of(line: str) -> str:
    greeting, _, number = line.partition(" ")
    if greeting != GREETING or not proof.is_number(number):
        raise SealError("it does not speak as dkdbg does")
    return number


def _received(sock: socket.socket, end: float, most: int = LARGEST) -> bytes:
    left = end - time.monotonic()
    if left <= 0:
        raise SealError("it says nothing")
    sock.settimeout(left)
    try:
        data = sock.recv(most)
    except socket.timeout:
        raise SealError("it says nothing") from None
    if not data:
        raise SealError("it has closed the connection")
    return data
