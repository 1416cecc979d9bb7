"""pdb over a socket, for users without an IDE: `nc HOST PORT` or `dkdbg.agent pdb`.

The hook loads it on demand. The program's stdin and stdout are not used. If a client disconnects, the program
continues, and a later stop accepts a new client.
"""

# ruff: noqa: ANN401

from __future__ import annotations

import errno
import os
import pdb  # noqa: T100
import socket
import sys
import threading

from .. import own_socket, session
from . import loopback, pdb_login

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any, Callable, Dict, List, Optional, Set, TextIO, Tuple, Type

    Failure = Tuple[Type[BaseException], BaseException, TracebackType]

#: Listeners by address. They stay open, so that a client that connects between two stops waits in the kernel's queue.
_listeners: Dict[str, own_socket.OwnSocket] = {}
#: Connected clients by listener address, the newest last.
_clients: Dict[str, _Client] = {}
#: Lines with breakpoints by file, for all pdbs: Python shares one table too (bdb.Breakpoint.bplist).
_breaks: Dict[str, List[int]] = {}
#: Address -> lock that is held while a thread opens it or waits for its client; a second thread waits for the lock, and
#: then has the same client.
_opening: Dict[str, threading.RLock] = {}
#: True once a wait has timed out: later stops do not wait, see on_demand.py.
_ran_out = False
#: Listeners that other users can reach and that only a generated token protects; that token admits one client.
_once: Set[own_socket.OwnSocket] = set()
#: Called when the client has left, if an editor waits for this process to join; see join.py.
on_release: Optional[Callable[[], None]] = None


class Exposed(Exception):  # noqa: N818 -- read as a sentence: `except Exposed`
    """Other users could reach this address, and the user has set no token. The message names what to do about it."""


class _Client:
    """A connection that has sent the token, and the `Pdb` objects of the threads that stop for it.

    A Pdb's stepping state is for one thread, so each thread has its own. They take turns at the prompt.
    """

    def __init__(self, address: str, connection: own_socket.OwnSocket) -> None:
        self.address = address
        self.connection = connection
        # Two streams: a TextIOWrapper for both directions would lose input that it has read ahead when it writes.
        self.source: TextIO = connection.makefile("r", encoding="utf-8", errors="replace", newline="\n")
        self.sink: TextIO = connection.makefile("w", encoding="utf-8", errors="replace", newline="\n")
        self.turn = threading.RLock()
        self.spoken = 0  # identifier of the thread that was last at the prompt; 0 before the first
        self._pdbs: Dict[int, SocketPdb] = {}

    def pdb(self) -> SocketPdb:
        """Return the pdb of this thread."""
        found = self._pdbs.get(threading.get_ident())
        if found is None:
            found = self._pdbs[threading.get_ident()] = SocketPdb(self)
        return found

    def is_connected(self) -> bool:
        """Tell whether this client is still connected; remove it if not."""
        if self.has_left() and _clients.get(self.address) is self:
            _clients.pop(self.address, None)
        return _clients.get(self.address) is self

    def has_left(self) -> bool:
        """Tell whether the client has closed the connection, without waiting."""
        try:
            return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True


class SocketPdb(pdb.Pdb):
    """The pdb of one thread; its client may serve other threads as well."""

    def __init__(self, client: _Client) -> None:
        self._client = client
        pdb.Pdb.__init__(self, stdin=client.source, stdout=client.sink, nosigint=True, readrc=False)
        self.breaks = _breaks
        self.use_rawinput = False
        self.prompt = "(dkdbg) "

    def interaction(self, *arguments: Any, **named: Any) -> None:
        """Wait for this thread's turn at the prompt; print its name if another thread was there before."""
        with self._client.turn:
            if not self._client.is_connected():
                self.do_detach("")
                return
            ident = threading.get_ident()
            if self._client.spoken not in (0, ident):
                self.message("[thread %s]" % threading.current_thread().name)
            self._client.spoken = ident
            super().interaction(*arguments, **named)

    def clear_all_breaks(self) -> None:
        """Clear the breakpoints, which all threads share."""
        super().clear_all_breaks()
        _breaks.clear()
        self.breaks = _breaks

    def break_here(self, frame: FrameType) -> bool:
        """Tell whether a breakpoint stops here; another thread may be clearing it right now."""
        try:
            return super().break_here(frame)
        except KeyError:
            return False

    def _cmdloop(self) -> None:
        try:
            super()._cmdloop()
        except (OSError, ValueError):
            self.do_detach("")

    def do_detach(self, arg: str) -> bool:  # noqa: ARG002
        """Continue and close this connection; the next stop accepts a new one."""
        if is_current(self):
            _clients.pop(self._client.address, None)
        self.clear_all_breaks()  # with breakpoints, the program would still be traced
        self.set_continue()
        try:
            self.message("detached")
            self.stdout.flush()
            self._client.connection.shutdown(socket.SHUT_RDWR)
        except (OSError, ValueError):
            pass
        self._client.connection.close()
        if on_release is not None:
            on_release()
        return True

    # `q` detaches, instead of ending the training with a BdbQuit.
    do_q = do_quit = do_exit = do_EOF = do_detach  # noqa: N815

    def do_run(self, arg: str) -> None:  # noqa: ARG002
        """Refuse commands that would raise an exception in the program, or use its own streams."""
        self.error(
            "not possible here: type statements at this prompt; dkdbg restart starts the program again"
        )

    do_restart = do_interact = do_run


