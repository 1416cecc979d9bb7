"""Answer queries of other `dkdbg` processes of this user about connected jobs, on a Unix socket instead of a port.

The socket is in the runtime folder, which is closed to other users, and the kernel identifies the connecting process.
The queries are limited to the verbs that the job's agent has announced.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dkdbg.agent import sockets
from dkdbg.agent.relay import program
from dkdbg.agent.state import runtime_dir
from dkdbg.targets.reverse import query_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from dkdbg.relay.relay import Answer
    from dkdbg.targets.reverse.jobs import ConnectedJob

#: The verbs that an agent of this version answers.
ANSWERED = frozenset(program.QUERIES)
#: Beginning and end of a socket's name; the PID is between them.
_PREFIX, _SUFFIX = "calls-", ".sock"
#: Maximum bytes of a socket's path: the system's limit is 107, on macOS 103.
_MAX_SOCKET_PATH_BYTES = 100
#: Maximum number of clients at a time; timeout to receive a query and to send an answer.
_MAX_CLIENTS, _TIMEOUT_S = 32, 60.0
#: Timeout for the list of jobs: the waiting process may be stopped (Ctrl-Z), and `ps` continues without it.
_LIST_TIMEOUT_S = 10.0
#: Seconds between two checks whether the answer has ended or the server stops, which no socket reports.
_POLL_S = 0.5


class QueryServer:
    """Server for queries about connected jobs.

    Args:
        jobs: returns the connected jobs by name.
        editor: the port that editors attach to.

    Raises:
        OSError, RuntimeDirError: cannot listen, with the reason.
    """

    def __init__(self, jobs: Callable[[], Mapping[str, ConnectedJob]], *, editor: int) -> None:
        self._jobs, self._editor = jobs, editor
        folder = Path(runtime_dir.open_runtime_dir())
        self._path = folder / f"{_PREFIX}{os.getpid()}{_SUFFIX}"
        if len(os.fsencode(self._path)) > _MAX_SOCKET_PATH_BYTES:
            raise OSError(
                0,
                f"{self._path} is too long for a Unix socket; set {runtime_dir.ENV_RUNTIME_DIR} to a shorter path",
            )
        _sweep(folder)
        self._listener = _listening(self._path)
        self._free = threading.Semaphore(_MAX_CLIENTS)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="dkdbg queries", daemon=True)

    def start(self) -> None:
        """Start answering."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering, and remove the socket."""
        self._stopped.set()
        with contextlib.suppress(OSError):
            self._path.unlink()
        sockets.shut(self._listener)
        self._listener.close()

    def _listen(self) -> None:
        while not self._stopped.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed, or out of descriptors for a moment
                self._stopped.wait(_POLL_S)
                continue
            if not sockets.is_same_user(client) or not self._free.acquire(blocking=False):
                client.close()
                continue
            if not sockets.begin(self._serve, client, name="dkdbg asked"):
                client.close()
                self._free.release()

    def _serve(self, client: socket.socket) -> None:
        try:
            # The client is a process of this user; it gets no answer if it leaves or sends an invalid query.
            with client, contextlib.suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
                client.settimeout(_TIMEOUT_S)
                asked = json.loads(_line(client))
                if "words" in asked:
                    self._ask(client, asked)
                else:
                    data = json.dumps(self._list()).encode()
                    for start in range(0, len(data), query_client.LARGEST):
                        _say(client, query_client.OUT, data[start : start + query_client.LARGEST])
                    _say(client, query_client.EXIT, bytes(4))
        finally:
            self._free.release()

    def _list(self) -> list[dict[str, Any]]:
        return [
            {
                "name": name, "id": each.about.id, "why": each.why, "away": each.away, "editor": self._editor,
                "answers": sorted(each.about.answers),
            }
            for name, each in self._jobs().items()
        ]  # fmt: skip

    def _ask(self, client: socket.socket, asked: dict[str, Any]) -> None:
        query = [str(each) for each in asked["words"]]
        job = self._jobs().get(asked["job"])
        if job is None or job.about.id != asked["session"]:
            _say(client, query_client.REFUSED, b"the job was restarted meanwhile: try again")
        elif query[0] not in job.about.answers:
            _say(
                client,
                query_client.REFUSED,
                f"its agent does not support {query[0]} over a reverse connection".encode(),
            )
        elif why := job.why:
            _say(client, query_client.REFUSED, f"it is not connected: {why}".encode())
        else:
            with contextlib.closing(job.ask(query)) as answer:
                self._pass_on(
                    client,
                    answer,
                    lost=f"{asked['job']} lost its connection while it answered {query[0]}: try again, once dkdbg ps lists it",
                )

    def _pass_on(self, client: socket.socket, answer: Answer, *, lost: str) -> None:
        """Forward the agent's output for as long as the client stays; without an exit code, send `lost` instead."""
        with selectors.DefaultSelector() as news:
            news.register(client, selectors.EVENT_READ, b"")
            for sock, kind in ((answer.stdio, query_client.OUT), (answer.stderr, query_client.ERR)):
                news.register(sock, selectors.EVENT_READ, kind)
            while len(news.get_map()) > 1 or not answer.ended.is_set():
                for key, _ in news.select(_POLL_S):
                    if not key.data:  # a client sends nothing more, so it has left
                        return
                    if data := _received(key.fileobj):
                        _say(client, key.data, data)
                    else:
                        news.unregister(key.fileobj)
                if self._stopped.is_set():
                    return
        if answer.code is None:
            _say(client, query_client.REFUSED, lost.encode())
        else:
            _say(client, query_client.EXIT, answer.code.to_bytes(4, "big"))


