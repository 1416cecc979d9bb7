"""TLS 1.3 between a job and the `dkdbg attach --listen` that it connects to; each side proves that it knows the token.

The waiting side has a self-signed certificate. The job knows the certificate's SHA-256 fingerprint (DKDBG_CONNECT). If
it gets another certificate, it closes the connection, having sent only its ClientHello. The proofs are those of
agent/proxy/listener/proof.py, and include the fingerprint: a man in the middle has another certificate, so he cannot
pass a proof on.

TLS works on memory buffers, not on the socket: `encrypt` and `decrypt` never block, and `pump` is a select loop.
"""

from __future__ import annotations

import hashlib
import hmac
import selectors
import socket
import ssl
import time

from dkdbg.agent.proxy.listener import proof

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Optional

#: First word that each side sends inside TLS, before its nonce.
GREETING = "DKDBG-CALL-2"
#: First bytes from an agent of a version without TLS (issue 32).
_FORMER_GREETING = b"DKDBG"
_OLD_JOB = "its dkdbg is older than this one: give the job this version's agent.pyz, and DKDBG_CONNECT as printed above"
_OLD_ATTACH = " before the TLS handshake: its dkdbg attach --listen may be older than this job's dkdbg"
_OTHER_CERTIFICATE = (
    " during the TLS handshake: its DKDBG_CONNECT may have the fingerprint of another certificate"
)
_UNPROVEN = "its token is different"
_NOT_PINNED = "its certificate does not match DKDBG_CONNECT; copy DKDBG_CONNECT from the output of dkdbg attach --listen"
#: Seconds for the handshake and the proofs together.
INTRODUCTION_TIMEOUT_S = 10.0
#: Maximum bytes of a line of handshake and proofs, of one read, and of the data buffered for a slow side.
_MAX_LINE_BYTES, _MAX_READ_BYTES, _MAX_WAITING_BYTES = 100, 1 << 16, 1 << 18
#: Timeout in seconds to send the buffered data after one side has ended.
_FLUSH_TIMEOUT_S = 1.0


class ChannelError(OSError):
    """The other side is not the expected one, or has broken the protocol; the message is a short phrase."""


class _ClosedError(ChannelError):
    """The other side has closed the connection."""


def fingerprint_of(certificate: bytes) -> str:
    """Return the SHA-256 of a certificate (DER) in 64 hexadecimal digits."""
    return hashlib.sha256(certificate).hexdigest()


