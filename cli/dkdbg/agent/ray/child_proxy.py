"""Serves the child session of one worker: passes frames between editor and debugger until one of them leaves."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time

from dkdbg.agent import sockets
from dkdbg.agent.dap import frames, messages
from dkdbg.agent.state import naming, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Tuple

    from dkdbg.agent.dap.messages import Message
    from dkdbg.agent.proxy.broker.stops import Stops
    from dkdbg.agent.ray.unpacked import Code

#: Properties of the attach request that are not passed on to a worker's debugger.
_ADDED_BY_DKDBG = ("subProcessId", "connect", messages.ROLE, messages.EDITOR, messages.RANKS, "dkdbgToken")
#: Timeout in seconds for an adapter to release a process.
_RELEASE_TIMEOUT_S = 20.0
#: Linux's maximum number of pids (PID_MAX_LIMIT).
_MAX_PIDS = 1 << 22
#: Maximum characters of a process's name.
_MAX_CHARACTERS = 100


class ChildProxy:
    """Connection of an editor to a worker.

    Args:
        client, parser: the editor's connection, and the parser with the data received after its attach request.
        worker, data: the connection to the worker's debugger, and the data received on it so far.
        initialize, attach: the editor's requests; `initialize` has been answered.
        code: path mapping for this worker.
        forked: pid of the worker's child process that the session is for; 0 for the worker itself.
        announce: called with the pid and the name of each process that this one has started.
        stops: tracks the stopped threads of this session's process.
    """

    def __init__(
        self, client: socket.socket, parser: frames.FrameParser, worker: socket.socket, data: bytes, *,
        initialize: Message, attach: Message, code: Code, forked: int, announce: Callable[[int, str], None], stops: Stops,
    ) -> None:  # fmt: skip
        self._client, self._parser = client, parser
        self._worker, self._received = worker, data
        self._initialize = initialize
        arguments = {
            k: v for k, v in messages.as_dict(attach.get("arguments")).items() if k not in _ADDED_BY_DKDBG
        }
        if code.mappings:
            arguments["pathMappings"] = code.mappings
        if forked:
            arguments["subProcessId"] = forked
        self._attach: Dict[str, Any] = dict(attach, arguments=arguments)
        self._announce, self.stops = announce, stops
        self._code = code
        self._lock, self._worker_lock = threading.Lock(), threading.Lock()
        self._ended = self._left = False

    def serve(self) -> None:
        """Pass everything on until both sides have ended; the caller closes both sockets."""
        with contextlib.suppress(OSError):
            sockets.tune(self._worker)
        back = threading.Thread(target=self._back, name="dkdbg ray child proxy", daemon=True)
        with contextlib.suppress(OSError, frames.FrameError):
            self._send(frames.encode(self._initialize) + frames.encode(self._attach))
            back.start()
            self._parser.allow(frames.MAX_BODY)
            self._client.settimeout(None)
            for body in frames.received(self._client.recv, self._parser):
                self._to_worker(body)
        self._left = True
        sockets.shut(self._worker)
        if back.ident is not None:
            back.join()

    def tell_held(self) -> None:
        """Stop the clocks of the worker and its processes for some seconds; see `stop_clocks` in inprocess/adapter.py.

        Skip a worker that does not read: waiting for it would delay the other workers.
        """
        if not self._worker_lock.acquire(blocking=False):
            return
        try:
            poll = select.poll()
            poll.register(self._worker, select.POLLOUT)
            if poll.poll(0):
                with contextlib.suppress(OSError):
                    self._worker.sendall(
                        frames.wrap(messages.request(messages.OWN_SEQUENCE, messages.GROUP, {}))
                    )
        finally:
            self._worker_lock.release()

    def _to_worker(self, body: bytes) -> None:
        message = frames.decode(body)
        if message.get("type") == "request":
            self.stops.asked(message)
        if self._code.script and message.get("command") == "setBreakpoints":
            arguments = messages.as_dict(message.get("arguments"))
            source = messages.as_dict(arguments.get("source"))
            if "path" in source:
                source["path"] = self._code.to_worker(source["path"])
                body = messages.body_of(message)
        self._send(frames.wrap(body))

    def _send(self, data: bytes) -> None:
        with self._worker_lock:
            self._worker.sendall(data)

    def _back(self) -> None:
        parser = frames.FrameParser()
        parser.feed(self._received)
        with contextlib.suppress(OSError, frames.FrameError):
            for body in frames.received(self._worker.recv, parser):
                if self._left:  # after a shutdown, recv still returns data received before
                    break
                self._from_worker(body)
        with self._lock, contextlib.suppress(OSError):
            if not self._ended:
                self._client.sendall(frames.wrap(messages.event("terminated")))
            self._client.shutdown(socket.SHUT_WR)

    def _from_worker(self, body: bytes) -> None:
        message = frames.decode(body)
        if message.get("command") == "initialize" and message.get("request_seq") == self._initialize.get(
            "seq"
        ):
            return
        if message.get("event") == "debugpySockets" or message.get("command") == messages.GROUP:
            return
        if message.get("event") == "debugpyAttach":
            self._forked(message.get("body"))
            return
        if message.get("command") == "startDebugging" and message.get("type") == "request":
            self._forked(messages.as_dict(message.get("arguments")).get("configuration"))
            self._send(
                frames.wrap(messages.answer(message))
            )  # without an answer, debugpy accepts no further process
            return
        self.stops.answered(message.get("request_seq"), message)
        self.stops.happened(message.get("event"), messages.as_dict(message.get("body")))
        with self._lock:
            self._ended = self._ended or message.get("event") == "terminated"
            self._client.sendall(frames.wrap(self._code.to_editor(body)))

    def _forked(self, configuration: object) -> None:
        """Announce in the root session a process that the worker has started: the editor cannot reach its adapter."""
        pid = messages.as_dict(configuration).get("subProcessId")
        if type(pid) is int and 0 < pid < _MAX_PIDS:
            self._announce(pid, _named(messages.as_dict(configuration).get("dkdbgAnnounced")))


def _named(announced: object) -> str:
    """Return the name of a process from its announcement."""
    process = processes.of_announcement(announced)
    if process is None or process["origin"] == "fork":  # its command line would name the worker
        return "child"
    try:
        return naming.describe(process)[:_MAX_CHARACTERS]
    except ValueError:  # the announcement is untrusted
        return "child"


def release(worker: socket.socket, received: bytes, pid: int) -> None:
    """Resume a process that a worker has started and that waits for a client: open a session and end it at once.

    Args:
        worker, received: a connection to the worker's adapter, and the data received on it so far.
    """
    requests: Tuple[Tuple[str, Dict[str, Any]], ...] = (
        ("initialize", {"adapterID": "debugpy"}),
        ("attach", {"subProcessId": pid}),
        ("configurationDone", {}),
        ("disconnect", {"terminateDebuggee": False}),
    )
    parser = frames.FrameParser()
    parser.feed(received)
    end = time.monotonic() + _RELEASE_TIMEOUT_S

    def receive(size: int) -> bytes:
        left = end - time.monotonic()
        if left <= 0:
            return b""
        worker.settimeout(left)
        return worker.recv(size)

    with worker:
        worker.settimeout(_RELEASE_TIMEOUT_S)
        for sequence, (command, arguments) in enumerate(requests, 1):
            worker.sendall(frames.wrap(messages.request(sequence, command, arguments)))
        with contextlib.suppress(frames.FrameError):
            for _ in frames.received(receive, parser):
                pass
