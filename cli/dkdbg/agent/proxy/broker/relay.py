"""Sockets of one client's connection: passes frames both ways and carries out the broker's actions."""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
import time

from dkdbg.agent import sockets
from dkdbg.agent.dap import frames, messages
from dkdbg.agent.inprocess import duration
from dkdbg.agent.proxy.broker import broadcast_query, connection, group_control
from dkdbg.agent.proxy.broker.broker import Broker
from dkdbg.agent.proxy.broker.connection import CLOSED, EVICTED, OBSERVING, REATTACHING, ROOT
from dkdbg.agent.proxy.broker.sessions import Sessions
from dkdbg.agent.state import job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterable, List, Optional, Tuple

    from dkdbg.agent import contract
    from dkdbg.agent.proxy.broker.agent import Agent
    from dkdbg.agent.proxy.broker.connection import Action, Link

#: Maximum seconds that a client waits for an adapter that is (re)starting; seconds until the client is notified of the
#: wait.
BACKEND_TIMEOUT_S = 30.0
BACKEND_NOTICE_S = 1.0
#: Seconds from `initialize` to an attach; an editor sends it within milliseconds.
ATTACH_TIMEOUT_S = 60.0
#: Seconds that a send to an observer may block, and so the maximum that it delays the controller.
OBSERVER_TIMEOUT_S = 1.0
#: Seconds to wait for a client to close its connection after the last answer.
CLOSE_TIMEOUT_S = 1.0
#: Seconds between two log lines for refused attaches, and the number of refusals logged before that limit applies.
REFUSAL_LOG_INTERVAL_S = 10.0
REFUSAL_LOG_BURST = 10
#: Seconds to wait for the stderr of a process that has ended.
STDERR_TIMEOUT_S = 10.0
#: Maximum queued lines for clients.
MAX_NOTICES = 100
#: Seconds to wait for a client to leave after the adapter has ended its session: some clients never do.
LEAVE_TIMEOUT_S = 5.0
NO_THREAD = "the agent cannot start a thread: raise the limit (ulimit -u, pids.max), and attach again"
#: Seconds between two checks of the rank barrier.
BARRIER_INTERVAL_S = 0.05