def stop(frame: FrameType, address: str, seconds: float, *, again: bool = False, there: bool = False) -> bool:
    """Stop in a frame as soon as a client is connected; return False if none connects within this many seconds.

    Args:
        address: `host:port`, or the path of a Unix socket.
        again: whether to wait even if the last wait timed out.
        there: whether to accept only a client of this address; else a client that is connected to another one serves
            too.
    """
    global _ran_out  # noqa: PLW0603
    _ran_out = _ran_out and not again
    what = "breakpoint at %s:%d" % (frame.f_code.co_filename, frame.f_lineno)
    client = _client(address, seconds, what, there=there)
    if client is not None:
        client.set_trace(frame)
    return client is not None


def wait_for_client(address: str, seconds: float) -> Optional[SocketPdb]:
    """Return the pdb of the first client, None if no client connects within this many seconds."""
    return _client(address, seconds, "the program's start", says_none=False)


def connected() -> Optional[SocketPdb]:
    """Return this thread's pdb for the newest connected client."""
    for client in reversed(list(_clients.values())):
        if client.is_connected():
            return client.pdb()
    return None


def is_current(client: SocketPdb) -> bool:
    """Return whether the client of a pdb is still connected."""
    return _clients.get(client._client.address) is client._client


def post_mortem(failure: Failure, address: str, seconds: float) -> None:
    """Let a client inspect the frames of an exception that is about to end the process."""
    global _ran_out  # noqa: PLW0603
    _ran_out = False
    kind, value, trace = failure
    client = _client(address, seconds, "post-mortem", says_none=False)
    if client is None:
        return
    client.message("%s: %s" % (kind.__name__, value))
    client.reset()
    client.interaction(None, trace)
    client.do_detach("")


def wait_as_asked(directory: str) -> None:
    """For `launch --pdb`: stop at the program's first line, if this is the session's first Python process."""
    try:
        os.close(os.open(directory + "/pdb-first", os.O_CREAT | os.O_EXCL))
    except OSError:
        return
    seconds = float(os.environ.get("DKDBG_BREAKPOINT_WAIT", "0").replace("forever", "inf"))
    wait_at_start(os.environ["DKDBG_PDB"], seconds, os.environ.get("DKDBG_THEN") or "exit")


def wait_at_start(address: str, seconds: float, then: str) -> None:
    """Wait for a client before the program's first line, then stop at that line.

    Args:
        address: `host:port`.
        seconds: timeout; 0 to listen without waiting.
        then: what to do at the timeout: `exit` with code 124, or `run`.
    """
    if seconds <= 0:
        session.say("pdb for breakpoint() is on %s" % _how(listen(address)))
        return
    client = _client(address, seconds, "the program's start", says_none=then != "exit")
    if client is None:
        if then == "exit":
            session.say("no pdb client within %g s: the program was not started" % seconds)
            os._exit(124)
        return

    def first_line(frame: FrameType, event: str, _arg: object) -> Any:
        if event == "call" and frame.f_globals.get("__name__") == "__main__" and not _is_frozen(frame):
            sys.settrace(None)
            client.set_trace(frame)
            return client.trace_dispatch
        return None

    sys.settrace(first_line)


