"""Accept jobs that can only connect out. They connect over TLS and prove that they know the token; then a relay starts.

Any host on an open network can find the port. Without proof of the token a connection gets only a TLS handshake
and a random number. At most MAX_PENDING connections are pending at a time, each for a few seconds; a new one
replaces the least important one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.agent import sockets
from dkdbg.agent.proxy.listener.listener import PendingConnections
from dkdbg.agent.relay import secure_channel
from dkdbg.errors import EXIT_CONFLICT, DkdbgError
from dkdbg.printable import printable
from dkdbg.relay.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dkdbg.agent.relay.secure_channel import SecureChannel
    from dkdbg.relay.relay import Answer
    from dkdbg.targets.reverse.certificate import Certificate

#: Maximum number of pending connections, and of known jobs; maximum bytes of a job's description.
MAX_PENDING, JOBS, _MAX_ABOUT_BYTES = 32, 256, 2000
#: Seconds between two log lines about refused connections.
_LOG_INTERVAL_S = 10.0
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class JobListener:
    """Listener for connecting jobs.

    Args:
        host: an address of this machine; empty for all.
        arrived: called with a new job, on a separate thread.
        log: prints one line.

    Raises:
        DkdbgError: `host` and `port` cannot be listened on.
    """

    def __init__(
        self,
        host: str,
        port: int,
        token: str,
        certificate: Certificate,
        *,
        arrived: Callable[[ConnectedJob], None],
        log: Callable[[str], None],
    ) -> None:
        self._token, self._certificate = token, certificate
        self._arrived, self._log = arrived, log
        try:
            self._listener = _listener(host, port)
        except OSError as error:
            raise DkdbgError(
                f"cannot listen on {host or 'port'}{':' if host else ' '}{port}: {error.strerror or error}",
                hint="name another port, or an address of this machine: dkdbg attach --listen [HOST:]PORT",
                exit_code=EXIT_CONFLICT,
            ) from error
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._pending = PendingConnections(MAX_PENDING)
        self._jobs: dict[tuple[str, str], ConnectedJob] = {}
        self._refused, self._reported = 0, 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="dkdbg jobs", daemon=True)

    def start(self) -> None:
        """Start accepting jobs."""
        self._thread.start()

    def close(self) -> None:
        """Stop accepting jobs; the connected ones belong to their targets."""
        self._stopped.set()
        sockets.shut(self._listener)
        self._listener.close()
        with self._lock:
            while (left := self._pending.victim()) is not None:
                self._pending.leave(left)
                sockets.shut(left)

    def _listen(self) -> None:
        while not self._stopped.is_set():
            try:
                sock, address = self._listener.accept()
            except OSError:  # closed, or out of descriptors for a moment
                self._stopped.wait(0.1)
                continue
            with self._lock:
                victim = self._pending.enter(sock, str(address[0]))
            if victim is not None:
                sockets.shut(victim)
            if not sockets.begin(self._welcome, sock, str(address[0]), name="dkdbg job"):
                with self._lock:
                    self._pending.leave(sock)
                sock.close()

    def _welcome(self, sock: socket.socket, address: str) -> None:
        try:
            line = secure_channel.answer(
                sock, self._token, self._certificate.context, self._certificate.fingerprint
            )
            about = _read(
                line.hear(_MAX_ABOUT_BYTES, time.monotonic() + secure_channel.INTRODUCTION_TIMEOUT_S)
            )
        except (OSError, ValueError) as error:
            self._refuse(address, str(error))
            sock.close()
            return
        finally:
            with self._lock:
                self._pending.leave(sock)
        job, is_new = self._job(about)
        if job is None or not job.offer(line):
            sock.close()
        elif is_new:
            self._arrived(job)

    def _job(self, about: About) -> tuple[ConnectedJob | None, bool]:
        key = about.id, about.key
        with self._lock:
            known = self._jobs.get(key)
            if self._stopped.is_set() or (known is not None and not known.is_closed):
                return known, False
            if len(self._jobs) >= JOBS:
                for each in [one for one, found in self._jobs.items() if found.is_closed]:
                    del self._jobs[each]
            if len(self._jobs) >= JOBS:
                return None, False
            made = self._jobs[key] = ConnectedJob(about)
            return made, True

    def _refuse(self, address: str, why: str) -> None:
        """Log a refused connection; count those within `_LOG_INTERVAL_S` instead of logging each."""
        with self._lock:
            self._refused += 1
            now = time.monotonic()
            if self._stopped.is_set() or (self._reported and now - self._reported < _LOG_INTERVAL_S):
                return
            count, self._refused, self._reported = self._refused, 0, now
        more = f", and {count - 1} more" if count > 1 else ""
        self._log(f"a connection from {address} was refused: {printable(why)}{more}")


@dataclass(frozen=True, kw_only=True)
class About:
    """A job's description.

    Attributes:
        id, name: id and name of its session; the name is valid in an address.
        port: port of its agent.
        key: a random number of the session, without which another job with the same id cannot take over its connection.
            Empty from an older agent.
        answers: verbs of the agent that can be queried through its relay; empty from an older agent.
    """

    id: str
    key: str
    name: str
    port: int
    answers: frozenset[str]


class ConnectedJob:
    """A session of a connected job; each connection from the job becomes the transport of a relay. Thread-safe.

    Attributes:
        about: its description.
        local: the port of this machine's loopback that leads to its agent.
        is_closed: whether the session is no longer needed.
    """

    def __init__(self, about: About) -> None:
        self.about = about
        self.is_closed = False
        self._changed = threading.Condition()
        self._waiting: SecureChannel | None = None
        self._current: _Line | None = None
        self._left = time.monotonic()
        self._relay = Relay(self._transport)
        self.local = self._relay.listen(about.port)

    @property
    def why(self) -> str:
        """Return why the job is not connected; empty while it is connected."""
        return self._relay.why

    @property
    def away(self) -> float:
        """Return the seconds since the job was last connected; 0 while it is connected."""
        return time.monotonic() - self._left if self._relay.why else 0.0

    def ask(self, query: Sequence[str]) -> Answer:
        """Query the job's agent; the first word is one of `about.answers`."""
        return self._relay.ask(json.dumps(query).encode())

    def offer(self, line: SecureChannel) -> bool:
        """Replace the job's connection by this one; return False if the job is not needed any more."""
        with self._changed:
            if self.is_closed:
                return False
            former, self._waiting = self._waiting, line
            current = self._current
            self._changed.notify_all()
        if former is not None:
            sockets.shut(former.sock)
        if current is not None:
            sockets.shut(current.outer)
        return True

    def close(self) -> None:
        """Drop the job and close its connection, so that the keeper in the job exits."""
        with self._changed:
            self.is_closed = True
            left, self._waiting = self._waiting, None
            self._changed.notify_all()  # before the relay is closed, which waits for `_transport`
        if left is not None:
            left.sock.close()
        self._relay.close()

    def _transport(self, word: str, silent: bool, limit: float) -> _Line:  # noqa: ARG002 - the job connects
        """Wait for the job to connect. Raises DkdbgError: it has not connected in time."""
        with self._changed:
            if self._current is not None:
                self._current, self._left = None, time.monotonic()
            if (
                not self._changed.wait_for(lambda: self._waiting is not None or self.is_closed, limit)
                or not self._waiting
            ):
                raise DkdbgError("not connected; its agent reconnects as long as it runs")
            line, self._waiting = self._waiting, None
            self._current = made = _Line(line, word)
        return made