def server_context() -> ssl.SSLContext:
    """Return the TLS settings of the waiting side; the caller adds the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # disable session resumption
    return context


def _client_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # it is self-signed: `call` compares its fingerprint
    return context


def call(sock: socket.socket, token: str, fingerprint: str) -> SecureChannel:
    """Open the job's end of a channel; the caller closes the socket.

    Raises:
        ChannelError: the certificate has another fingerprint, or the other side does not know the token.
        OSError: the connection has ended.
    """
    channel = SecureChannel(sock, _client_context(), server_side=False)
    end = channel.handshake()
    if not hmac.compare_digest(channel.fingerprint(), fingerprint):
        raise ChannelError(_NOT_PINNED)
    mine = proof.nonce()
    channel.say("%s %s" % (GREETING, mine))
    exchange = proof.Exchange(_purpose(fingerprint), mine, _number(channel, end))
    channel.say(exchange.of_client(token))
    if not proof.is_same(channel.hear(_MAX_LINE_BYTES, end), exchange.of_agent(token)):
        raise ChannelError(_UNPROVEN)
    sock.settimeout(None)
    return channel


def answer(sock: socket.socket, token: str, context: ssl.SSLContext, fingerprint: str) -> SecureChannel:
    """Open the waiting side's end of a channel; the caller closes the socket.

    Args:
        context: the result of `server_context` with a certificate. fingerprint: that of the certificate.

    Raises:
        ChannelError: the other side does not know the token, or does not speak TLS 1.3. OSError: the connection has
            ended.
    """
    channel = SecureChannel(sock, context, server_side=True)
    end = channel.handshake()
    theirs, mine = _number(channel, end), proof.nonce()
    channel.say("%s %s" % (GREETING, mine))
    exchange = proof.Exchange(_purpose(fingerprint), theirs, mine)
    if not proof.is_same(channel.hear(_MAX_LINE_BYTES, end), exchange.of_client(token)):
        channel.say("no")  # so that the job can log why
        raise ChannelError(_UNPROVEN)
    channel.say(exchange.of_agent(token))
    sock.settimeout(None)
    return channel


class SecureChannel:
    """One end of a TLS connection. Not thread-safe.

    Args:
        sock: the connection, which the caller closes. context: TLS settings of this side.
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, *, server_side: bool) -> None:
        self.sock = sock
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_side=server_side)
        self._left = b""

    def handshake(self) -> float:
        """Do the TLS handshake; return the monotonic time by which the proofs must be over.

        A client's last handshake message is sent together with its first line.

        Raises:
            ChannelError: the other side does not speak TLS 1.3, or is silent. OSError: the connection has ended.
        """
        end = time.monotonic() + INTRODUCTION_TIMEOUT_S
        self.sock.settimeout(INTRODUCTION_TIMEOUT_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun = b""
        while True:
            try:
                self._tls.do_handshake()
                self._left = self.decrypt(b"")  # data that came with the last message of the handshake
                return end
            except ssl.SSLWantReadError:
                self.sock.sendall(self._to_send.read())
            except ssl.SSLError as error:
                if begun != _FORMER_GREETING:
                    raise ChannelError("no TLS 1.3 (%s)" % _reason(error)) from None
                self.sock.sendall(b"TLS\n")  # an agent without TLS logs this line as unexpected
                raise ChannelError(_OLD_JOB) from None
            try:
                received = self._receive(end)
            except _ClosedError as error:
                likely = ""
                if self._tls.server_side and begun:
                    likely = _OTHER_CERTIFICATE
                elif not self._tls.server_side and not begun:
                    likely = _OLD_ATTACH
                raise ChannelError(str(error) + likely) from None
            begun = (begun + received)[: len(_FORMER_GREETING)]
            self._received.write(received)

    def fingerprint(self) -> str:
        """Return the fingerprint of the other side's certificate, after the handshake."""
        return fingerprint_of(self._tls.getpeercert(binary_form=True) or b"")

    def say(self, line: str) -> None:
        """Send a line. Raises OSError."""
        self.sock.sendall(self.encrypt(line.encode() + b"\n"))

    def hear(self, longest: int, end: float) -> str:
        """Return the other side's next line.

        Raises:
            ChannelError: no line of at most `longest` bytes came until `end` (monotonic clock). OSError: the
                connection has ended.
        """
        while b"\n" not in self._left:
            if len(self._left) > longest:
                break
            self._left = self.decrypt(self._receive(end))
        line, _, self._left = self._left.partition(b"\n")
        if len(line) > longest:
            raise ChannelError("it sent a line that is too long")
        return line.decode("utf-8", "replace")

    def encrypt(self, data: bytes) -> bytes:
        """Return the encrypted bytes to send."""
        self._tls.write(data)
        return self._to_send.read()

    def decrypt(self, received: bytes) -> bytes:
        """Return the plaintext of `received`, preceded by what `hear` has not consumed. Raises ChannelError."""
        self._received.write(received)
        pieces, self._left = [self._left], b""
        try:
            while True:
                pieces.append(self._tls.read(_MAX_READ_BYTES))
                if not pieces[-1]:
                    raise ChannelError("the other side has closed the connection")
        except ssl.SSLWantReadError:
            return b"".join(pieces)
        except ssl.SSLError as error:
            raise ChannelError("the received data is not from the other side (%s)" % _reason(error)) from None

    def pump(
        self, inner: socket.socket, *, silence: Optional[float] = None, until: Optional[int] = None
    ) -> str:
        """Pass bytes between the connection and `inner` until one of them ends; return why, as a short phrase.

        Args:
            inner: plaintext socket, which the caller closes.
            silence: seconds without a byte from the other side after which it counts as gone.
            until: descriptor; end when it becomes readable, as at the end of its input.
        """
        return _Pump(self, inner, until).run(silence)

    def _receive(self, end: float) -> bytes:
        left = end - time.monotonic()
        if left <= 0:
            raise ChannelError("it sends nothing")
        self.sock.settimeout(left)
        try:
            data = self.sock.recv(_MAX_READ_BYTES)
        except socket.timeout:
            raise ChannelError("it sends nothing") from None
        except ConnectionResetError:
            data = b""
        if not data:
            raise _ClosedError("it has closed the connection")
        return data


class _Pump:
    def __init__(self, channel: SecureChannel, inner: socket.socket, until: Optional[int]) -> None:
        self._channel, self._outer, self._inner, self._until = channel, channel.sock, inner, until
        self._to_outer, self._to_inner = bytearray(), bytearray(channel.decrypt(b""))
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
        wanted = (selectors.EVENT_READ if unread < _MAX_WAITING_BYTES else 0) | (
            selectors.EVENT_WRITE if unsent else 0
        )
        known = waits.get_map().get(sock)
        if known is not None and known.events != wanted:
            if wanted:
                waits.modify(sock, wanted)
            else:
                waits.unregister(sock)
        elif known is None and wanted:
            waits.register(sock, wanted)

    def _move(self, ready: Dict[int, int]) -> str:
        """Read and write without blocking; return why the connection is over, or an empty string."""
        try:
            if ready.get(self._outer.fileno(), 0) & selectors.EVENT_READ:
                received = self._outer.recv(_MAX_READ_BYTES)
                if not received:
                    return "the other side has closed the connection"
                self._heard = time.monotonic()
                self._to_inner += self._channel.decrypt(received)
            if ready.get(self._inner.fileno(), 0) & selectors.EVENT_READ:
                data = self._inner.recv(_MAX_READ_BYTES)
                if not data:
                    return "the relay has ended"
                self._to_outer += self._channel.encrypt(data)
            for sock, waiting in ((self._outer, self._to_outer), (self._inner, self._to_inner)):
                if waiting:
                    del waiting[: _sent(sock, waiting)]
        except BlockingIOError:
            return ""
        except OSError as error:
            return error.strerror or str(error)
        return "it is no longer needed" if self._until is not None and self._until in ready else ""

    def _flush(self) -> None:
        """Send the rest of the buffered data."""
        try:
            for sock, waiting in ((self._outer, self._to_outer), (self._inner, self._to_inner)):
                sock.settimeout(_FLUSH_TIMEOUT_S)
                sock.sendall(waiting)
        except OSError:
            pass


def _sent(sock: socket.socket, data: bytearray) -> int:
    try:
        return sock.send(data)
    except BlockingIOError:
        return 0


def _purpose(fingerprint: str) -> str:
    return "call " + fingerprint


def _number(channel: SecureChannel, end: float) -> str:
    greeting, _, number = channel.hear(_MAX_LINE_BYTES, end).partition(" ")
    if greeting != GREETING or not proof.is_nonce(number):
        raise ChannelError("it does not speak dkdbg's protocol")
    return number


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
