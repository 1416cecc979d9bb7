"""Asks a target's door for its record, GET /status: within a time, of a size, and without showing the token."""

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
    """What answers is debugpy without an agent: each further question may cost it its port (see plain.py)."""


#: Seconds for everything, on a way that is not known to be slow, and bytes of an answer.
ANSWER_LIMIT = 2.0
MAX_ANSWER = 4 << 20


def status_of(
    endpoint: tuple[str, int], token: str = "", *, limit: float = ANSWER_LIMIT
) -> SeenRecord | None:
    """Return what a door says of its session, None when nothing answers that is a door.

    A proxy that takes connections for a container that does not listen yet closes them: no answer.

    Args:
        token: proven to the door, so that it tells its processes; empty for none.
        limit: seconds for all of it.

    Raises:
        BadRecord: something answers, and it makes no sense.
    """
    with contextlib.closing(http.client.HTTPConnection(*endpoint)) as connection:
        connection.auto_open = 0  # the proof is for this connection, and so is the time
        try:
            connection.sock = _Hurried.connect_to(endpoint, limit)
            exchange = _challenged(connection) if token and owners.is_ours(connection.sock) else None
            said = (
                {}
                if exchange is None
                else {"Authorization": f"{proof.HTTP_SCHEME} {exchange.of_client(token)}"}
            )
            connection.request("GET", "/status", headers=said)
            with connection.getresponse() as response:
                body, shown = response.read(MAX_ANSWER), response.headers.get(proof.HTTP_PROOF)
                if response.length and len(body) < MAX_ANSWER:  # it was killed while it answered
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
    """Ask a door for its number; None when it did not give one.

    Raises:
        OSError, HTTPException: as any request; the door has closed the connection, too.
    """
    mine = proof.number()
    connection.request("GET", "/status", headers={proof.HTTP_NONCE: mine})
    with connection.getresponse() as response:
        response.read(MAX_ANSWER)
        theirs = response.headers.get(proof.HTTP_NONCE, "")
    return proof.Exchange(proof.STATUS, mine, theirs) if proof.is_number(theirs) else None


class _Hurried(socket.socket):
    """A connection that is over at a time, however slowly bytes come."""

    deadline = 0.0

    @classmethod
    def connect_to(cls, endpoint: tuple[str, int], limit: float) -> _Hurried:
        """Connect; everything has to be over after `limit` seconds. Raises OSError."""
        deadline = time.monotonic() + limit
        plain = socket.create_connection(endpoint, timeout=limit)
        hurried = cls(fileno=plain.detach())
        hurried.deadline = deadline
        return hurried

    def recv_into(self, *arguments: Any, **more: Any) -> int:  # noqa: ANN401 - as socket has it
        """Receive within what is left of the time. Raises TimeoutError."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.settimeout(left)
        return super().recv_into(*arguments, **more)
