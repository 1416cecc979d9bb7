"""Find one target's endpoint, and whether an attach to it would work now.

The target's agent may be replaced at any time.

Requests the agent's record by GET /status, with a timeout and a size limit. Never sends the token itself.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dkdbg.agent.proxy.listener import proof
from dkdbg.attach import plain_debugpy, wires
from dkdbg.core import record as records
from dkdbg.core.record import BadRecord
from dkdbg.core.target import Endpoint
from dkdbg.errors import DkdbgError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dkdbg.core.record import SeenRecord
    from dkdbg.core.target import Changes, Target

#: Seconds between two polls of an endpoint that is not ready.
INTERVAL_S = 0.1
#: Maximum seconds to wait for an answer; the limit doubles after each timeout. Two ssh hops to a busy machine can take
#: this long.
MAX_ANSWER_TIMEOUT_S = 16.0
#: Seconds until an ended event stream, such as that of a stopped engine, is opened again.
RETRY_PAUSE_S = 3.0


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Result of one poll of a target.

    Attributes:
        endpoint: host and port; None without an endpoint.
        agent: id of the agent that answered, new after each restart; empty if an attach would not work now.
        why: why the target is not ready; empty if it is ready.
        hint: what to type or change; may be empty.
        record: the agent's record; None without an answer.
    """

    endpoint: tuple[str, int] | None
    agent: str
    why: str
    record: SeenRecord | None
    hint: str = ""


class Upstream:
    """Watches a target's endpoint. Thread-safe.

    Args:
        name: display name, unique among the targets of one port.
        token: token to prove if the agent requires one before it lists its processes.
    """

    def __init__(self, target: Target, name: str, token: str = "") -> None:
        self.target = target
        self.name = name
        self.changed = threading.Event()
        self._token = token
        self._refused_by = ""
        self._plain = ""
        #: True while the program at a HOST:PORT is known to be no plain debugpy. `dkdbg attach` checks that before it
        #: starts.
        self._is_heard = True
        self._greeted: plain_debugpy.Greeted | None = None
        self._limit = ANSWER_TIMEOUT_S
        self._lock = threading.Lock()
        self._endpoint = Endpoint(address=None, why="")
        self._searched = 0.0
        self._stale = True
        self._seen: Seen | None = None
        self._looked = 0.0

    @property
    def last(self) -> Seen | None:
        """Return the result of the last poll."""
        return self._seen

    def close(self) -> None:
        """Disconnect from a plain debugpy like an editor, so that its port stays; do not wait for a running poll."""
        greeted, self._greeted = self._greeted, None
        if greeted is not None:
            plain_debugpy.leave(greeted)

    def poke(self) -> None:
        """Make the next poll look up the target's endpoint again."""
        self._stale = True
        self.changed.set()

    def poll(self) -> Seen:
        """Find the target's endpoint if necessary, and query its agent. Never raises."""
        with self._lock:
            now = time.monotonic()
            if self._seen is not None and now - self._looked < INTERVAL_S / 2 and not self._stale:
                return self._seen
            self.changed.clear()
            missing = self._seen is None or not self._seen.agent
            if self._stale or (missing and now - self._searched > self.target.pause):
                self._stale = False
                self._endpoint = self.target.endpoint()
                self._searched = time.monotonic()
            self._seen = self._ask()
            self._looked = time.monotonic()
            return self._seen

    def _ask(self) -> Seen:
        endpoint = self._endpoint.address
        if self._plain:
            return Seen(endpoint=None, agent="", why=self._plain, record=None)
        if endpoint is None:
            return Seen(
                endpoint=None, agent="", why=self._endpoint.why, record=None, hint=self._endpoint.hint
            )
        try:
            self._check_for_debugpy(endpoint)
            record = self._status_of(endpoint)
            if record is not None and record.is_attachable:
                return Seen(
                    endpoint=endpoint, agent=record.agent, why="", record=self._whole(record, endpoint)
                )
        except PlainDebugpyError:
            where = f"{endpoint[0]}:{endpoint[1]}"
            self._plain = f"a plain debugpy listens at {where} now; stop this and type: dkdbg attach {where}"
            return Seen(endpoint=None, agent="", why=self._plain, record=None)
        except BadRecord as error:
            why = f"malformed answer at {endpoint[0]}:{endpoint[1]}: {error}"
            return Seen(endpoint=endpoint, agent="", why=why, record=None)
        unready = record is not None and record.state in {"starting", "exited"}
        why = f"its agent is {record.state}" if record is not None and unready else self._endpoint.why
        return Seen(endpoint=endpoint, agent="", why=why, record=record)

    def _check_for_debugpy(self, endpoint: tuple[str, int]) -> None:
        """Check a newly opened port for a plain debugpy, as an HTTP request would kill its port.

        Raises:
            PlainDebugpyError: it is a plain debugpy. The connection stays open: closing it while the program starts
                would make the program unreachable for debuggers.
        """
        if self.target.address.scheme != "endpoint" or self._is_heard:
            return
        try:
            found = plain_debugpy.greeted(endpoint)
        except OSError:  # nothing listens there
            return
        self._is_heard = True
        if found is not None:
            self._greeted = found
            raise PlainDebugpyError("it is a plain debugpy, without an agent")

    def _status_of(self, endpoint: tuple[str, int]) -> SeenRecord | None:
        began = time.monotonic()
        found = status_of(endpoint, limit=self._limit)
        self._is_heard = self._is_heard and found is not None  # the next one may be a plain debugpy
        if found is None and time.monotonic() - began >= self._limit:
            self._limit = min(MAX_ANSWER_TIMEOUT_S, 2 * self._limit)
        return found

    def _whole(self, record: SeenRecord, endpoint: tuple[str, int]) -> SeenRecord:
        """Return the record with the list of processes, if the token grants access to it.

        A wrong token is tried only once per agent, because agents count wrong tokens as guesses.
        """
        if record.processes is not None or not self._token or record.agent == self._refused_by:
            return record
        found = status_of(endpoint, self._token, limit=self._limit)
        if found is None:
            return record
        self._refused_by = "" if found.processes is not None else record.agent
        return found


