"""`relay`: hands its standard input and output to a keeper, which it starts where there is none, and waits for its end.

The first line of the input is `ID SECRET`, in hexadecimal: no other user sees it in a list of processes. The first line
of ours is the word that we were called with, as a login shell may have said something before. With `again` no keeper is
started: where there is none the line ends with GONE. With `keep` this process is the keeper, as a step of a batch job's
has to be, whose processes end with it; with `wait` that one is waited for.
"""

from __future__ import annotations

import array
import contextlib
import os
import re
import signal
import socket
import sys
import time

from dkdbg.agent.relay import wire
from dkdbg.agent.relay.keeper import SECRET, Keeper
from dkdbg.agent.state import kept, runtime_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

#: ID and SECRET.
_FIRST = re.compile(rb"([0-9a-f]{16}) ([0-9a-f]{%d})\n" % (2 * SECRET))
#: A socket's path may have 107 bytes.
_LONGEST = 100
#: Seconds for a keeper that is being started elsewhere, and between two looks.
_WAIT, _LOOK = 20.0, 0.05
#: Seconds that the end of a program is kept when its job has ended.
_LAST_WORDS = 2.0


def main(words: List[str]) -> int:
    """Wait until the keeper, which reads and writes our streams itself, lets go of them; the exit code."""
    if words[1:] not in ([], ["again"], ["keep"], ["wait"]) or not words:
        sys.stderr.write("dkdbg: relay WORD [again|keep|wait]\n")
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
        if words[1:] == ["keep"]:
            _keep(path, secret)
            return 0
        sock = _awaited(path) if words[1:] == ["wait"] else _connect(path, secret, may_start=len(words) == 1)
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


def _awaited(path: str) -> socket.socket:
    end = time.monotonic() + _WAIT
    while True:
        try:
            return _connected(path)
        except OSError:
            if time.monotonic() > end:
                raise OSError(0, "the step of the job that it should be has not begun") from None
        time.sleep(_LOOK)


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
    listener = _listening(path)
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        listener.close()
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        _keeper(listener, path, secret).run()
    finally:
        os._exit(0)


def _keep(path: str, secret: bytes) -> None:
    """Be the keeper, unless there is one: the step was asked for twice, where the first answer was lost."""
    with contextlib.suppress(OSError):
        _connected(path).close()
        return
    keeper = _keeper(_listening(path), path, secret)
    # The job is over: the batch system tells all of its processes so, the program too, and kills them soon.
    signal.signal(signal.SIGTERM, lambda *_: keeper.hurry(_LAST_WORDS))
    keeper.run()


def _listening(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    os.chmod(path, 0o600)
    listener.listen(4)
    return listener


def _keeper(listener: socket.socket, path: str, secret: bytes) -> Keeper:
    """This process is it from now on."""
    folder = os.getcwd()
    os.chdir("/")
    # Meant for others of this user; not ignored, which a program that we start would inherit.
    signal.signal(signal.SIGINT, lambda *_: None)
    nothing = os.open(os.devnull, os.O_RDWR)
    for file in (0, 1, 2):
        os.dup2(nothing, file)
    hold = _hold()
    return Keeper(listener, path, secret, folder, None if hold is None else hold.release)


def _hold() -> Optional[kept.Hold]:
    """As long as the keeper lives, the file stays that the next transport starts from."""
    with contextlib.suppress(OSError):
        if kept.is_kept(sys.argv[0]):
            return kept.Hold(sys.argv[0])
    return None
