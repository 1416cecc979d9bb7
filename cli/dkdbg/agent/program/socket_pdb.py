"""pdb over a socket, for those without an IDE: `nc HOST PORT` or `dkdbg.agent pdb`.

Loaded by the hook when it is needed. The program's stdin and stdout are left alone. A client that goes away never ends
or hangs the program: it goes on, and a later stop takes a new client.
"""

# ruff: noqa: ANN401

from __future__ import annotations

import errno
import os
import pdb  # noqa: T100
import socket
import sys
import threading

from . import loopback, own_socket, pdb_login, pdb_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any, Callable, Dict, Optional, Set, TextIO, Tuple, Type

    Failure = Tuple[Type[BaseException], BaseException, TracebackType]

#: Listeners by address; they stay open, so that a client waits in the kernel's queue between two stops.
_listeners: Dict[str, own_socket.OwnSocket] = {}
_current: Optional[SocketPdb] = None
#: An ended wait is not repeated, see on_demand.py.
_ran_out = False
#: Listeners that others can reach and that are open to a token which was made here: for one client.
_once: Set[own_socket.OwnSocket] = set()
#: Called when the client has left: somebody waits for this process.
on_release: Optional[Callable[[], None]] = None


class Exposed(Exception):  # noqa: N818 -- read as a sentence: `except Exposed`
    """An address that others can reach, without a token that the user has named; the message says what to do."""


class SocketPdb(pdb.Pdb):
    """A pdb that talks to one client.

    Args:
        connection: the client, who has shown the token.
        source, sink: the same as text.
    """

    def __init__(self, connection: own_socket.OwnSocket, source: TextIO, sink: TextIO) -> None:
        self._connection = connection
        pdb.Pdb.__init__(self, stdin=source, stdout=sink, nosigint=True, readrc=False)
        self.use_rawinput = False
        self.prompt = "(dkdbg) "

    def _cmdloop(self) -> None:
        try:
            super()._cmdloop()
        except (OSError, ValueError):
            self.do_detach("")

    def do_detach(self, arg: str) -> bool:  # noqa: ARG002
        """Go on and close this connection; the next stop takes a new one."""
        global _current  # noqa: PLW0603
        _current = None
        self.clear_all_breaks()  # else the program stays traced for nobody
        self.set_continue()
        try:
            self.message("detached")
            self.stdout.flush()
            self._connection.shutdown(socket.SHUT_RDWR)
        except (OSError, ValueError):
            pass
        self._connection.close()
        if on_release is not None:
            on_release()
        return True

    def has_left(self) -> bool:
        """Return whether the client has closed the connection; noticed also while the program runs."""
        try:
            return not self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def release(self) -> None:
        """Let go of the client without a word to him."""
        if self._connection.is_own():
            os.close(self._connection.detach())

    # `q` must not raise BdbQuit through a training loop.
    do_q = do_quit = do_exit = do_EOF = do_detach  # noqa: N815


def stop(frame: FrameType, address: str, seconds: float, *, again: bool = False) -> bool:
    """Stop in a frame as soon as a client is there; go on when none comes within so many seconds.

    Args:
        address: `host:port`, or the path of a Unix socket.
        seconds: for how long to wait.
        again: wait also when nobody came the last time.

    Returns:
        Whether somebody was there.
    """
    global _ran_out  # noqa: PLW0603
    _ran_out = _ran_out and not again
    what = "breakpoint at %s:%d" % (frame.f_code.co_filename, frame.f_lineno)
    client = _client(address, seconds, what)
    if client is not None:
        client.set_trace(frame)
    return client is not None


def wait_for_client(address: str, seconds: float) -> Optional[SocketPdb]:
    """Return the pdb of the first client, None when nobody came within so many seconds."""
    return _client(address, seconds, "the program's start", says_none=False)


def holder() -> Optional[SocketPdb]:
    """Return the pdb of the client that is connected now."""
    global _current  # noqa: PLW0603
    if _current is not None and _current.has_left():
        _current = None
    return _current


def is_current(client: SocketPdb) -> bool:
    """Return whether this client has not gone."""
    return client is _current


def post_mortem(failure: Failure, address: str, seconds: float) -> None:
    """Let a client look at the frames of an exception; the process is about to end."""
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
    """`launch --pdb`: the session's first Python process, and no other, stops at its first line."""
    try:
        os.close(os.open(directory + "/pdb-first", os.O_CREAT | os.O_EXCL))
    except OSError:
        return
    seconds = float(os.environ.get("DKDBG_BREAKPOINT_WAIT", "0").replace("forever", "inf"))
    wait_at_start(os.environ["DKDBG_PDB"], seconds, os.environ.get("DKDBG_THEN") or "exit")