class _Line:
    """A job's connection, as a transport of a relay."""

    def __init__(self, line: SecureChannel, word: str) -> None:
        self.outer = line.sock
        self._inner, theirs = socket.socketpair()
        self._errors, self._nothing = os.pipe()  # stays empty: the job logs its own errors
        self._thread = threading.Thread(
            target=self._pump, args=(line, theirs, word), name="dkdbg call", daemon=True
        )
        self._thread.start()

    def files(self) -> tuple[int, int, int]:
        """Return the connection's descriptors; see Transport."""
        return self._inner.fileno(), self._inner.fileno(), self._errors

    def close(self) -> None:
        """Close the connection; see Transport."""
        self._inner.close()
        self._thread.join()
        for each in (self._errors, self._nothing):
            os.close(each)

    def _pump(self, line: SecureChannel, inner: socket.socket, word: str) -> None:
        with self.outer, inner, contextlib.suppress(OSError):
            line.say(word)
            line.pump(inner)


def _listener(host: str, port: int) -> socket.socket:
    if not host and socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=MAX_PENDING
            )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=MAX_PENDING)


def _invalid(what: str) -> ValueError:
    """Return the error for a description, which may contain a key and is therefore not shown."""
    return ValueError(f"its description {what}: start the job with the agent.pyz of this dkdbg")


def _read(about: str) -> About:
    """Parse a description. Raises ValueError: it is invalid."""
    try:
        answer = json.loads(about)
    except RecursionError as error:
        raise _invalid("is nested too deeply") from error
    except ValueError as error:
        raise _invalid("is not JSON") from error
    if not isinstance(answer, dict):
        raise _invalid("is not a JSON object")
    id_, name, port = answer.get("id"), answer.get("name"), answer.get("port")
    if (
        not isinstance(id_, str)
        or not isinstance(name, str)
        or not isinstance(port, int)
        or not 0 < port < 65536
    ):
        raise _invalid("needs an id, a name and a port from 1 to 65535")
    answers = answer.get("answers")
    known = [each for each in answers if isinstance(each, str)] if isinstance(answers, list) else []
    name = _NO_NAME.sub("_", name).lstrip("-")[:63] or "job"  # no name may look like an option
    key = answer.get("key")
    return About(
        id=id_, key=key if isinstance(key, str) else "", name=name, port=port, answers=frozenset(known)
    )
