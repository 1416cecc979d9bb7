"""Where other `dkdbg` of this user ask the jobs that have called a waiting `dkdbg attach`: a Unix socket, and no port.

It lies in the runtime folder, which is closed to others, and whose process connects is asked of the kernel. What may be asked
is what the job's agent has said that it answers.
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
from dkdbg.agent.relay import questions
from dkdbg.agent.state import runtime_dir
from dkdbg.targets.reverse import query_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from dkdbg.relay.answer import Answer
    from dkdbg.targets.reverse.jobs import Caller

#: The agent's verbs that one of our version answers.
ANSWERED = frozenset(questions.VERBS)
#: How the sockets are called: with the number of the process.
_PREFIX, _SUFFIX = "calls-", ".sock"
#: A socket's path may have 107 bytes, on macOS 103.
_LONGEST = 100
#: Who may ask at one time, and seconds for a question to come and for an answer to be taken.
_MOST, _PATIENCE = 32, 60.0
#: Seconds for the list of jobs: who waits may be stopped (Ctrl-Z), and `ps` goes on without it.
_LISTED = 10.0
#: Seconds between two looks at what has changed without a word.
_LOOK = 0.5


class Desk:
    """Answers until it is closed.

    Args:
        jobs: gives those that have called, by name.
        editor: the port that editors attach to.

    Raises:
        OSError, RuntimeDirError: it cannot be listened, with the reason.
    """

    def __init__(self, jobs: Callable[[], Mapping[str, Caller]], *, editor: int) -> None:
        self._jobs, self._editor = jobs, editor
        folder = Path(runtime_dir.open_runtime_dir())
        self._path = folder / f"{_PREFIX}{os.getpid()}{_SUFFIX}"
        if len(os.fsencode(self._path)) > _LONGEST:
            raise OSError(
                0,
                f"{self._path} is too long for a socket; {runtime_dir.ENV_RUNTIME_DIR} names another folder",
            )
        _sweep(folder)
        self._listener = _listening(self._path)
        self._free = threading.Semaphore(_MOST)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="dkdbg desk", daemon=True)

    def start(self) -> None:
        """Let others ask."""
        self._thread.start()

    def close(self) -> None:
        """Answer nobody any more; nothing is left."""
        self._stopped.set()
        with contextlib.suppress(OSError):
            self._path.unlink()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _listen(self) -> None:
        while not self._stopped.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed, or out of descriptors for a moment
                self._stopped.wait(_LOOK)
                continue
            if not sockets.is_same_user(client) or not self._free.acquire(blocking=False):
                client.close()
                continue
            threading.Thread(target=self._serve, args=(client,), name="dkdbg asked", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            # What reads is a process of this user; one that goes away, or says nonsense, hears no more.
            with client, contextlib.suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
                client.settimeout(_PATIENCE)
                asked = json.loads(_line(client))
                if "words" in asked:
                    self._ask(client, asked)
                else:
                    said = json.dumps(self._list()).encode()
                    for start in range(0, len(said), query_client.LARGEST):
                        _say(client, query_client.OUT, said[start : start + query_client.LARGEST])
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
        words = [str(each) for each in asked["words"]]
        caller = self._jobs().get(asked["job"])
        if caller is None or caller.about.id != asked["session"]:
            _say(client, query_client.REFUSED, b"it was started anew meanwhile: ask again")
        elif words[0] not in caller.about.answers:
            _say(client, query_client.REFUSED, f"its agent does not answer {words[0]} from here".encode())
        elif why := caller.why:
            _say(client, query_client.REFUSED, f"it is not connected: {why}".encode())
        else:
            with contextlib.closing(caller.ask(words)) as answer:
                self._pass_on(client, answer)

    def _pass_on(self, client: socket.socket, answer: Answer) -> None:
        """Hand over what the agent says, as long as somebody listens."""
        with selectors.DefaultSelector() as news:
            news.register(client, selectors.EVENT_READ, b"")
            for sock, kind in ((answer.stdio, query_client.OUT), (answer.stderr, query_client.ERR)):
                news.register(sock, selectors.EVENT_READ, kind)
            while len(news.get_map()) > 1 or not answer.ended.is_set():
                for key, _ in news.select(_LOOK):
                    if not key.data:  # it says nothing more, and so has left
                        return
                    if data := _received(key.fileobj):
                        _say(client, key.data, data)
                    else:
                        news.unregister(key.fileobj)
                if self._stopped.is_set():
                    return
        if answer.code is None:
            _say(client, query_client.REFUSED, b"it has gone while it was asked")
        else:
            _say(client, query_client.EXIT, answer.code.to_bytes(4, "big"))


def desks() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The path of each that answers here, and the jobs that it has, as `Desk._list` says them."""
    for folder in runtime_dir.folders():
        for path in _in(Path(folder)):
            with contextlib.suppress(OSError, ValueError):  # it has ended in this moment
                said = b"".join(
                    data
                    for kind, data in query_client.ask(str(path), {}, patience=_LISTED)
                    if kind == query_client.OUT
                )
                yield str(path), json.loads(said)


def _in(folder: Path) -> list[Path]:
    """The sockets there; none where the folder cannot be read."""
    with contextlib.suppress(OSError):
        return sorted(folder.glob(f"{_PREFIX}*{_SUFFIX}"))
    return []


def _listening(path: Path) -> socket.socket:
    """A socket that lies there only while it listens: see `_sweep`."""
    listener = socket.socket(socket.AF_UNIX)
    making = path.with_name(f"{path.name}~")
    try:
        making.unlink(missing_ok=True)
        listener.bind(str(making))
        making.chmod(0o600)
        listener.listen(_MOST)
        making.rename(path)
    except OSError:
        listener.close()
        raise
    return listener


def _sweep(folder: Path) -> None:
    """Take away what was left by those that were killed."""
    for path in _in(folder):
        with socket.socket(socket.AF_UNIX) as sock, contextlib.suppress(OSError):
            sock.settimeout(_PATIENCE)
            try:
                sock.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()


def _line(client: socket.socket) -> bytes:
    """The question. Raises ValueError: it has no end."""
    said = b""
    while not said.endswith(b"\n"):
        more = client.recv(query_client.LARGEST)
        said += more
        if not more or len(said) > query_client.LONGEST:
            raise ValueError("no question")
    return said


def _received(sock: Any) -> bytes:  # noqa: ANN401 - as selectors says it
    try:
        data: bytes = sock.recv(query_client.LARGEST)
    except OSError:
        return b""
    return data


def _say(client: socket.socket, kind: bytes, data: bytes) -> None:
    client.sendall(query_client.HEAD.pack(kind, len(data)) + data)
