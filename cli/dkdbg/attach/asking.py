"""Queries an agent's record, GET /status, with a timeout and a size limit, and without showing the token."""

from __future__ import annotations

import contextlib
import http.client
import socket
import time
from typing import TYPE_CHECKING, Any

from dkdbg.agent.proxy.listener import proof
from dkdbg.attach import owners
from dkdbg.core import record as records

if TYPE_CHECKING:
    from dkdbg.core.record import SeenRecord


class PlainDebugpyError(records.BadRecord):
    """A plain debugpy answers, without an agent: each further request may cost it its port (see plain_debugpy.py)."""


#: Seconds for a whole query, unless the target is known to be slow, and maximum bytes of an answer.
ANSWER_TIMEOUT_S = 2.0
MAX_ANSWER_BYTES = 4 << 20


def status_of(
    endpoint: tuple[str, int], token: str = "", *, limit: float = ANSWER_TIMEOUT_S
) -> SeenRecord | None:
    """Return the record of an agent's session, None if no agent answers.

    A port proxy for a container that does not listen yet accepts connections and closes them: no answer.

    Args:
        token: proven to the agent, so that it lists its processes; empty for none.
        limit: seconds for the whole query.

    Raises:
        BadRecord: the answer is malformed.
    """
    with contextlib.closing(http.client.HTTPConnection(*endpoint)) as connection:
        connection.auto_open = 0  # the proof and the timeout are for this connection
        try:
            connection.sock = _DeadlineSocket.connect_to(endpoint, limit)
            exchange = _challenged(connection) if token and owners.is_ours(connection.sock) else None
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
    """Request an agent's nonce; None if it has none.

    Raises:
        OSError, HTTPException: as any request; also if the agent has closed the connection.
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
