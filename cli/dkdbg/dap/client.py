"""Client of a debug adapter: requests with timeouts, events and reverse requests."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from typing import TYPE_CHECKING, Any

from dkdbg.agent.dap.frames import FrameError, FrameParser, decode, encode
from dkdbg.errors import EXIT_TIMEOUT, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    #: A message, or a part of one, as JSON. The protocol is extensible, so values are checked where they are used.
    Body: TypeAlias = dict[str, Any]

#: Seconds to wait for an answer of the adapter; evaluating an expression runs the user's code.
TIMEOUT = 120.0
#: Seconds to wait for the reader to notice a broken connection after a failed send.
_END_TIMEOUT_S = 10.0
_CHUNK = 1 << 16
#: Required key of each type of message.
_NEEDED = {"request": "command", "event": "event", "response": "request_seq"}


class MessageReader:
    """Parser that splits a byte stream into messages; a message may arrive in any number of pieces.

    After a FrameError the stream is unusable: the protocol cannot resynchronise.
    """

    def __init__(self) -> None:
        self._frames = FrameParser()

    def feed(self, data: bytes) -> Iterator[Body]:
        """Yield the messages that `data` completes, in order.

        Raises:
            FrameError: the bytes are not a frame, are too large, or are not a message of the protocol.
        """
        self._frames.feed(data)
        while (body := self._frames.take()) is not None:
            message = decode(body)
            needed = _NEEDED.get(str(message.get("type")))
            if needed is None or needed not in message:
                raise FrameError(f"not a request, response or event: {body[:80]!r}")
            yield message


class Session:
    """A debug session with one process: one connection and the thread that reads from it.

    `changed` is notified after each message. The sessions of one debugger share `changed`: one wait covers them all.
    `on_event` and `on_request` run in the reading thread with `changed` held, before the notification, and must not
    block. Reverse requests are answered with success.

    Attributes:
        name: name for messages; the adapter's name for the process, such as `rank 2`.
        pid: process id on the program's side; None until the adapter sends it.
        exit_code: exit code of the program, None until it is known.
        is_ended: whether the program has ended or the adapter hung up, so that no request is answered any more.
        is_closed: whether the adapter hung up.
        why_ended: reason for the end as text; empty before.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        name: str,
        changed: threading.Condition | None = None,
        on_event: Callable[[Session, str, Body], None] | None = None,
        on_request: Callable[[Session, str, Body], None] | None = None,
    ) -> None:
        self.name = name
        self.changed = changed or threading.Condition()
        self.pid: int | None = None
        self.exit_code: int | None = None
        self.is_ended = False
        self.is_closed = False
        self.why_ended = ""
        self._seen: set[str] = set()
        self._on_event = on_event
        self._on_request = on_request
        self._sock = sock
        self._sending = threading.Lock()
        self._numbers = itertools.count(1)
        #: Number of a request -> its response, None until it arrives.
        self._responses: dict[int, Body | None] = {}
        self._reader = threading.Thread(target=self._read, name=f"dap {name}", daemon=True)
        self._reader.start()

    def __repr__(self) -> str:
        return f"<Session {self.name} pid={self.pid}{' ended' if self.is_ended else ''}>"

    def send(self, command: str, arguments: Body | None = None) -> int:
        """Send a request and return its number for `response`. Raises DkdbgError: the connection is closed."""
        with self._sending:
            number = next(self._numbers)
            with self.changed:
                self._responses[number] = None
            message = {"seq": number, "type": "request", "command": command, "arguments": arguments or {}}
            try:
                self._sock.sendall(encode(message))
            except OSError as error:
                raise DkdbgError(f"{self.name}: cannot send {command}: {error.strerror or error}") from error
            return number

    def response(self, number: int, *, timeout: float = TIMEOUT) -> Body:
        """Return the body of the response to request `number`; `timeout` in seconds.

        Raises:
            DkdbgError: no response in time (EXIT_TIMEOUT), the adapter refused, or the connection was closed.
        """
        with self.changed:
            try:
                self.wait(lambda: self._responses[number] is not None, f"response {number}", timeout=timeout)
            finally:
                message = self._responses.pop(number)
        if message is None:  # pragma: no cover  wait() would have raised
            raise DkdbgError(f"{self.name}: no response")
        if not message.get("success"):
            text = message.get("message") or "no reason given"
            raise DkdbgError(f"{self.name}: the debug adapter refused {message.get('command')}: {text}")
        return message.get("body") or {}

    def request(self, command: str, arguments: Body | None = None, *, timeout: float = TIMEOUT) -> Body:
        """Send a request and return the body of its response.

        A session that ends without answering `disconnect` counts as disconnected: the body is empty.

        Raises:
            DkdbgError: as `send` and `response`.
        """
        try:
            number = self.send(command, arguments)
        except DkdbgError:
            if command == "disconnect" and self._will_end():
                return {}
            raise
        try:
            return self.response(number, timeout=timeout)
        except DkdbgError as error:
            if command == "disconnect" and self.is_ended:
                return {}
            if error.exit_code == EXIT_TIMEOUT:
                raise _too_late(self.name, f"an answer to {command}", timeout) from error
            raise

    def has_answered(self, number: int) -> bool:
        """Return whether the response to request `number` has arrived."""
        return self._responses.get(number) is not None

    def has_seen(self, event: str) -> bool:
        """Return whether an event of this name has arrived."""
        return event in self._seen

    def wait(self, is_done: Callable[[], bool], awaited: str, *, timeout: float) -> None:
        """Wait until `is_done()` is true, checked after each message; `awaited` names the condition in errors.

        Raises:
            DkdbgError: `timeout` seconds have passed (EXIT_TIMEOUT), or the session has ended.
        """
        with self.changed:
            self.changed.wait_for(lambda: is_done() or self.is_ended, timeout)
            if is_done():
                return
        if self.is_ended:
            raise DkdbgError(f"{self.name}: {self.why_ended} while waiting for {awaited}")
        raise _too_late(self.name, awaited, timeout)

    def close(self) -> None:
        """Close the connection; the program runs on unless it was asked to end. May be called twice."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        if threading.current_thread() is not self._reader:
            self._reader.join(TIMEOUT)
        self._sock.close()

    def _will_end(self) -> bool:
        """Return whether the session ends within _END_TIMEOUT_S: a `send` may fail before the reader sees the end."""
        with self.changed:
            return self.changed.wait_for(lambda: self.is_ended, _END_TIMEOUT_S)

    def _read(self) -> None:
        messages, why = MessageReader(), "the connection was closed"
        try:
            while data := self._sock.recv(_CHUNK):
                for message in messages.feed(data):
                    if message["type"] == "request":
                        self._answer(
                            message
                        )  # before acquiring `changed`: sending acquires the two locks in reverse order
                    with self.changed:
                        self._take(message)
                        self.changed.notify_all()
        except (OSError, FrameError) as error:
            why = f"the connection broke ({error})"
        finally:
            with self.changed:
                self._end(why)
                self.is_closed = True
                self.changed.notify_all()

    def _take(self, message: Body) -> None:
        body: Body = message.get("body") or {}
        match message["type"]:
            case "response":
                number = message["request_seq"]
                if number in self._responses:  # otherwise no caller waits for this response any more
                    self._responses[number] = message
            case "event":
                event = str(message["event"])
                self._seen.add(event)
                match event:
                    case "process":
                        self.pid = body.get("systemProcessId")
                    case "exited":
                        self.exit_code = body.get("exitCode")
                    case "terminated":
                        self._end("the program ended")
                    case _:
                        pass
                if self._on_event:
                    self._on_event(self, event, body)
            case _:
                if self._on_request:
                    self._on_request(self, str(message["command"]), message.get("arguments") or {})

    def _end(self, why: str) -> None:
        if not self.is_ended:
            self.is_ended, self.why_ended = True, why

    def _answer(self, request: Body) -> None:
        # Number the response under the sending lock, or numbers could repeat. Adapters ignore this number: they
        # check request_seq only.
        answer = {"type": "response", "request_seq": request.get("seq"), "command": request["command"]}
        with contextlib.suppress(OSError), self._sending:
            self._sock.sendall(encode({**answer, "seq": next(self._numbers), "success": True}))


def dial(host: str, port: int, *, timeout: float = TIMEOUT) -> socket.socket:
    """Return a connection to a debug adapter, which must be listening already; `timeout` in seconds.

    It tries once: debugpy's adapter stops answering after a dropped connection, so readiness comes from the session
    records, never from connecting.

    Raises:
        DkdbgError: connection refused or timed out.
    """
    try:
        sock = socket.create_connection((host, port), timeout)
    except OSError as error:
        message = f"cannot connect to the debug adapter at {host}:{port}: {error.strerror or error}"
        raise DkdbgError(message, hint="dkdbg ps shows what is running, and where it listens.") from error
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _too_late(name: str, awaited: str, timeout: float) -> DkdbgError:
    return DkdbgError(f"{name}: waited {timeout:g} s for {awaited}", exit_code=EXIT_TIMEOUT)