class PlainDebugpyError(records.BadRecord):
    """A plain debugpy answers, without an agent: each further request may kill its port (see plain_debugpy.py)."""


#: Seconds for a whole query, unless the target is known to be slow, and maximum bytes of an answer.
ANSWER_TIMEOUT_S = 2.0
MAX_ANSWER_BYTES = 4 << 20


def status_of(
    endpoint: tuple[str, int], token: str = "", *, limit: float = ANSWER_TIMEOUT_S
) -> SeenRecord | None:
    """Return the record of an agent's session, None if no agent answers.

    A connection that is accepted and closed at once counts as no answer: a port proxy does that while the container
    does not listen yet.

    Args:
        token: token to prove, so that the agent lists its processes; empty for none.
        limit: seconds for the whole query.

    Raises:
        BadRecord: the answer is malformed.
    """
    with contextlib.closing(http.client.HTTPConnection(*endpoint)) as connection:
        connection.auto_open = 0  # a new connection would have neither the proof nor the deadline
        try:
            connection.sock = _DeadlineSocket.connect_to(endpoint, limit)
            exchange = _challenged(connection) if token and wires.is_own_server(connection.sock) else None
            text = (
                {}
                if exchange is None
                else {"Authorization": f"{proof.HTTP_SCHEME} {exchange.of_client(token)}"}
            )
            connection.request("GET", "/status", headers=text)
            with connection.getresponse() as response:
                body, shown = response.read(MAX_ANSWER_BYTES), response.headers.get(proof.HTTP_PROOF)
                if response.length and len(body) < MAX_ANSWER_BYTES:  # the agent was killed during its answer
                    return None
        except http.client.BadStatusLine as error:
            if "Content-Length" in str(error):
                raise PlainDebugpyError("it is a plain debugpy, without an agent") from error
            return None
        except (OSError, http.client.HTTPException, ValueError):
            return None
    found = records.decode(body)
    if not isinstance(found, dict) or "state" not in found or "id" not in found:
        return None
    seen = records.parse(found)
    if (
        exchange is not None
        and seen.processes is not None
        and not proof.is_same(shown, exchange.of_agent(token))
    ):
        raise records.BadRecord("it does not know the token")
    return seen


def _challenged(connection: http.client.HTTPConnection) -> proof.Exchange | None:
    """Request an agent's nonce and return the exchange; None if the agent sends no nonce.

    Raises:
        OSError, HTTPException: as any request; also if the agent closes the connection.
    """
    mine = proof.nonce()
    connection.request("GET", "/status", headers={proof.HTTP_NONCE: mine})
    with connection.getresponse() as response:
        response.read(MAX_ANSWER_BYTES)
        theirs = response.headers.get(proof.HTTP_NONCE, "")
    return proof.Exchange(proof.STATUS, mine, theirs) if proof.is_nonce(theirs) else None


class _DeadlineSocket(socket.socket):
    """Connection with a deadline, even if bytes keep arriving slowly."""

    deadline = 0.0

    @classmethod
    def connect_to(cls, endpoint: tuple[str, int], limit: float) -> _DeadlineSocket:
        """Connect, with a deadline in `limit` seconds. Raises OSError."""
        deadline = time.monotonic() + limit
        plain = socket.create_connection(endpoint, timeout=limit)
        hurried = cls(fileno=plain.detach())
        hurried.deadline = deadline
        return hurried

    def recv_into(self, *arguments: Any, **more: Any) -> int:  # noqa: ANN401 - as in socket
        """Receive before the deadline. Raises TimeoutError."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.settimeout(left)
        return super().recv_into(*arguments, **more)


class ChangeWatch:
    """Threads that listen to the targets' event streams and make the upstreams poll on each change.

    Args:
        report: prints one line if a stream fails; the same line is not repeated.
    """

    def __init__(self, upstreams: Sequence[Upstream], report: Callable[[str], None]) -> None:
        self._report = report
        self._stopped = threading.Event()
        self._sources: dict[Changes, list[Upstream]] = {}
        for upstream in upstreams:
            changes = upstream.target.changes()
            if changes is not None:
                self._sources.setdefault(changes, []).append(upstream)

    def start(self) -> None:
        """Start listening."""
        for source, upstreams in self._sources.items():
            threading.Thread(
                target=self._listen, args=(source, upstreams), name="dkdbg changes", daemon=True
            ).start()

    def stop(self) -> None:
        """Stop listening."""
        self._stopped.set()
        for source in self._sources:
            source.close()

    def _listen(self, source: Changes, upstreams: Sequence[Upstream]) -> None:
        def changed() -> None:
            for upstream in upstreams:
                upstream.poke()

        reported = ""
        while not self._stopped.is_set():
            try:
                source.listen(changed)
                reported = ""
            except DkdbgError as error:
                if error.message != reported:
                    reported = error.message
                    self._report(reported)
            changed()  # changes between two streams are not reported
            self._stopped.wait(RETRY_PAUSE_S)
