"""debugpy's adapter, hardened. Run as a file by `proxy/adapter/backend.py`, and for a worker of Ray by `ray/worker.py`.

It reads one line of JSON from stdin: debugpy's folder, the server token, the port to announce, the socket for
processes, the path of privates.py, and for a worker of Ray the content of `join.json`. It writes one line of
JSON to stdout: that it serves, or which private names this debugpy lacks. It ends when stdin ends, so that a
killed agent leaves no adapter behind. The adapter of a Ray worker ends with the last process.

It listens on no port, because any user of the machine could connect and debug. The agent passes the connections of its
clients and of the root session stub through stdin, a Unix socket. The user's processes connect to a Unix socket in the
session's private folder. The kernel identifies them: a process must belong to the same user and have announced itself.

Other differences from `debugpy/adapter/__main__.py`:

1. A client that closes before it is set up is harmless. In debugpy up to 1.8.22 one bare TCP probe can stop the
   port from accepting clients for good (debugpy #974, #1308).
2. A message that the adapter cannot handle is refused: debugpy treats an exception of a handler as fatal and
   calls os._exit.
3. It stays a child of the agent instead of becoming a daemon, and its token is not on its command line.
4. An editor that closes during an answer does not end the adapter with all its sessions: debugpy treats a broken
   pipe in a handler as fatal and calls os._exit. The adapter does not wait for an editor that closes during
   startDebugging: with debugpy its session stays locked, and no client can attach any more.
5. An editor that reattaches at once gets the processes whose previous session is still ending. debugpy announces
   free processes only at configurationDone, and such a process could never be debugged again.
6. A client that leaves before the root session stub has connected does not end the adapter. debugpy's would end,
   because no process is connected yet.
7. For a client that gave no address, child sessions use the listener's port, not one of this process.
8. While an editor does not read, the adapter stops reading from its process after a few messages: debugpy would
   buffer all the output of a program.
9. It reads messages through a buffer (`buffer_reads`).
"""

# debugpy has no types, and this is where it is imported.
# ruff: noqa: ANN401
# mypy: disable-error-code="no-untyped-call, attr-defined"

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import json
import os
import runpy
import shutil
import signal
import socket
import struct
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional, Set, Tuple


#: Messages of a process to buffer for an editor that does not read.
MAX_WAITING_MESSAGES = 32
#: Signals that Slurm (scancel, --signal) and systemd send to every process of a job. They are for the program.
SIGNALS_OF_JOBS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


class AnnouncedListener:
    """Replacement for debugpy's listening socket: reports the listener's port as its own.

    The adapter puts this address into the attach request of a child session when the client gave none.
    """

    def __init__(self, port: int) -> None:
        self._port = port

    def getsockname(self) -> Tuple[str, int]:
        """Return the loopback address and the listener's port."""
        return ("127.0.0.1", self._port)

    def close(self) -> None:
        """Do nothing."""


class Processes:
    """Socket that the user's processes connect to. Unknown processes are disconnected without an answer.

    Args:
        path: path of the socket, in the folder in which each process announces itself with `PID.json`.
        connect: sets a connection up; returns when the process is known or refused.
        log: debugpy's.

    Raises:
        OSError: the socket cannot be created.
    """

    def __init__(self, path: str, connect: Callable[[socket.socket], object], log: Any) -> None:
        self._present = threading.local()
        self._folder = os.path.dirname(path)
        self._connect = connect
        self._log = log
        with contextlib.suppress(FileNotFoundError):  # a dead adapter has left its socket
            os.unlink(path)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(128)

    def serve(self) -> None:
        """Accept connections forever."""
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                time.sleep(0.05)  # out of file descriptors, or the process has closed at once
                continue
            pid = self._known(sock)
            if pid is None:
                self._log.warning("rejected a connection from a process that is not registered")
                sock.close()
            else:
                self.take(sock, pid)

    def take(self, sock: socket.socket, pid: int = 0) -> None:
        """Connect one process.

        Args:
            pid: as reported by the kernel; 0 for the root session stub, and where the kernel does not tell.
        """
        self._present.pid = pid
        survive(self._connect, sock, self._log)

    def may_be(self, pid: int) -> bool:
        """Tell whether the process that this thread is connecting may report this pid as its own."""
        return getattr(self._present, "pid", 0) in (0, pid)

    def _known(self, sock: socket.socket) -> Optional[int]:
        """Return the pid of an announced process, 0 where the kernel does not tell, None for an unknown process."""
        option = getattr(socket, "SO_PEERCRED", None)
        if option is None:  # macOS: the folder is private
            return 0
        pid, uid, _ = struct.unpack("iII", sock.getsockopt(socket.SOL_SOCKET, option, 12))
        if uid not in (0, os.getuid()) and os.getuid() != 0:
            return None
        # A process of another user announces itself in a folder of its own (USERS_NAME in contract.py), or in this one
        # before it changes its user.
        others = os.path.join(os.path.dirname(self._folder), "u", str(uid), "p")
        known = any(os.path.exists(os.path.join(each, "%d.json" % pid)) for each in (self._folder, others))
        return pid if known else None


