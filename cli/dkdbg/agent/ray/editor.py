"""One client of the Ray proxy: the root session, which announces waiting workers, or the session of one worker."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time

from dkdbg.agent.contract import LOOPBACK
from dkdbg.agent.dap import frames, messages
from dkdbg.agent.proxy.broker import group_control
from dkdbg.agent.proxy.broker.stops import Stops
from dkdbg.agent.ray import child_proxy, guard, unpacked
from dkdbg.agent.ray.worker_registry import WorkerEntry

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import List, Set

    from dkdbg.agent.dap.messages import Message
    from dkdbg.agent.ray.worker_registry import WorkerRegistry

#: Seconds between two reports that a worker is held; each stops the others' clocks for 3 s (see group_control.py).
_HELD_S = 1.0

#: Prefix of the names of Ray Serve's workers, and the message at the first stop of one.
_REPLICA = "ServeReplica:"
_HEALTH_CHECKS = (
    "keeps running while you hold the program: Ray Serve replaces a replica that misses three health checks "
    "(more time: health_check_timeout_s of its deployment)"
)


class Editor:
    """Serves one connection, on a thread of its own; only `update` is called from the registry's thread."""

    def __init__(self, sock: socket.socket, registry: WorkerRegistry) -> None:
        self._sock = sock
        self._registry = registry
        self._lock = threading.Lock()
        self._numbers = itertools.count(messages.OWN_SEQUENCE)
        self._initialize: Message = {}
        self._attach: Message = {}
        self._reported: Set[int] = set()
        self._held_reported_at = 0.0
        self._are_checks_reported = False
        self.is_attached = False

    def serve(self, first: bytes, parser: frames.FrameParser) -> None:
        """Serve until the client has left."""
        self._initialize = frames.decode(first)
        self._send(
            messages.answer(
                self._initialize,
                **dict(messages.CAPABILITIES, supportsRestartRequest=False, supportsTerminateRequest=False),
            )
        )
        self._sock.settimeout(None)
        with contextlib.suppress(frames.FrameError):
            for body in frames.received(self._sock.recv, parser):
                if not self._take(frames.decode(body), parser):
                    return

    def update(self, entries: List[WorkerEntry]) -> None:
        """Announce newly waiting workers; while a worker is held, stop the clocks of the client's other processes."""
        if not self.is_attached:
            return
        if not self._are_checks_reported and any(
            each.stopped and each.worker.called.startswith(_REPLICA) for each in entries
        ):
            self._are_checks_reported = True
            self._send(messages.say(_HEALTH_CHECKS))
        now = time.monotonic()
        stops = [each.proxy.stops for each in entries if each.proxy and each.stopped]
        last = max((each.stopped_at for each in stops), default=0.0)
        evaluates = any(each.evaluates(last) for each in stops)
        if any(each.stopped for each in entries) and not evaluates and now > self._held_reported_at + _HELD_S:
            self._held_reported_at = now
            self._registry.tell_held()
            if messages.as_dict(self._attach.get("arguments")).get(messages.LEADS_BARRIER) is True:
                self._send(messages.event(messages.GROUP, command=group_control.HELD, world=0, ranks=[]))
        waiting = {each.number: each for each in entries if each.is_free}
        for number, entry in waiting.items():
            if number not in self._reported:
                self._announce(entry)
        self._reported = set(waiting)

    def end(self) -> None:
        """End the root session, because the proxy stops."""
        if self.is_attached:
            with contextlib.suppress(OSError):
                self._send(messages.event("terminated"))

    def _take(self, message: Message, parser: frames.FrameParser) -> bool:
        """Handle a request; return False to stop reading."""
        command = message.get("command")
        if message.get("type") != "request":
            return True
        if command == "attach":
            arguments = messages.as_dict(message.get("arguments"))
            number = arguments.get("subProcessId")
            if isinstance(number, int) and not isinstance(number, bool):
                self._pass(number, message, parser)
                return False
            self._attach = message
            self._send(messages.event("initialized"))
        elif command == "configurationDone" and self._attach:
            self._send(messages.answer(message))
            self._send(messages.answer(self._attach))
            self.is_attached = True
            self._registry.wake()
        elif command in ("disconnect", "terminate"):
            self.is_attached = False
            self._send(messages.answer(message))
            if command == "disconnect":
                return False
            self._send(messages.event("terminated"))
        elif command == messages.GROUP:
            if messages.as_dict(message.get("arguments")).get("command") == group_control.HELD:
                self._registry.tell_held()
            self._send(messages.answer(message))
        elif command == messages.RELEASE:
            wanted = messages.as_dict(message.get("arguments")).get("subProcessId")
            self._release(wanted)
            self._send(messages.answer(message))
        elif command == "launch":
            self._send(
                messages.refuse(message, "the workers are already running: use an attach configuration")
            )
        elif isinstance(command, str) and command.startswith("set"):
            self._send(
                messages.answer(
                    message, breakpoints=messages.unset(messages.as_dict(message.get("arguments")))
                )
            )
        elif command == "threads":
            self._send(messages.answer(message, threads=[]))
        else:
            self._send(
                messages.refuse(
                    message, "this is the session of the cluster; choose a worker's session", show=False
                )
            )
        return True

    def _announce(self, entry: WorkerEntry) -> None:
        arguments = messages.as_dict(self._attach.get("arguments"))
        own = {key: value for key, value in arguments.items() if key not in messages.NOT_INHERITED}
        child = dict(own, name=entry.name, subProcessId=entry.number)
        if "connect" not in child:
            child["connect"] = {"host": LOOPBACK, "port": self._registry.port}
        client = messages.as_dict(self._initialize.get("arguments"))
        self._send(messages.announcement(client, self._numbers.__next__, child))

    def _pass(self, number: int, attach: Message, parser: frames.FrameParser) -> None:
        """Serve the session of one worker until its end."""
        entry = self._registry.take(number)
        if entry is None:
            text = (
                "this worker is no longer waiting, or another debugger is attached; "
                "dkdbg ps TARGET lists the waiting workers, TARGET as for dkdbg attach"
            )
            self._send(messages.refuse(attach, text))
            return
        worker = None
        try:
            try:
                worker, received, run = guard.connect(entry.worker.ip, entry.worker.port)
            except OSError as error:
                why = "%s cannot be reached at %s:%d (%s): it has ended since it was listed, or a firewall blocks it"
                text = why % (entry.name, entry.worker.ip, entry.worker.port, error.strerror or error)
                self._send(messages.refuse(attach, text))
                return
            self._registry.connected(entry, run)
            mappings = messages.as_dict(attach.get("arguments")).get("pathMappings")
            at = entry.worker
            code = unpacked.Code(mappings, at.unpacked, at.main, at.source, at.modules)
            entry.proxy = child_proxy.ChildProxy(
                self._sock, parser, worker, received, initialize=self._initialize, attach=attach, code=code,
                forked=entry.forked, announce=lambda pid, called: self._forked(entry, pid, called),
                stops=Stops(lambda where: setattr(entry, "stopped", where)),
            )  # fmt: skip
            entry.proxy.serve()
        finally:
            if worker is not None:
                worker.close()
            self._registry.leave(entry)

    def _forked(self, entry: WorkerEntry, pid: int, called: str) -> None:
        """Register a process that a worker has started; if no editor will open a session for it, let it run."""
        number = self._registry.add_forked(entry, pid, called)
        if not number:
            self._let_run(WorkerEntry(0, entry.worker, pid))
        elif not self._registry.is_watched():
            self._release(number)

    def _release(self, number: object) -> None:
        """Resume, on a thread because it takes time, a process for which no session will be opened."""
        entry = self._registry.take(number) if isinstance(number, int) else None
        if entry is not None:
            threading.Thread(target=self._let_run, args=(entry,), name="dkdbg ray", daemon=True).start()

    def _let_run(self, entry: WorkerEntry) -> None:
        try:
            if entry.forked:
                child_proxy.release(*guard.connect(entry.worker.ip, entry.worker.port)[:2], entry.forked)
        except OSError:
            pass  # it has ended
        finally:
            self._registry.leave(entry)

    def _send(self, body: bytes) -> None:
        with self._lock:
            self._sock.sendall(frames.wrap(body))
