"""`relay`: hands its standard input and output to a keeper, which it starts where there is none, and waits for its end.

The first line of the input is `ID SECRET`, in hexadecimal: no other user sees it in a list of processes. The first line
of ours is the word that we were called with, as a login shell may have said something before. With `again` no keeper is
started: where there is none the line ends with GONE.
"""

from __future__ import annotations

import array
import contextlib
import os
import re
import signal
import socket
import sys

from dkdbg.agent.record import kept, runtime_dir
from dkdbg.agent.relay import wire
from dkdbg.agent.relay.keeper import SECRET, Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

#: ID and SECRET.
_FIRST = re.compile(rb"([0-9a-f]{16}) ([0-9a-f]{%d})\n" % (2 * SECRET))
#: A socket's path may have 107 bytes.
_LONGEST = 100


def main(words: List[str]) -> int:
    """Wait until the keeper, which reads and writes our streams itself, lets go of them; the exit code."""
    if words[1:] not in ([], ["again"]) or not words:
        sys.stderr.write("dkdbg: relay WORD [again]\n")
        return 2
    match = _FIRST.fullmatch(_line())
    if match is None:
        sys.stderr.write("dkdbg: the relay's first line is none\n")
        return 2
    secret = bytes.fromhex(match[2].decode())
    try:
        folder = runtime_dir.private_folder("dkdbg-relay-%d" % os.getuid())
        path = os.path.join(folder, match[1].decode())
        if len(os.fsencode(path)) > _LONGEST:
            raise OSError(0, "%s is too long for a socket" % path)
        sock = _connect(path, secret, may_start=len(words) == 1)
        if sock is None:
            os.write(1, words[0].encode() + wire.GONE + b"\n")
            return 0
        os.write(1, words[0].encode() + b"\n")
        # One process fewer that each byte passes. The kernel closes the socket when we are killed, and the keeper sees it.
        sock.sendmsg([secret], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1]))])
    except (OSError, runtime_dir.RuntimeDirError) as error:
        sys.stderr.write("dkdbg: the relay has no keeper: %s\n" % error)
        return 1
    with contextlib.suppress(OSError):
        sock.recv(1)  # nothing ever comes but its end
    return 0


def _line() -> bytes:
    """The first line, and not a byte more."""
    line = b""
    while len(line) < 200 and not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    return line


def _connect(path: str, secret: bytes, *, may_start: bool) -> Optional[socket.socket]:
    try:
        return _connected(path)
    except OSError:
        if not may_start:
            return None
        with contextlib.suppress(FileNotFoundError):  # of a keeper that was killed
            os.unlink(path)
        _start(path, secret)  # which has no socket of ours: it would not see our end
        return _connected(path)


def _connected(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(path)
    except OSError:
        sock.close()
        raise
    return sock


def _start(path: str, secret: bytes) -> None:
    """Have a keeper: a process that does not end with us. It listens before this returns."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    os.chmod(path, 0o600)
    listener.listen(4)
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        listener.close()
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        folder = os.getcwd()
        os.chdir("/")
        # Meant for others of this user; not ignored, which a program that we start would inherit.
        signal.signal(signal.SIGINT, lambda *_: None)
        nothing = os.open(os.devnull, os.O_RDWR)
        for file in (0, 1, 2):
            os.dup2(nothing, file)
        hold = _hold()
        Keeper(listener, path, secret, folder, None if hold is None else hold.release).run()
    finally:
        os._exit(0)


def _hold() -> Optional[kept.Hold]:
    """As long as the keeper lives, the file stays that the next transport starts from."""
    with contextlib.suppress(OSError):
        if kept.is_kept(sys.argv[0]):
            return kept.Hold(sys.argv[0])
    return None
