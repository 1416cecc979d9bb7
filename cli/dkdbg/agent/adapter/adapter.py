"""debugpy's adapter, hardened: the process that the front talks to on loopback. Run as a file by `backend.py`.

It reads one line of JSON from stdin (debugpy's folder, the server token, the port to announce, the path of
privates.py), writes one line of JSON with its endpoints to stdout, or with what debugpy has not, and ends when stdin ends: an agent that was killed leaves no adapter behind.

What it does differently from `debugpy/adapter/__main__.py`:

1. The accept loop survives a client that is gone before it is set up. In debugpy up to 1.8.22 one bare TCP probe
   can make the port deaf for ever (debugpy #974, #1308).
2. Everything read is acknowledged at once. pydevd sends header and body in two writes; Nagle's algorithm and delayed
   acknowledgements make each answer 40 ms late.
3. It stays a child of the agent instead of becoming a daemon, and its token is not on its command line.
4. An editor that is gone while it is being answered does not end the adapter with all its sessions: debugpy takes
   a broken pipe in a handler for fatal and calls os._exit.
5. An editor that attaches again at once is told of processes whose former session is just ending. debugpy announces
   what is free at configurationDone and never looks again; such a process could not be debugged any more.
6. A client that leaves before the phantom root has come does not end the adapter: debugpy takes it for the last one.
7. A client that named no address is sent back to the front's port for child sessions, not to this process.
"""

# debugpy has no types, and this is where it is imported.
# ruff: noqa: ANN401
# mypy: disable-error-code="no-untyped-call, attr-defined"

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import socket
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Tuple


class QuickAckIO(socket.SocketIO):
    """A raw socket stream that acknowledges what it reads at once. TCP_QUICKACK does not last: set it each time."""

    def readinto(self, buffer: Any) -> Any:
        """Read as SocketIO does, then ask for the acknowledgement."""
        count = super().readinto(buffer)
        with contextlib.suppress(OSError, AttributeError):  # closed meanwhile: there is no socket any more
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return count


class AnnouncedListener:
    """A listening socket that names the front's port when it is asked for its own.

    The adapter puts this address into the attach request of a child session when the client gave none.
    """

    def __init__(self, listener: socket.socket, port: int) -> None:
        self._listener = listener
        self._port = port

    def getsockname(self) -> Tuple[str, int]:
        """Return the loopback address and the front's port."""
        return ("127.0.0.1", self._port)

    def close(self) -> None:
        """Close the real listener."""
        self._listener.close()


def harden(sockets: Any, sessions: Any, log: Any) -> None:
    """Replace the two functions of debugpy that let one bad client end the accept loop."""
    serve: Callable[..., Any] = sockets.serve
    report: Callable[[], None] = sessions.report_sockets

    def surviving_serve(name: str, handler: Callable[[socket.socket], Any], *args: Any, **kwargs: Any) -> Any:
        def surviving_handler(sock: socket.socket) -> None:
            try:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                handler(sock)
            except Exception:
                log.swallow_exception("{0} connection failed during set-up", name)
                sock.close()

        return serve(name, surviving_handler, *args, **kwargs)

    def surviving_report() -> None:
        try:
            report()
        except Exception:
            log.swallow_exception("report_sockets", level="warning")

    sockets.serve = surviving_serve
    sessions.report_sockets = surviving_report