class Service:
    """Serves the clients of one port in front of one adapter; the listener hands them over.

    Attributes:
        barrier_timer: makes the ranks of a running job stop together; see rank_barrier.py.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._sessions = Sessions(agent, clock=time.monotonic, wall=lambda: time.strftime("%H:%M"))
        self._lock = threading.Condition()
        self.barrier_timer = BarrierTimer(self._sessions, self._lock, _send)
        self._notices = Notices()
        self._refused = 0
        self._next_log = 0.0

    def program_started(self, pid: int) -> None:
        """Record the program's first PID and discard the previous run's output."""
        with self._lock:
            self._sessions.program, self._sessions.end = pid, ""
            self._sessions.stderr_tail.forget()
            self._lock.notify_all()  # the former program's session waits for an end that will not be reported

    def program_ended(self, end: str) -> None:
        """Record how the program has ended, as text."""
        with self._lock:
            self._sessions.end = end
            self._lock.notify_all()

    def stderr_tail(self, pid: int, is_alive: Callable[[int], bool]) -> Tuple[str, str]:
        """Return process name and stderr that best explain why the program `pid` failed; see StderrTail.of_a_failure.

        Waits for the output of processes that have ended, for at most STDERR_TIMEOUT_S seconds.
        """
        end = time.monotonic() + STDERR_TIMEOUT_S
        with self._lock:
            while self._is_spoken_for(is_alive) and time.monotonic() < end:
                self._lock.wait(0.02)
            return self._sessions.stderr_tail.of_a_failure(pid)

    def wait_delivered(self, seconds: float, is_alive: Callable[[int], bool]) -> None:
        """Wait until the adapter has ended the root session and those of ended processes, for at most this time."""
        end = time.monotonic() + seconds
        with self._lock:
            while time.monotonic() < end:
                root = self._sessions.controller(ROOT)
                if (root is None or root.leaving) and not self._is_spoken_for(is_alive):
                    return
                self._lock.wait(0.02)  # no event reports that a process has ended

    def say(self, text: str) -> None:
        """Print a line in the console of each child session, in editors with a console for each session."""
        with self._lock:
            links = [
                one.link
                for key, one in self._sessions.controllers().items()
                if key != ROOT
                and one.configured
                and not one.leaving
                and messages.has_consoles(one.client_info)
            ]
        if links:
            self._notices.put((messages.say(text), links))

    def evaluates(self, pid: int, after: float) -> bool:
        """Return whether a stopped process evaluates something that it began after this monotonic time."""
        with self._lock:
            one = self._sessions.controller(pid)
            return one is not None and one.stops.evaluates(after)

    def tell_held(self) -> None:
        """Tell the agents of the job's other ranks that a rank is stopped here."""
        with self._lock:
            found = [(each.body, [each.connection.link]) for each in group_control.held(self._sessions)]
        for notice in found:
            self._notices.put(notice)

    def _is_spoken_for(self, is_alive: Callable[[int], bool]) -> bool:
        """Tell whether a session of an ended process may still receive messages."""
        return any(
            key != ROOT and not one.leaving and not is_alive(key)
            for key, one in self._sessions.controllers().items()
        )

    def broadcast(self, query: broadcast_query.Query, limit: float) -> List[broadcast_query.Row]:
        """Query the attached processes and return a row for each; wait for answers `limit` seconds at most.

        With PAUSE a row is done when the process is stopped, with CONTINUE when it runs.
        """
        with self._lock:
            found = broadcast_query.BroadcastQuery(query, self._sessions, self._sessions.agent.processes())
            # A pause first reports the stops that the rank barrier withholds: the barrier would let those ranks pass.
            actions = self._sessions.barrier.open() if query.verb == broadcast_query.PAUSE else []
            actions += found.begin()
        _send(actions)
        end = time.monotonic() + limit
        with self._lock:
            self._lock.wait_for(lambda: found.is_done, limit)
            actions = found.give_up("no answer within %g s" % limit)
            if query.verb == broadcast_query.PAUSE:
                self._lock.wait_for(lambda: not found.running(), max(0.0, end - time.monotonic()))
                found.mark_running()
        _send(actions)
        return found.rows

    def is_reattaching(self) -> bool:
        """Tell whether the broker is setting the root session up on behalf of its client."""
        root = self._sessions.controller(ROOT)
        return root is not None and root.phase.name == REATTACHING

    def serve(self, client: socket.socket, first: bytes, parser: frames.FrameParser) -> None:
        """Serve one client until its connection ends. Raises OSError."""
        Relay(client, parser, self._sessions, lock=self._lock, log=self._log_refusal).serve(first)

    def _log_refusal(self, text: str) -> None:
        """Log a refused attach, rate-limited to save disk space."""
        with self._lock:
            self._refused += 1
            now = time.monotonic()
            if self._refused > REFUSAL_LOG_BURST and now < self._next_log:
                return
            self._next_log = now + REFUSAL_LOG_INTERVAL_S
            count = self._refused
        self._agent.log(text + (" (%d refused so far)" % count if count > REFUSAL_LOG_BURST else ""))


class Notices:
    """Lines for clients, sent on their own thread: a client that does not read must not block the sender."""

    def __init__(self) -> None:
        self._queue: queue.Queue[Tuple[bytes, List[Link]]] = queue.Queue(MAX_NOTICES)
        self._started = False

    def put(self, notice: Tuple[bytes, List[Link]]) -> None:
        """Queue a line; drop it if the queue is full."""
        self._started = self._started or sockets.begin(self._send, name="dkdbg notes")
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(notice)

    def _send(self) -> None:
        while True:
            body, links = self._queue.get()
            for link in links:
                link.to_client(body)


