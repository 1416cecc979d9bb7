"""What the docker command has no words for, asked of an engine behind ssh, for which the SDK would need paramiko."""

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

#: Bytes of an answer, and seconds for it.
_MOST, _LIMIT = 1 << 20, 20.0
_ID = re.compile(r"[0-9a-f]{64}")


class _Answer:
    """A pipe, as http.client wants a socket."""

    def __init__(self, pipe: io.RawIOBase) -> None:
        self._pipe = pipe

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self._pipe)


def execs(ids: Sequence[str]) -> list[dict[str, Any]]:
    """What the engine was asked to run in a container, as `GET /exec/ID/json` says; nothing of what has ended meanwhile.

    By `docker system dial-stdio`, which is how the docker command itself reaches an engine through ssh.

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
        # Our side stays open meanwhile: to an HTTP server its end is a client that has gone.
        answer = http.client.HTTPResponse(_Answer(dialled.stdout))  # type: ignore[arg-type]
        answer.begin()
        value = json.loads(answer.read(_MOST)) if answer.status == http.client.OK else None
        return value if isinstance(value, dict) else None
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        limit.cancel()
        process.end(dialled)
