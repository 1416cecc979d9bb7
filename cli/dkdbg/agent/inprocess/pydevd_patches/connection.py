"""Protects pydevd's connection to the adapter in a program that closes descriptors that it has not opened.

With pydevd alone, such a program would hang at its next stop: pydevd's messages would go to a closed descriptor, or
into a file of the program, while the editor's would still arrive.
"""

# debugpy is untyped.
# ruff: noqa: ANN401

from __future__ import annotations

import _socket
import contextlib
import os

from .. import own_socket, session
from ..natives import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Maximum number of times that a process joins again after it has closed its connection.
MAX_REJOINS = 3
#: Timeout in seconds to connect to the adapter: it may be starting, or the machine may be busy.
CONNECT_TIMEOUT_S = 60.0
#: Seconds to retry while the queue of the adapter's socket is full, and seconds between two tries; not long, because
#: signals are blocked meanwhile.
RETRY_TIMEOUT_S, RETRY_INTERVAL_S = 5.0, 0.02
#: Seconds for pydevd's threads to end.
END_TIMEOUT_S = 30.0

_losses = 0


def watch() -> None:
    """Make pydevd use high descriptors for its connections, detect their loss, and connect to Unix sockets.

    A host that is a path is a Unix socket, that of the agent's adapter. A debugger that connects to one gets the
    attribute `dkdbg_joined`.
    """
    import pydevd

    debugger_class = pydevd.PyDB
    initialize = debugger_class.initialize_network

    def initialize_network(self: Any, sock: Any, *args: Any, **kwargs: Any) -> Any:
        own = own_socket.take(sock)
        own.notice_loss()
        own.on_loss = lambda: _lost(self)
        if self._client_socket is sock:
            self._client_socket = own
        return initialize(self, own, *args, **kwargs)

    debugger_class.initialize_network = initialize_network
    connect = debugger_class.connect

    def connect_to_adapter(self: Any, host: Any, port: Any) -> Any:
        if not str(host).startswith("/"):
            return connect(self, host, port)
        sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)  # gevent does not patch this one
        self._client_socket = sock
        sock.settimeout(CONNECT_TIMEOUT_S)
        end = session.monotonic() + RETRY_TIMEOUT_S
        while True:
            try:
                sock.connect(host)
                break
            except BlockingIOError:  # Linux does not wait if the queue of a Unix socket is full
                if session.monotonic() > end:
                    raise
                time.sleep(RETRY_INTERVAL_S)
        sock.settimeout(None)
        self.dkdbg_joined = True
        return self.initialize_network(sock)

    debugger_class.connect = connect_to_adapter
    _let_end(pydevd.CheckAliveThread)


def _let_end(alive_class: Any) -> None:
    """Keep pydevd's CheckAliveThread from running after its debugger has ended.

    When a debugger ends, pydevd ends those of its threads that have begun to run. A CheckAliveThread that begins a
    moment later would wait forever for the writer's queue to become empty, although the writer has ended, and so the
    program would never end.
    """
    run = alive_class._on_run

    def on_run(self: Any) -> None:
        debugger = self.py_db
        if debugger is not None and not debugger.pydb_disposed:
            run(self)

    alive_class._on_run = on_run


def drop(debugger: Any) -> None:
    """Close a forked child's copy of the connection, which would keep it open for the adapter when the parent ends."""
    sock = debugger._client_socket
    if isinstance(sock, own_socket.OwnSocket):
        sock.on_loss = None
        sock.close()


def _lost(debugger: Any) -> None:
    """Report the loss of the connection, and join again once pydevd's threads have ended."""
    global _losses  # noqa: PLW0603
    _losses += 1
    again = _losses <= MAX_REJOINS
    session.say(
        "pid %d closed the debugger's connection together with its other descriptors%s"
        % (
            os.getpid(),
            "; no breakpoint stops until it has joined again"
            if again
            else ", %d times: it is no longer debugged" % _losses,
        )
    )
    session.start_hidden(lambda: _reconnect(debugger, again), "dkdbg rejoin")


def _reconnect(debugger: Any, again: bool) -> None:
    debugger.dispose_and_kill_all_pydevd_threads()
    end = session.monotonic() + END_TIMEOUT_S
    reader = debugger.reader  # while the reader waits on the connection, the adapter considers it open
    while reader is not None and reader.is_alive() and session.monotonic() < end:
        time.sleep(0.02)
    member = session.member()
    if member is not None and again:
        with contextlib.suppress(OSError):  # the session has ended
            member.announce()