def forget() -> None:
    """Drop clients and listeners in a forked child, without closing the parent's."""
    if _clients:
        sys.settrace(None)
    for client in _clients.values():
        if client.connection.is_own():
            os.close(client.connection.detach())
    _clients.clear()
    _opening.clear()
    pdb_login.renew_lock()
    for listener in _listeners.values():
        listener.close()
    _listeners.clear()
    _once.clear()


def _client(
    address: str, seconds: float, what: str, *, says_none: bool = True, there: bool = False
) -> Optional[SocketPdb]:
    """Return the connected client, or wait for one; None after the timeout, or if `address` may not be listened on.

    Args:
        seconds: the timeout; 0 to check only clients that are already connected.
        what: reason for the stop, for messages.
        says_none: whether to report that no client came in time.
        there: whether to accept only a client of `address`; else a client that is connected to another one serves too.
    """
    with _opening.setdefault(address, threading.RLock()):
        known = _clients.get(address)
        if known is not None and known.is_connected():
            return known.pdb()
        found = None if there else connected()
        return found or _awaited(address, seconds, what, says_none=says_none)


def _awaited(address: str, seconds: float, what: str, *, says_none: bool) -> Optional[SocketPdb]:
    global _ran_out  # noqa: PLW0603
    try:
        listener = listen(address)
    except Exposed as error:
        session.say("%s: %s" % (what, error))
        return None
    quiet = listener.family == socket.AF_UNIX  # `dkdbg.agent pdb` has asked for it, and connects at once
    if seconds > 0 and not _ran_out and not quiet:
        session.say("%s: waiting for pdb on %s" % (what, _how(listener)))
    connection = pdb_login.first(listener, 0.0 if _ran_out else seconds)
    if connection is None:
        if not _ran_out and not quiet and says_none:
            session.say(
                "%s: no pdb client within %g s, going on (pdb is on %s)" % (what, seconds, _how(listener))
            )
        _ran_out = True
        return None
    _ran_out = False
    if listener in _once:
        pdb_login.forget_token()  # it must admit only one client, because others may read it in the log
    client = _clients[address] = _Client(address, connection)
    return client.pdb()


def listen(address: str, *, makes_token: bool = False) -> own_socket.OwnSocket:
    """Return the listener on `host:port` or a Unix socket's path; the first call opens it.

    Args:
        makes_token: whether to listen on an address that others can reach even if the user has set no token: then a
            generated token admits one client.

    Raises:
        ValueError: DKDBG_TOKEN_FILE is empty.
        Exposed: others could reach it, and the user has set no token.
        OSError: the address cannot be listened on, or DKDBG_TOKEN_FILE cannot be read.
    """
    with _opening.setdefault(address, threading.RLock()):
        found = _listeners.get(address)
        if found is None or not found.is_own():
            named = address.startswith("/") or pdb_login.token_is_named(os.environ)
            found = own_socket.take(_bound(address, named=named or makes_token))
            if makes_token and not named and not loopback.is_loopback_address(str(found.getsockname()[0])):
                _once.add(found)
            _listeners[address] = found
            found.listen(128)
        return found


def is_once(listener: own_socket.OwnSocket) -> bool:
    """Tell whether only a generated token protects this listener, for one client."""
    return listener in _once


def _bound(address: str, *, named: bool) -> socket.socket:
    if address.startswith("/"):
        found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if os.path.exists(address):
            os.unlink(address)
        found.bind(address)
    else:
        host, _, port = address.rpartition(":")
        found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        host = host.strip("[]") or "127.0.0.1"
        try:
            found.bind((host, int(port)))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            found.bind((host, 0))  # another process of the program has the port: take a free one
        reached = str(found.getsockname()[0])
        if not named and not loopback.is_loopback_address(reached):
            found.close()
            raise Exposed(
                "pdb does not listen on %s, where others could run code: set DKDBG_TOKEN to a secret, which is then the first line "
                "to type, or listen on 127.0.0.1" % address
            )
    return found


def where(listener: socket.socket) -> str:
    """Return the address of a listener, `host:port` or a path."""
    name = listener.getsockname()
    return str(name) if isinstance(name, str) else "%s:%d" % name[:2]


def _how(listener: socket.socket) -> str:
    """Describe where pdb listens, the netcat command, and the first line to type."""
    host, port = listener.getsockname()[:2]
    return "%s (nc %s %d); %s" % (where(listener), host, port, pdb_login.to_type())


def _is_frozen(frame: FrameType) -> bool:
    return (
        frame.f_code.co_filename.startswith("<frozen")
        or threading.current_thread() is not threading.main_thread()
    )
