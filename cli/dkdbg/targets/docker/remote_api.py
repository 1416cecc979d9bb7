"""Query an engine behind ssh for data that the docker command lacks; the SDK would need paramiko for that."""

from __future__ import annotations

import http.client
import io
import json
import re
import threading
from typing import TYPE_CHECKING, Any

from dkdbg import process

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Maximum bytes of an answer, and its timeout.
_MOST, _LIMIT = 1 << 20, 20.0
_ID = re.compile(r"[0-9a-f]{64}")


class _Answer:
    """A pipe with the interface that http.client expects of a socket."""

    def __init__(self, pipe: io.RawIOBase) -> None:
        self._pipe = pipe

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self._pipe)


def execs(ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return exec commands of a container, as from `GET /exec/ID/json`, without those that have ended meanwhile.

    Uses `docker system dial-stdio`, by which the docker command itself reaches an engine through ssh.

    Raises:
        DkdbgError: there is no docker command.
    """
    asked = (_get(f"/exec/{each}/json") for each in ids if _ID.fullmatch(each))
    return [said for said in asked if said is not None]


def _get(path: str) -> dict[str, Any] | None:
    dialled = process.converse(("docker", "system", "dial-stdio"))
    limit = threading.Timer(_LIMIT, dialled.kill)
    limit.start()
    try:
        if dialled.stdin is None or dialled.stdout is None:
            return None
        dialled.stdin.write(f"GET {path} HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n".encode())
        # Keep our side open: an HTTP server treats its end as a disconnected client.
        answer = http.client.HTTPResponse(_Answer(dialled.stdout))  # type: ignore[arg-type]
        answer.begin()
        value = json.loads(answer.read(_MOST)) if answer.status == http.client.OK else None
        return value if isinstance(value, dict) else None
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        limit.cancel()
        process.end(dialled)