def check_claims(servers: Any, processes: Processes) -> None:
    """Refuse a process that claims a pid other than the one the kernel has reported."""

    def get(self: Any) -> Any:
        return self.__dict__.get("pid")

    def claim(self: Any, pid: Any) -> None:
        if pid is not None and not processes.may_be(pid):
            raise ValueError("a process reported an invalid pid: %s" % pid)
        self.__dict__["pid"] = pid

    servers.Connection.pid = property(get, claim)


def survive(connect: Callable[[socket.socket], object], sock: socket.socket, log: Any) -> None:
    """Set a connection up; on failure close it and keep serving."""
    try:
        connect(sock)
    except Exception:
        log.swallow_exception("a connection failed during set-up")
        sock.close()


def outlive_reports(sessions: Any, log: Any) -> None:
    """Tolerate a closed client in `report_sockets`, which debugpy calls while another client connects."""
    report: Callable[[], None] = sessions.report_sockets

    def surviving_report() -> None:
        try:
            report()
        except Exception:
            log.swallow_exception("report_sockets", level="warning")

    sessions.report_sockets = surviving_report


def outlive_clients(messaging: Any, log: Any) -> Set[Any]:
    """Ignore failed writes to a closed client; return the set of threads that are writing to a client now.

    The thread that reads from the client handles the disconnect.
    """
    write: Callable[..., Any] = messaging.JsonIOStream.write_json
    writing: Set[Any] = set()

    def surviving_write(self: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        if not str(self.name).startswith("Client"):
            return write(self, value, *args, **kwargs)
        thread = threading.current_thread()
        writing.add(thread)
        try:
            return write(self, value, *args, **kwargs)
        except messaging.JsonIOError:
            if value.get("type") == "request":  # the caller would wait for an answer, with the session locked
                raise
            log.swallow_exception("a client is gone", level="info")
        finally:
            writing.discard(thread)

    messaging.JsonIOStream.write_json = surviving_write
    return writing


def outlive_announcements(clients: Any, messaging: Any, log: Any) -> None:
    """Tolerate a closed client when a process is announced: the next client gets the announcement."""
    notify: Callable[[Any, Any], None] = clients.Client.notify_of_subprocess

    def surviving_notify(self: Any, connection: Any) -> None:
        try:
            notify(self, connection)
        except messaging.JsonIOError:
            log.swallow_exception("a client is gone", level="info")

    clients.Client.notify_of_subprocess = surviving_notify


class Buffered(io.BufferedReader):
    """Buffered reader that does not close its stream: JsonIOStream has closed that already, as its writer."""

    def close(self) -> None:
        """Do nothing: `io.BufferedReader.close` would wait for the thread that is reading."""


def buffer_reads(messaging: Any) -> None:
    """Read messages through a buffer: debugpy reads each header byte by byte, about 20 system calls a message."""
    begin: Callable[..., None] = messaging.JsonIOStream.__init__

    def begin_buffered(self: Any, reader: Any, *args: Any, **named: Any) -> None:
        begin(self, Buffered(reader), *args, **named)

    messaging.JsonIOStream.__init__ = begin_buffered


def wait_for_readers(messaging: Any, writing: Set[Any]) -> None:
    """Stop reading from a process while its client does not read earlier messages; `writing`: see outlive_clients."""
    parse: Callable[[Any], None] = messaging.JsonMessageChannel._parse_incoming_message

    def parse_in_time(self: Any) -> None:
        while len(self._handler_queue) > MAX_WAITING_MESSAGES and self._handler_thread in writing:
            time.sleep(0.005)
        parse(self)

    messaging.JsonMessageChannel._parse_incoming_message = parse_in_time


def outlive_requests(messaging: Any, log: Any) -> None:
    """Refuse a client's request whose handler fails; debugpy would end the whole adapter."""
    handle: Callable[[Any], None] = messaging.Request._handle

    def surviving_handle(self: Any) -> None:
        try:
            handle(self)
        except Exception as error:
            if not str(self.channel.name).startswith("Client"):
                raise
            log.swallow_exception("a request was refused", level="warning")
            if self.response is None:
                with contextlib.suppress(messaging.NoMoreMessages):
                    self.respond(self.cant_handle("{0} cannot be handled: {1}", self.command, error))

    messaging.Request._handle = surviving_handle


def announce_again(servers: Any, sessions: Any) -> None:
    """Offer a process to the current editor when the session of its previous editor releases it."""
    detach: Callable[[Any], None] = servers.Server.detach_from_session
    wait: Callable[..., Any] = servers.wait_for_connection

    def living(pid: Any) -> Any:
        found = [session for session in list(sessions._sessions) if session.pid == pid]
        found.sort(key=lambda session: (session.is_finalizing, -session.id))
        return found[0] if found else None

    def announce(connection: Any) -> None:
        parent = living(connection.ppid)
        if parent is not None and not parent.is_finalizing and connection in servers.connections():
            parent.client.notify_of_subprocess(connection)  # no effect if that editor knows the process

    def wait_for_connection(*args: Any, **kwargs: Any) -> Any:
        connection = wait(*args, **kwargs)
        end = time.monotonic() + 20
        # Without this wait the answer would be "already being debugged". The agent admits no second client while
        # one is connected, but requests of a client that has just left may be handled before its end is noticed.
        while connection is not None and connection.server is not None and time.monotonic() < end:
            time.sleep(0.005)
        return connection

    def detach_and_announce(self: Any) -> None:
        connection = self.connection
        detach(self)
        threading.Thread(target=announce, args=(connection,), name="dkdbg announce", daemon=True).start()

    sessions.get = living
    servers.wait_for_connection = wait_for_connection
    servers.Server.detach_from_session = detach_and_announce


def end_with_last_child(clients: Any, sessions: Any) -> None:
    """End the root session when the editor leaves the last process.

    VS Code's stop button ends the session in focus, a child's, and does not know that children belong to the root
    (debugpy sends no lifecycleManagedByParent). The root session would stay behind, and the next F5 would do nothing.
    """
    disconnect: Callable[..., Any] = clients.Client.disconnect_request

    def root_of(connection: Any) -> Any:
        """Return the root session that has announced this process; another editor's may exist already."""
        found = [each for each in list(sessions._sessions) if not each.is_finalizing]
        return next((each for each in found if connection in each.client.known_subprocesses), None)

    def disconnect_request(self: Any, request: Any) -> Any:
        session = self.session
        asked = not session.is_finalizing and not request.arguments.get("restart")
        parent = root_of(session.server.connection) if asked and session.server else None
        try:
            return disconnect(self, request)
        finally:
            if parent is not None and parent is not session:
                # A session without a server has not attached: it belongs to a second editor that is about to observe.
                live = [each for each in list(sessions._sessions) if each.server and not each.is_finalizing]
                if not [each for each in live if each not in (session, parent)]:
                    parent.finalize("the editor detached from the last process", False)

    disconnect_request.__dict__.update(disconnect.__dict__)
    clients.Client.disconnect_request = disconnect_request


#: Sockets of the processes that have been notified of a hold since the last attach.
_asked_for_timeouts: Set[str] = set()


def let_join(servers: Any, session: str, info: Dict[str, Any]) -> None:
    """Let processes join, as an agent would, while an editor is attached to the process `info["ppid"]`.

    Args:
        session: the session's folder. info: content of its `join.json`, see JoinInfo in contract.py.
    """
    begin, detach = servers.Server.__init__, servers.Server.detach_from_session
    path, folder = os.path.join(session, "join.json"), os.path.join(session, "p")

    def begin_and_open(self: Any, *args: Any) -> None:
        begin(self, *args)
        if self.connection.pid == info["ppid"]:
            with contextlib.suppress(OSError):
                with open(path + ".tmp", "w") as out:
                    json.dump(info, out)
                os.replace(path + ".tmp", path)
            ask_all(folder, b"join", {"%d.sock" % info["ppid"]})

    def detach_and_close(self: Any) -> None:
        if self.connection.pid == info["ppid"]:
            with contextlib.suppress(OSError):
                os.unlink(path)
            _asked_for_timeouts.clear()
            ask_all(folder, b"timeouts", set())  # without that file, processes restore their timeouts
        detach(self)

    servers.Server.__init__ = begin_and_open
    servers.Server.detach_from_session = detach_and_close


def announce_with_origin(messaging: Any, session: str) -> None:
    """Add a process's own announcement (`PID.json`) to debugpy's, as `dkdbgAnnounced`.

    The client derives the name of the process from it.
    """

    def adding(send: Callable[..., Any]) -> Callable[..., Any]:
        def send_more(self: Any, name: str, body: Any = None, *args: Any, **named: Any) -> Any:
            if name in ("debugpyAttach", "startDebugging"):
                configuration = body.get("configuration", body)
                path = os.path.join(session, "p", "%d.json" % configuration["subProcessId"])
                with contextlib.suppress(OSError, ValueError), open(path) as source:
                    configuration["dkdbgAnnounced"] = json.load(source)
            return send(self, name, body, *args, **named)

        return send_more

    channel = messaging.JsonMessageChannel
    channel.send_event, channel.send_request = adding(channel.send_event), adding(channel.send_request)


def stop_clocks(clients: Any, session: str) -> None:
    """Add the request `dkdbgTogether`, by which a client stops the session's clocks for held_time.LEASE_S seconds.

    An agent stops them while one of its processes is held.

    Args:
        session: the session's folder.
    """
    package: Any = type(sys)("_dkdbg")
    package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
    sys.modules["_dkdbg"] = package
    writer = importlib.import_module("_dkdbg.clocks.held_time").Writer(session)

    def held(_: Any, __: Any) -> Any:
        writer.hold()
        _asked_for_timeouts.update(ask_all(os.path.join(session, "p"), b"timeouts", _asked_for_timeouts))
        return {}

    clients.Client.dkdbgTogether_request = held


def ask_all(folder: str, query: bytes, but: Set[str]) -> Set[str]:
    """Send a query to the processes that have announced themselves in a folder; return their sockets' names.

    Args:
        but: names of sockets to leave out.
    """
    names: Set[str] = set()
    with contextlib.suppress(OSError):  # the machine has cleaned /tmp
        names = {name for name in os.listdir(folder) if name.endswith(".sock")} - but
    for name in names:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.sendto(query, os.path.join(folder, name))
    return names


def serve_agent(
    agent: socket.socket,
    client: Callable[[Any], object],
    processes: Processes,
    log: Any,
    ended: Callable[[], object],
) -> None:
    """Accept the connections that the agent passes; call `ended` when the agent closes its end of the socket.

    A byte comes with each connection: `c` for a client, `p` for the root session stub.
    """
    size, flags = struct.calcsize("i"), getattr(socket, "MSG_CMSG_CLOEXEC", 0)
    while True:
        try:
            kind, rights, _, _ = agent.recvmsg(1, socket.CMSG_SPACE(size), flags)
        except OSError:
            kind, rights = b"", []
        if not kind:
            ended()
            return
        for _, _, data in rights:
            (number,) = struct.unpack("i", data[:size])
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, number)
            if kind == b"c":
                survive(client, sock, log)
            else:
                survive(functools.partial(_begin, processes.take), sock, log)