class Relay:
    """Serves one client until its connection and the one to the adapter have ended.

    Args:
        client: its socket. parser: holds the data that came after the first request.
        sessions: those of the port. lock: guards the sessions and every broker, notified on each change.
        log: takes one line for a refused attach.
    """

    def __init__(
        self,
        client: socket.socket,
        parser: frames.FrameParser,
        sessions: Sessions,
        *,
        lock: threading.Condition,
        log: Callable[[str], None],
    ) -> None:
        self._sessions = sessions
        self._agent = sessions.agent
        self._client = client
        self._parser = parser
        self._lock = lock
        self._log = log
        self._address = _address(client)
        self._broker = Broker(sessions, self._address)
        self._broker.connection.link = self
        self._backend: Optional[socket.socket] = None
        self._answers: Optional[threading.Thread] = None
        self._listens = False
        self._client_lock = threading.Lock()
        self._backend_lock = threading.Lock()
        self._over = False
        self._has_left = False
        self._closed = False

    def serve(self, first: bytes) -> None:
        """Serve until both connections end; `first` is the first request's body. The caller closes the socket."""
        try:
            self._client.settimeout(ATTACH_TIMEOUT_S)
            self._act(self._ask(lambda: self._broker.from_client(first)))
            if not self._over:
                self._read_client()
        except (OSError, frames.FrameError):
            self._break()
        with self._lock:
            self._has_left = True
            self._lock.notify_all()
        joined, answers = None, self._begun()
        while answers is not None and answers is not joined:  # another thread may have replaced it
            answers.join()
            joined, answers = answers, self._begun()
        self._act(self._ask(self._broker.ended))
        if self._closed:
            sockets.drain(self._client, CLOSE_TIMEOUT_S)
        if self._backend is not None:
            self._backend.close()

    def _read_client(self) -> None:
        def receive(max_bytes: int) -> bytes:
            data = self._client.recv(max_bytes)
            sockets.acknowledge(self._client)
            return data

        strange = True
        for body in frames.received(receive, self._parser):
            actions = self._ask(lambda: self._broker.from_client(body))  # noqa: B023
            if strange and self._broker.connection.admitted:
                strange = False
                self._agent.admit(self._client)
                self._parser.allow(frames.MAX_BODY)
                self._client.settimeout(None)
            self._act(actions)
            if self._over:
                return
        self._act(self._ask(self._broker.client_gone))
        if self._backend is not None:
            self._backend.shutdown(socket.SHUT_WR)

    def _read_backend(self, backend: socket.socket) -> None:
        parser = frames.FrameParser(max_body=1 << 30)
        try:
            for body in frames.received(lambda most: self._receive(backend, most), parser):
                self._act(self._ask(lambda: self._broker.from_adapter(body)))  # noqa: B023
        except OSError:  # the client was killed
            pass
        except frames.FrameError:
            self._break()
        self._listens = False
        if not self._over:  # otherwise this end has closed the connection, and `ended` follows
            self._act(self._ask(self._broker.adapter_gone))
        self._say_goodbye()

    def _receive(self, backend: socket.socket, max_bytes: int) -> bytes:
        """Receive from the adapter; end its session on behalf of a client that does not leave.

        The adapter keeps an ended session until the client leaves, and some clients never do.
        """
        if not self._broker.connection.leaving:
            return backend.recv(max_bytes)
        backend.settimeout(LEAVE_TIMEOUT_S)
        try:
            return backend.recv(max_bytes)
        except socket.timeout:
            sockets.shut(backend, socket.SHUT_WR)  # on the client's behalf
        return backend.recv(max_bytes)

    def _say_goodbye(self) -> None:
        """Close the connection to the client, unless its session continues without the adapter."""
        # The client was sent `terminated`: first let the thread that reads its `disconnect` answer and close.
        if self._broker.phase in (EVICTED, CLOSED):
            with self._lock:
                self._lock.wait_for(lambda: self._over or self._has_left, LEAVE_TIMEOUT_S)
        if self._broker.phase not in (OBSERVING, REATTACHING):
            sockets.shut(self._client, socket.SHUT_WR)
            with self._lock:
                self._lock.wait_for(lambda: self._over or self._has_left, LEAVE_TIMEOUT_S)
            sockets.shut(self._client)

    def reconnect(self, seconds: float) -> None:
        """Connect to the adapter again after some seconds, if the broker still wants that then."""
        arguments = (seconds, self._begun())
        if not self._begin(self._reconnect, arguments, "dkdbg again"):
            self._break()

    def later(self, action: connection.Action) -> None:
        """Carry out `Action.later` after its time, without blocking; never, if no thread can be started."""
        with contextlib.suppress(RuntimeError):
            duration.later(action.seconds, lambda: self._act(self._ask(action.later)))

    def _begin(self, target: Callable[..., None], arguments: Tuple[object, ...], name: str) -> bool:
        """Start the thread that `serve` waits for; return False if no thread can be started."""
        thread = threading.Thread(target=target, args=arguments, name=name, daemon=True)
        with self._lock:  # held, because the thread may replace itself by another one
            try:
                thread.start()
            except RuntimeError:
                return False
            self._answers = thread  # `serve` may join it now
        return True

    def _begun(self) -> Optional[threading.Thread]:
        with self._lock:  # see `_begin`
            return self._answers

    def _reconnect(self, seconds: float, former: Optional[threading.Thread]) -> None:
        if former is not None:
            former.join()
        with self._lock:
            self._lock.wait_for(lambda: self._over, seconds)
        actions = self._ask(self._broker.again)
        if not actions or self._over:
            return
        if self._backend is not None:
            self._backend.close()
            self._backend = None
        # Remove an observer's send timeout: as a controller this client blocks no other one.
        self._client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 0))
        self._act(actions)
        if self._backend is None:
            self._say_goodbye()

    def _ask(self, make_actions: Callable[[], List[connection.Action]]) -> List[connection.Action]:
        with self._lock:
            actions = make_actions()
            self._lock.notify_all()
        return actions

    def _act(self, actions: Iterable[connection.Action]) -> None:
        for action in actions:
            relay = action.connection.link
            if action.kind == connection.TO_CLIENT:
                relay.to_client(action.body)
            elif action.kind == connection.TO_ADAPTER:
                relay.to_adapter(action.body)
            elif action.kind == connection.WAIT:
                with self._lock:
                    self._lock.wait_for(self._broker.ready, action.seconds)
                self._act(self._ask(self._broker.resume))
            elif action.kind == connection.CHECK_CODE:
                ending = self._agent.check_code()
                self._act(self._ask(lambda: self._broker.code_checked(ending)))  # noqa: B023
            elif action.kind == connection.DROP_ADAPTER:
                relay.drop_adapter()
            elif action.kind == connection.LEAVE_ADAPTER:
                relay.leave_adapter()
            elif action.kind == connection.RECONNECT:
                relay.reconnect(action.seconds)
            elif action.kind == connection.LATER:
                relay.later(action)
            elif action.kind == connection.READ:
                self._act(action.later())
            else:
                relay.close(action.reason)

    def to_client(self, body: bytes) -> None:
        """Send a message to the client; disconnect it on failure."""
        try:
            with self._client_lock:
                self._client.sendall(frames.wrap(body))
        except OSError:
            self._break()

    def _connect(self) -> Optional[socket.socket]:
        """Return a connection to the adapter, which may be just starting; None after the timeout or without a client."""
        start = time.monotonic()
        is_reported = False
        while (
            time.monotonic() < start + BACKEND_TIMEOUT_S
            and not self._over
            and not self._agent.is_adapter_gone()
        ):
            found = self._agent.dial()
            if found is not None:
                return found
            if not is_reported and time.monotonic() > start + BACKEND_NOTICE_S:
                is_reported = True
                self.to_client(messages.say("waiting for debugpy's adapter, up to %g s" % BACKEND_TIMEOUT_S))
            time.sleep(0.02)
        return None

    def to_adapter(self, body: bytes) -> None:
        """Send a message to the adapter, connecting to it first if necessary."""
        if self._backend is None:
            self._backend = self._connect()
            if self._backend is None:
                reason = "debugpy's adapter did not come up within %g s" % BACKEND_TIMEOUT_S
                if self._agent.is_adapter_gone():
                    reason = "debugpy's adapter died too often: debugging is off for the rest of this run"
                self._act(self._ask(lambda: self._broker.no_adapter(reason)))
                return
            self._listens = True
            if not self._begin(self._read_backend, (self._backend,), "dkdbg answers"):
                self._backend.close()
                self._backend, self._listens = None, False
                self._act(self._ask(lambda: self._broker.no_adapter(NO_THREAD)))
                return
        try:
            with self._backend_lock:
                self._backend.sendall(frames.wrap(body))
        except OSError:
            with contextlib.suppress(OSError):  # the reading thread handles the end
                self._backend.shutdown(socket.SHUT_RDWR)

    def leave_adapter(self) -> None:
        """Make the adapter end the session: it does so at the end of our stream, and then closes its side."""
        backend = self._backend if self._listens else None
        if backend is None:
            self._act(self._ask(self._broker.adapter_gone))
        else:
            sockets.shut(backend, socket.SHUT_WR)

    def drop_adapter(self) -> None:
        """Close the connection to the adapter, and set a timeout on sends to the client.

        An observer that does not read must not block other clients.
        """
        sockets.shut(self._backend)
        limit = struct.pack("ll", int(OBSERVER_TIMEOUT_S), 0)
        self._client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def close(self, reason: str) -> None:
        """Close both connections; messages already sent to the client still arrive."""
        if reason.startswith("refused"):
            self._log("%s: %s" % (self._address, reason))
        self._closed = True
        self._end()
        sockets.shut(self._client, socket.SHUT_WR)
        # The process of a leaving client is free only when the adapter has closed its side.
        sockets.shut(self._backend, socket.SHUT_WR if self._broker.connection.leaving else socket.SHUT_RDWR)

    def _end(self) -> None:
        with self._lock:
            self._over = True
            self._lock.notify_all()

    def _break(self) -> None:
        self._end()
        for sock in (self._client, self._backend):
            sockets.shut(sock)


