"""Connects to a worker's debug port, through the guard that dkdbg puts in front of debugpy.

The guard (`inprocess/ray/worker.py`) passes only clients that know the secret of its run. Guard and debugpy both send
first, so a client can tell them apart without sending a byte. The guard sends a nonce; the answer is HMAC-SHA256 over
it, keyed with the secret, which the driver has written to its session's folder (`inprocess/ray/driver.py`).
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import hmac
import json
import os
import socket
import time

from dkdbg.agent.dap.messages import as_dict, as_text
from dkdbg.agent.state import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Tuple

#: Prefix of the guard's line; the run's id and the connection's nonce follow in hexadecimal digits.
PREFIX = b"dkdbg-ray "
_GREETING = b"Content-Length: "
_MAX_LINE_BYTES = 200
#: Seconds for the connection and the first line.
_TIMEOUT_S = 10.0


class GuardError(OSError):
    """The port is neither debugpy's nor the guard's, or the guard refuses."""


def answer(number: str, secret: bytes) -> bytes:
    """Return the line that answers a guard's nonce."""
    return hmac.new(secret, number.encode(), hashlib.sha256).hexdigest().encode() + b"\n"


def connect(ip: str, port: int) -> Tuple[socket.socket, bytes, str]:
    """Return a connection to a worker's debugger, its first data, and the id of the run whose guard accepted it.

    Raises:
        OSError: nothing listens there any more, or another program does.
    """
    sock = socket.create_connection((ip, port), timeout=_TIMEOUT_S)
    try:
        end = time.monotonic() + _TIMEOUT_S
        received = _more(sock, b"", end)
        while len(received) < len(_GREETING) and (
            _GREETING.startswith(received) or PREFIX.startswith(received[: len(PREFIX)])
        ):
            received = _more(sock, received, end)
        if received.startswith(_GREETING):
            sock.settimeout(None)
            return sock, received, ""
        while received.startswith(PREFIX) and b"\n" not in received and len(received) < _MAX_LINE_BYTES:
            received = _more(sock, received, end)
        line, newline, rest = received.partition(b"\n")
        fields = line.decode("ascii", "replace").split()
        if not newline or len(fields) != 3 or not received.startswith(PREFIX):
            raise GuardError(0, "another program listens there, not a debugger")
        secrets = [each.secret for each in runs() if each.id == fields[1]]
        if not secrets:
            raise GuardError(
                0,
                "its driver was started on another machine, or by another user: attach there, as that user",
            )
        sock.sendall(answer(fields[2], secrets[0]))
        if not rest:
            rest = _more(sock, b"", end)
        sock.settimeout(None)
        return sock, rest, fields[1]
    except BaseException:
        sock.close()
        raise


def _more(sock: socket.socket, received: bytes, end: float) -> bytes:
    sock.settimeout(max(0.01, end - time.monotonic()))
    data = sock.recv(4096)
    if not data:
        raise GuardError(0, "it has closed the connection: unknown client, or another debugger is attached")
    return received + data


#: Pattern of the files in session folders that describe runs of drivers, written by inprocess/ray/driver.py.
_NAMES = "ray-*.json"


class Run:
    """One run of a driver under dkdbg.

    Attributes:
        id: public id of the run. secret: secret for the guards of its workers.
        main: path of the driver's script, on the driver's machine.
        source: folder on the driver's machine that Ray has packed as the `working_dir`; empty if unknown.
        workers: names of its workers, by Ray's worker id.
        unpacked: folder on the worker's node into which Ray has unpacked the `working_dir`, by worker id; may be empty.
        modules: by worker id, for each of the `py_modules` the folder on the worker's node where Ray has unpacked it,
            and the folder on the driver's machine.
    """

    def __init__(self, answer: Dict[str, object]) -> None:
        self.id = str(answer["run"])
        self.secret = bytes.fromhex(str(answer["secret"]))
        self.main, self.source = as_text(answer.get("main")), as_text(answer.get("source"))
        self.workers: Dict[str, str] = {}
        self.unpacked: Dict[str, str] = {}
        self.modules: Dict[str, List[Tuple[str, str]]] = {}
        for key, value in as_dict(answer.get("workers")).items():
            if isinstance(value, str):
                self.workers[key], self.unpacked[key], *lines = (value + "\n").split("\n")
                pairs = [each.partition("\t") for each in lines]
                self.modules[key] = [(remote, source) for remote, _, source in pairs if remote and source]


def runs() -> List[Run]:
    """Return the runs of drivers in the live sessions here."""
    found = []
    no_driver = (OSError, ValueError, KeyError, TypeError, AttributeError)
    for record in records.live_records():
        for path in glob.glob(os.path.join(glob.escape(records.folder_of(record)), _NAMES)):
            with contextlib.suppress(*no_driver), open(path) as source:
                found.append(Run(json.load(source)))
    return found