def _begin(take: Callable[[socket.socket], None], sock: socket.socket) -> None:
    threading.Thread(target=take, args=(sock,), name="dkdbg root stub", daemon=True).start()


def main() -> None:
    """Serve until the root session stub and all processes have disconnected."""
    # Undo the agent's signal mask, which debugpy's threads must not inherit.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in SIGNALS_OF_JOBS:
        signal.signal(number, signal.SIG_IGN)
    options = json.loads(sys.stdin.readline())
    join = options.get("join")
    if join and os.fork():  # not a child of the worker: Ray kills those when it ends, before the editor knows
        os._exit(0)
    sys.path.insert(0, options["debugpy"])
    import debugpy  # noqa: F401, T100
    from debugpy import adapter
    from debugpy.common import log, messaging

    # isort: split
    from debugpy.adapter import clients, servers, sessions

    privates = runpy.run_path(options["privates"])
    missing = privates["missing"](privates["ADAPTER"])
    if missing:
        sys.stdout.write(json.dumps({"missing": missing}) + "\n")
        return
    buffer_reads(messaging)
    outlive_reports(sessions, log)
    wait_for_readers(messaging, outlive_clients(messaging, log))
    outlive_requests(messaging, log)
    outlive_announcements(clients, messaging, log)
    ended = servers.dont_wait_for_first_connection if join else lambda: os._exit(0)
    # Clients that leave before the root session stub has connected do not end this process.
    servers.dont_wait_for_first_connection = lambda: None
    announce_again(servers, sessions)
    if join:
        session = os.path.dirname(os.path.dirname(options["processes"]))
        let_join(servers, session, join)
        stop_clocks(clients, session)
        announce_with_origin(messaging, session)
    else:
        end_with_last_child(clients, sessions)
    log.to_file(prefix="debugpy.adapter")  # only when DEBUGPY_LOG_DIR is set
    servers.access_token = options["token"]
    adapter.access_token = None
    clients.listener = AnnouncedListener(options["announce"])
    servers.listener = AnnouncedListener(0)  # type: ignore[assignment]
    processes = Processes(options["processes"], servers.Connection, log)
    check_claims(servers, processes)
    agent = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, os.dup(0))
    sys.stdout.write(json.dumps({"serves": True}) + "\n")
    sys.stdout.flush()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    arguments = (agent, clients.Client, processes, log, ended)
    threading.Thread(target=serve_agent, args=arguments, name="dkdbg agent", daemon=True).start()
    threading.Thread(target=processes.serve, name="dkdbg processes", daemon=True).start()
    servers.wait_until_disconnected()
    sessions.wait_until_ended()
    if join:
        shutil.rmtree(join["runtime"], ignore_errors=True)


if __name__ == "__main__":
    main()