def servers() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the path of each server on this machine that answers, and its jobs, as from `QueryServer._list`."""
    for folder in runtime_dir.folders():
        for path in _in(Path(folder)):
            with contextlib.suppress(OSError, ValueError):  # the server has just exited
                answer = b"".join(
                    data
                    for kind, data in query_client.ask(str(path), {}, timeout=_LIST_TIMEOUT_S)
                    if kind == query_client.OUT
                )
                yield str(path), json.loads(answer)


def _in(folder: Path) -> list[Path]:
    """Return the sockets in a folder; empty if it cannot be read."""
    with contextlib.suppress(OSError):
        return sorted(folder.glob(f"{_PREFIX}*{_SUFFIX}"))
    return []


def _listening(path: Path) -> socket.socket:
    """Return a socket that listens at `path`. It is renamed to `path` once it listens, or `_sweep` could remove it."""
    listener = socket.socket(socket.AF_UNIX)
    making = path.with_name(f"{path.name}~")
    try:
        making.unlink(missing_ok=True)
        listener.bind(str(making))
        making.chmod(0o600)
        listener.listen(_MAX_CLIENTS)
        making.rename(path)
    except OSError:
        listener.close()
        raise
    return listener


def _sweep(folder: Path) -> None:
    """Remove sockets of processes that were killed."""
    for path in _in(folder):
        with socket.socket(socket.AF_UNIX) as sock, contextlib.suppress(OSError):
            sock.settimeout(_TIMEOUT_S)
            try:
                sock.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()


def _line(client: socket.socket) -> bytes:
    """Return the query. Raises ValueError: it is incomplete."""
    data = b""
    while not data.endswith(b"\n"):
        more = client.recv(query_client.LARGEST)
        data += more
        if not more or len(data) > query_client.LONGEST:
            raise ValueError("no query")
    return data


def _received(sock: Any) -> bytes:  # noqa: ANN401 - as in selectors
    try:
        data: bytes = sock.recv(query_client.LARGEST)
    except OSError:
        return b""
    return data


def _say(client: socket.socket, kind: bytes, data: bytes) -> None:
    client.sendall(query_client.HEAD.pack(kind, len(data)) + data)
