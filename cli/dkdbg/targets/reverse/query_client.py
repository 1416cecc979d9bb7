"""Query a job over the Unix socket of the `dkdbg attach --listen` that the job is connected to.

As a program, `query_client.py SOCKET JOB SESSION WORD...` prints the agent's output and errors, and exits with
its exit code. So a verb queries such a job with a command line, like any other target. For a fast start this
module imports nothing from dkdbg or site-packages.

The query is a line of JSON: `{"job": name, "session": id, "words": [...]}`, or `{}` for the list of jobs. The
answer consists of frames: a kind (1 byte), a length (4, big-endian), and as many bytes.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Kinds of frames: output, errors, exit code (4 bytes), and why there is no exit code (text). One of the last two
#: ends an answer.
OUT, ERR, EXIT, REFUSED = b"o", b"e", b"x", b"r"
HEAD = struct.Struct(">cI")
#: Maximum bytes of a frame, and of a query.
LARGEST, LONGEST = 1 << 16, 1 << 20
#: Timeout for one read or write; the other end is on this machine.
_TIMEOUT_S = 60.0
#: Exit code of an unanswered query.
_FAILED = 1


def ask(
    path: str, query: dict[str, object], *, timeout: float | None = _TIMEOUT_S
) -> Iterator[tuple[bytes, bytes]]:
    """Send a query and yield the frames of the answer; the last one is EXIT or REFUSED.

    Args:
        path: path of the socket.
        timeout: seconds between frames; None if the answering side has a timeout.

    Raises:
        OSError: no process listens on the socket, the socket is another user's, or the answer is incomplete.
    """
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(_TIMEOUT_S)
        sock.connect(path)
        if not _is_own_server(sock):
            raise PermissionError(0, "another user listens there")
        sock.sendall(json.dumps(query).encode("utf-8", "surrogatepass") + b"\n")
        sock.settimeout(timeout)
        kind = b""
        while kind not in (EXIT, REFUSED):
            kind, size = HEAD.unpack(_read(sock, HEAD.size))
            if size > LARGEST:
                raise ConnectionError(0, "its answer is malformed")
            yield kind, _read(sock, size)


def _read(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise ConnectionError(0, "the connection was closed")
        data += more
    return data


def _is_own_server(sock: socket.socket) -> bool:
    """Return whether this user or root listens: a copy of `agent.sockets.is_same_user`, whose import takes time."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    credentials = sock.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[1] in (0, os.getuid())


def main(arguments: Sequence[str]) -> int:
    """Send the query, print the answer, and return the agent's exit code, or 1 without an answer."""
    path, job, session = arguments[:3]
    why = "the exit code is missing"
    try:
        for kind, data in ask(
            path, {"job": job, "session": session, "words": list(arguments[3:])}, timeout=None
        ):
            if kind == EXIT:
                sys.stdout.flush()
                return int.from_bytes(data, "big")
            if kind == REFUSED:
                why = data.decode("utf-8", "replace")
            else:
                stream = sys.stdout.buffer if kind == OUT else sys.stderr.buffer
                stream.write(data)
                stream.flush()
    except OSError as error:
        why = f"the dkdbg attach that {job} is connected to does not answer: {error.strerror or error}"
    sys.stderr.write(f"dkdbg: {why}\n")
    return _FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