def outlive_clients(messaging: Any, log: Any) -> None:
    """Let a write to a client that is gone pass; the thread that reads from it sees its end in a moment."""
    write: Callable[..., Any] = messaging.JsonIOStream.write_json

    def surviving_write(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return write(self, *args, **kwargs)
        except messaging.JsonIOError:
            if not str(self.name).startswith("Client"):
                raise
            log.swallow_exception("a client is gone", level="info")

    messaging.JsonIOStream.write_json = surviving_write


def wait_for_the_phantom(servers: Any) -> None:
    """Serve until the phantom root has come and gone, whoever came and left before it."""
    servers.dont_wait_for_first_connection = lambda: None


def announce_again(servers: Any, sessions: Any) -> None:
    """Offer a process to the present editor when the session of a former one lets go of it."""
    detach: Callable[[Any], None] = servers.Server.detach_from_session
    wait: Callable[..., Any] = servers.wait_for_connection

    def living(pid: Any) -> Any:
        found = [session for session in list(sessions._sessions) if session.pid == pid]
        found.sort(key=lambda session: (session.is_finalizing, -session.id))
        return found[0] if found else None

    def announce(connection: Any) -> None:
        parent = living(connection.ppid)
        if parent is not None and not parent.is_finalizing and connection in servers.connections():
            parent.client.notify_of_subprocess(connection)  # does nothing when that editor knows it

    def wait_for_connection(*args: Any, **kwargs: Any) -> Any:
        connection = wait(*args, **kwargs)
        end = time.monotonic() + 2
        while time.monotonic() < end:  # else the answer would be "already being debugged"
            server = connection.server if connection is not None else None
            if server is None or not server.session.is_finalizing:
                break
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
    """End the phantom root's session when the editor leaves the last process.

    VS Code's stop button ends the session in focus, a child's, and does not know that children belong to the root
    (debugpy sends no lifecycleManagedByParent): the root's session would stay behind, and the next F5 do nothing.
    """
    disconnect: Callable[..., Any] = clients.Client.disconnect_request

    def disconnect_request(self: Any, request: Any) -> Any:
        session = self.session
        asked = not session.is_finalizing and not request.arguments.get("restart")
        parent = sessions.get(session.server.connection.ppid) if asked and session.server else None
        try:
            return disconnect(self, request)
        finally:
            if parent is not None and parent is not session:
                # One without a server has not attached: a second editor that is about to look on.
                live = [each for each in list(sessions._sessions) if each.server and not each.is_finalizing]
                if not [each for each in live if each not in (session, parent)]:
                    parent.finalize("the editor left the last process", False)

    disconnect_request.__dict__.update(disconnect.__dict__)
    clients.Client.disconnect_request = disconnect_request


def acknowledge_at_once() -> None:
    """Make every unbuffered two-way socket stream, the kind that debugpy uses, a QuickAckIO. Linux only."""
    if not hasattr(socket, "TCP_QUICKACK"):
        return
    makefile = socket.socket.makefile

    def quick_makefile(self: Any, mode: str = "r", buffering: Any = None, **kwargs: Any) -> Any:
        if mode == "rwb" and buffering == 0:
            self._io_refs += 1
            return QuickAckIO(self, "rw")
        return makefile(self, mode, buffering, **kwargs)  # type: ignore[call-overload]

    socket.socket.makefile = quick_makefile  # type: ignore[method-assign]


def end_with_stdin() -> None:
    """Block until stdin ends, then end this process: the agent is gone or wants it so."""
    while os.read(0, 4096):
        pass
    os._exit(0)


def main() -> None:
    """Serve until the phantom root and every other process have disconnected."""
    # The agent blocks signals for itself; threads of debugpy must not inherit that.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    options = json.loads(sys.stdin.readline())
    sys.path.insert(0, options["debugpy"])
    import debugpy  # noqa: F401, T100
    from debugpy import adapter
    from debugpy.common import log, messaging, sockets

    # isort: split
    from debugpy.adapter import clients, servers, sessions

    privates = runpy.run_path(options["privates"])
    missing = privates["missing"](privates["ADAPTER"])
    if missing:
        sys.stdout.write(json.dumps({"missing": missing}) + "\n")
        return
    harden(sockets, sessions, log)
    outlive_clients(messaging, log)
    wait_for_the_phantom(servers)
    announce_again(servers, sessions)
    acknowledge_at_once()
    end_with_last_child(clients, sessions)
    log.to_file(prefix="debugpy.adapter")  # only when DEBUGPY_LOG_DIR is set
    servers.access_token = options["token"]
    adapter.access_token = None
    client_endpoint = clients.serve("127.0.0.1", 0)
    clients.listener = AnnouncedListener(clients.listener, options["announce"])
    server_endpoint = servers.serve("127.0.0.1", 0)
    sys.stdout.write(json.dumps({"client": client_endpoint[1], "server": server_endpoint[1]}) + "\n")
    sys.stdout.flush()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    threading.Thread(target=end_with_stdin, name="dkdbg stdin", daemon=True).start()
    servers.wait_until_disconnected()
    sessions.wait_until_ended()


if __name__ == "__main__":
    main()
