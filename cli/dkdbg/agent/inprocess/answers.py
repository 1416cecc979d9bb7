"""Answers the agent's queries in a process with the hook: join the adapter, open a pdb, report stacks, and more.

The hook loads this module at the first query, and calls it on its own thread.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time

from . import session
from .pydevd_patches import greenlets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from typing import Optional

    from .hook.sitecustomize import _Member as Member
    from .own_socket import OwnSocket

#: Seconds that a stopped process waits for the client that has asked for pdb to connect.
CLIENT_TIMEOUT_S = 10.0
#: Seconds that the asking process has to read a long answer.
READ_TIMEOUT_S = 5.0
#: Maximum seconds for the hook's former thread to end; see `start_known`.
THREAD_TIMEOUT_S = 1.0


def answer(member: Member, connection: Optional[socket], command: bytes) -> bool:
    """Answer one query, and close the connection that it came with, if any.

    Returns:
        Whether this thread has to end and leave the query to a new one (`start_known`). Before the join, the hook's
        thread is unknown to `threading`, so that a program that counts its threads does not see it. After the join,
        pydevd would make `threading` create a dummy `Thread` for it, about which Python 3.13 complains at exit.
    """
    _follow_user(member)
    if command == b"join" and not member.joined and not _is_known() and not greenlets.why_not():
        # A thread that is started through gevent's `threading` would never run. Load debugpy, which has an unpatched
        # copy of `threading`, before the new thread is started.
        if "gevent" in sys.modules:
            from . import join

            join.load(member.directory, member.main_ident)
        return True
    from . import own_socket

    channel = None if connection is None else own_socket.take(connection)
    if command == b"stacks" and channel is not None:
        _tell_stacks(member, channel)
        return False
    text = _text(member, command)
    if channel is not None:
        with contextlib.suppress(OSError), channel:  # the asking process is gone
            channel.sendall(text.encode("utf-8", "replace") + b"\n")
    return False


def _follow_user(member: Member) -> None:
    """If this process has changed its user, and so cannot reach its folder any more, announce it in the new user's."""
    if not os.path.exists(member.base + ".json"):
        with contextlib.suppress(KeyError, ValueError, OSError):  # the session has no folder for this user
            member.follow_user()
            member.register(lift)


def lift(sock: socket) -> socket:
    """Move a socket to a high descriptor, safe from races with the program's threads."""
    from . import own_socket

    return own_socket.lift(sock)


def start_known(member: Member, waiting: Optional[socket]) -> None:
    """Start the hook's thread as one that `threading` knows, marked so that pydevd ignores it."""
    former, done = member.thread_id, member.done

    def serve() -> None:
        if waiting is not None:
            _until_gone(former)  # otherwise pydevd would see that thread, which has no `Thread`
        member.serve(done, waiting)

    session.start_hidden(serve, "dkdbg hook")


def _until_gone(thread_id: int) -> None:
    end = session.monotonic() + THREAD_TIMEOUT_S
    while os.path.exists("/proc/self/task/%d" % thread_id) and session.monotonic() < end:
        getattr(sys.modules.get("pydevd"), "time", time).sleep(0.0005)


def _is_known() -> bool:
    module = session.threads()
    return module.get_ident() in module._active


def _text(member: Member, command: bytes) -> str:
    if command == b"join":
        return str(member.join(False))
    if command == b"timeouts":
        from .clocks import clocks, running_clocks, slow_clocks, timeouts

        clocks.follow(member.directory)
        running = running_clocks.found() if slow_clocks.behind() > 0.0 else []
        return "\t".join([timeouts.follow(member.directory), *running])
    if command == b"failing":
        from . import crash_watch

        crash_watch.arm(member)
        return "watching"
    if command == b"changed":
        from . import loaded

        return loaded.changed(member.base + ".json")
    if command.startswith((b"line ", b"ran ")):
        import json

        from . import line

        word, number, path = command.split(b" ", 2)
        description = line.describe(os.fsdecode(path), int(number), is_asked=word == b"line")
        return json.dumps(dict(description, free=member.free))
    if command.startswith(b"child ") and command[6:].isdigit():
        from . import parent_lookup

        return parent_lookup.answer(member, int(command[6:]))
    if command == b"who":
        from . import parent_lookup

        return parent_lookup.tell_again(member)
    return _interrupt(member) if command == b"pdb" else ""


def _tell_stacks(member: Member, channel: OwnSocket) -> None:
    """Answer with this process's stacks and, on a second line, its latest collectives."""
    from . import collectives, stacks

    channel.settimeout(READ_TIMEOUT_S)

    def tell(text: str) -> None:
        with contextlib.suppress(OSError):  # the asking process is gone
            channel.sendall(text.encode("utf-8", "replace") + b"\n")

    tell(stacks.dump())
    collectives.follow(member, tell, channel.close)


def _interrupt(member: Member) -> str:
    """Listen on a Unix socket for pdb and stop the main thread at its next line; return the answer."""
    debugger = session.debugger()
    if debugger is not None and debugger.is_attached():
        return "an editor is attached to this process: use its debug console, or detach it first"
    from .pdb import socket_pdb

    if socket_pdb.connected() is not None:
        return "another pdb is connected to this process: leave it first (q)"
    path: str = os.path.realpath(member.directory + "/p") + "/%d.pdb" % os.getpid()
    socket_pdb.listen(path)

    def enter() -> None:
        try:  # two frames above this one is the program's code
            socket_pdb.stop(sys._getframe(2), path, CLIENT_TIMEOUT_S, again=True)
        except Exception as error:
            member.say("pdb: %r" % (error,))

    session.in_main_thread(enter)
    return "pdb " + path