def wait_at_start(address: str, seconds: float, then: str) -> None:
    """Before the program's first line: wait for a client, then stop at that line; end with 124 when nobody came.

    Args:
        address: `host:port`.
        seconds: for how long; 0 does not wait.
        then: `exit` or `run`, when nobody came.
    """
    if seconds <= 0:
        _say("pdb for breakpoint() is on %s" % _how(listen(address)))
        return
    client = _client(address, seconds, "the program's start", says_none=then != "exit")
    if client is None:
        if then == "exit":
            _say("no pdb client within %g s: the program was not started" % seconds)
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
    """In a forked child: client and listeners are the parent's."""
    global _current  # noqa: PLW0603
    if _current is not None:
        sys.settrace(None)
        _current.release()
    _current = None
    for listener in _listeners.values():
        listener.close()
    _listeners.clear()
    _once.clear()


def _client(address: str, seconds: float, what: str, *, says_none: bool = True) -> Optional[SocketPdb]:
    """Return the connected client, or wait for one.

    Args:
        says_none: say also that nobody came.
    """
    global _current, _ran_out  # noqa: PLW0603
    if holder() is not None:
        return _current
    try:
        listener = listen(address)
    except Exposed as error:
        _say("%s: %s" % (what, error))
        return None
    quiet = listener.family == socket.AF_UNIX  # its client is there already
    if seconds > 0 and not _ran_out and not quiet:
        _say("%s: waiting for pdb on %s" % (what, _how(listener)))
    connection = pdb_login.first(listener, 0.0 if _ran_out else seconds)
    if connection is None:
        if not _ran_out and not quiet and says_none:
            _say("%s: no pdb client within %g s, going on (pdb is on %s)" % (what, seconds, _how(listener)))
        _ran_out = True
        return None
    _ran_out = False
    if listener in _once:
        pdb_token.forget()  # who reads the log later is too late
    # Two streams: a TextIOWrapper for both ways forgets lines that were read ahead when it writes.
    source = connection.makefile("r", encoding="utf-8", errors="replace", newline="\n")
    sink = connection.makefile("w", encoding="utf-8", errors="replace", newline="\n")
    _current = SocketPdb(connection, source, sink)
    return _current


def listen(address: str, *, makes_token: bool = False) -> own_socket.OwnSocket:
    """Return the listener on `host:port` or a Unix socket's path, opened with the first call.

    Args:
        makes_token: others may reach it also where the user has named no token: one is made that opens it once.

    Raises:
        ValueError: DKDBG_TOKEN_FILE is empty.
        Exposed: others could reach it, and the user has named no token.
        OSError: it cannot be listened on, or that file cannot be read.
    """
    found = _listeners.get(address)
    if found is None or not found.is_own():
        named = address.startswith("/") or pdb_token.is_named(os.environ)
        found = own_socket.take(_bound(address, named=named or makes_token))
        if makes_token and not named and not loopback.is_loopback_address(str(found.getsockname()[0])):
            _once.add(found)
        _listeners[address] = found
        found.listen(128)
    return found


def is_once(listener: own_socket.OwnSocket) -> bool:
    """Tell whether the token that is made here is all that keeps others out, and good for one client."""
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
            found.bind((host, 0))  # another process of the program has it: each says where it is
        reached = str(found.getsockname()[0])
        if not named and not loopback.is_loopback_address(reached):
            found.close()
            raise Exposed(
                "no pdb on %s, where others could run code: set DKDBG_TOKEN to a secret, which is then the first line "
                "to type, or listen on 127.0.0.1" % address
            )
    return found


def where(listener: socket.socket) -> str:
    """Return the address of a listener, `host:port` or a path."""
    name = listener.getsockname()
    return str(name) if isinstance(name, str) else "%s:%d" % name[:2]


def _how(listener: socket.socket) -> str:
    """Where pdb is, how to go there with netcat, and what to type first."""
    host, port = listener.getsockname()[:2]
    return "%s (nc %s %d); %s" % (where(listener), host, port, pdb_token.to_type())


def _is_frozen(frame: FrameType) -> bool:
    return (
        frame.f_code.co_filename.startswith("<frozen")
        or threading.current_thread() is not threading.main_thread()
    )


def _say(text: str) -> None:
    try:
        sys.stderr.write("dkdbg: %s\n" % text)
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass
