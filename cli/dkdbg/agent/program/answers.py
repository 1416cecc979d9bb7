"""What a hooked process does when the agent asks: join the adapter, or open a pdb.

Loaded by the hook, by path, with the first question; it runs in the hook's thread.
"""

# ruff: noqa: ANN401

from __future__ import annotations

import contextlib
import os
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

#: C callbacks that must not be collected.
_kept: List[object] = []


def answer(member: Any, connection: Any, command: bytes) -> bool:
    """Answer one question and close its connection.

    Returns:
        Whether a new thread has taken the question, and this one has to end: until a process has joined, its thread
        is a bare one, which a program that counts its threads does not see. From then on pydevd sees every thread,
        and for a bare one it would make `threading` invent a dummy, about which Python 3.13 complains when the
        program ends.
    """
    if command == b"join" and not member.joined and not _is_known():
        return True
    try:
        with contextlib.suppress(OSError):  # who asked has gone
            connection.sendall(_text(member, command).encode("utf-8", "replace") + b"\n")
    finally:
        connection.close()
    return False


def start_known(member: Any, waiting: Any) -> None:
    """Start the hook's thread as one that `threading` knows, marked to be left alone by pydevd."""
    arguments = (member.listener, member.done, waiting)
    thread: Any = threading.Thread(target=member.serve, args=arguments, name="dkdbg hook", daemon=True)
    thread.pydev_do_not_trace = True
    thread.is_pydev_daemon_thread = True
    thread.start()


def _is_known() -> bool:
    return threading.get_ident() in threading._active  # type: ignore[attr-defined]


def _text(member: Any, command: bytes) -> str:
    if command == b"join":
        return str(member.join(False))
    return _interrupt(member) if command == b"pdb" else ""


def _interrupt(member: Any) -> str:
    """Open a Unix socket and make the main thread stop for its client at its next line; return what to answer."""
    if _editor_is_here():
        return "an editor is attached to this process: use its debug console, or detach it first"
    import ctypes

    socket_pdb = member.load("socket_pdb")
    if socket_pdb.holder() is not None:
        return "another pdb is connected to this process: leave it first (q)"
    path: str = os.path.realpath(member.directory + "/p") + "/%d.pdb" % os.getpid()
    socket_pdb.listen(path)

    def enter(_: object) -> int:
        try:
            socket_pdb.stop(sys._getframe(1), path, socket_pdb.TOKEN_LIMIT, again=True)
        except Exception as error:
            member.say("pdb: %r" % (error,))
        return 0

    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(enter)
    _kept.append(callback)
    ctypes.pythonapi.Py_AddPendingCall(callback, None)
    return "pdb " + path


def _editor_is_here() -> bool:
    pydevd = sys.modules.get("pydevd")
    debugger = pydevd.get_global_debugger() if pydevd is not None else None
    return debugger is not None and bool(debugger.is_attached())
