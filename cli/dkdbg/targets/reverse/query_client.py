"""A question to a job that has called a waiting `dkdbg attach`, which has the only way to it: over that one's Unix socket.

As a program, `call_line.py SOCKET JOB SESSION WORD...`, it answers with the agent's output, errors and exit code, so that
verbs ask such a job by a command line as any other. It imports nothing of ours and of site-packages, and so starts at once.

Both ways the first line is JSON: `{"job": name, "session": id, "words": [...]}`, or `{}` for the list of jobs. The answer is
frames: a kind (1 byte), a length (4, big-endian), and so many bytes.
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

#: Output, errors; the exit code (4 bytes), and why there is none (text): one of them comes last.
OUT, ERR, EXIT, REFUSED = b"o", b"e", b"x", b"r"
HEAD = struct.Struct(">cI")
#: Bytes of a frame, and of a question.
LARGEST, LONGEST = 1 << 16, 1 << 20
#: Seconds for one step of the other end, which is on this machine.
_PATIENCE = 60.0
#: The exit code of a question that was not answered.
_FAILED = 1


def ask(
    path: str, question: dict[str, object], *, patience: float | None = _PATIENCE
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the frames of the answer; the last one is EXIT or REFUSED.

    Args:
        path: of the socket. patience: seconds without a frame; None where the asked one has limits of its own.

    Raises:
        OSError: nobody listens there, it is not ours, or the answer breaks off.
    """
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(_PATIENCE)
        sock.connect(path)
        if not _is_ours(sock):
            raise PermissionError(0, "another user listens there")
        sock.sendall(json.dumps(question).encode("utf-8", "surrogatepass") + b"\n")
        sock.settimeout(patience)
        kind = b""
        while kind not in (EXIT, REFUSED):
            kind, size = HEAD.unpack(_read(sock, HEAD.size))
            if size > LARGEST:
                raise ConnectionError(0, "what it says makes no sense")
            yield kind, _read(sock, size)


def _read(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise ConnectionError(0, "it has ended")
        data += more
    return data


def _is_ours(sock: socket.socket) -> bool:
    """As `agent.sockets.is_same_user`, which this program does not import."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    told = sock.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i"))
    return struct.unpack("3i", told)[1] in (0, os.getuid())


def main(words: Sequence[str]) -> int:
    """Ask, and pass on what is answered; the exit code."""
    path, job, session = words[:3]
    why = "it says no end"
    try:
        for kind, data in ask(
            path, {"job": job, "session": session, "words": list(words[3:])}, patience=None
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
        why = f"the dkdbg attach that {job} has called does not answer: {error.strerror or error}"
    sys.stderr.write(f"dkdbg: {why}\n")
    return _FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