def _address(client: socket.socket) -> str:
    if client.family == socket.AF_UNIX:  # the agent's own client, see supervisor/own_client.py
        return "this agent"
    return str(client.getpeername()[0])


def _send(actions: Iterable[connection.Action]) -> None:
    """Send messages to adapters and clients outside of a relay's own thread."""
    for action in actions:
        if action.kind == connection.TO_ADAPTER:
            action.connection.link.to_adapter(action.body)
        elif action.kind == connection.TO_CLIENT:
            action.connection.link.to_client(action.body)


class BarrierTimer:
    """Makes the ranks of a running job stop together, on its own thread; see rank_barrier.py.

    Args:
        sessions: those of the port, with the barrier. lock: guards them.
        act: carries out actions, without the lock.
    """

    def __init__(
        self, sessions: Sessions, lock: threading.Condition, act: Callable[[List[Action]], None]
    ) -> None:
        self._sessions = sessions
        self._lock = lock
        self._act = act
        self._thread = False

    def begin(self, ranks: List[contract.Process]) -> None:
        """Withhold the stops of these ranks until they and those of the job's other agents are stopped."""
        pids, actions = [each["pid"] for each in ranks], []
        with self._lock:
            root, barrier = self._sessions.controller(ROOT), self._sessions.barrier
            if root is None or not messages.opens_sessions(root.client_info):
                return  # such a client attaches to ranks one by one, or never
            if root.arguments.get(messages.LEADS_BARRIER) is True:
                actions = barrier.close_for_job(pids, job.share(ranks))
            else:
                barrier.close(pids)
            starts = barrier.is_closed and not self._thread
            self._thread = self._thread or starts
        self._act(actions)
        if starts and not sockets.begin(self._watch, name="dkdbg barrier"):
            with self._lock:
                self._thread, actions = False, barrier.open()
            self._act(actions)

    def without(self, pid: int) -> None:
        """Stop waiting for a rank."""
        with self._lock:
            self._sessions.barrier.left(pid)

    def _watch(self) -> None:
        while True:
            with self._lock:
                actions = self._sessions.barrier.settle()
                if not self._sessions.barrier.is_closed:
                    self._thread = False
                over = not self._thread
            self._act(actions)
            if over:
                return
            time.sleep(BARRIER_INTERVAL_S)
