"""`relay`: carries bytes between its standard input and output and a keeper, which it starts where there is none.

The first line of the input is `ID SECRET`, in hexadecimal: no other user sees it in a list of processes. The first line
of ours is the word that we were called with, as a login shell may have said something before.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
import threading

from dkdbg.agent.record import kept, runtime_dir
from dkdbg.agent.relay.keeper import SECRET, Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, List, Optional

#: ID and SECRET.
_FIRST = re.compile(rb"([0-9a-f]{16}) ([0-9a-f]{%d})\n" % (2 * SECRET))
_CHUNK = 1 << 18
#: A socket's path may have 107 bytes.
_LONGEST = 100


def main(words: List[str]) -> int:
    """Carry until one side ends; the exit code."""
    if len(words) != 1:
        sys.stderr.write("dkdbg: relay WORD\n")
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
        sock = _connect(path, secret)
        sock.sendall(secret)
    except (OSError, runtime_dir.RuntimeDirError) as error:
        sys.stderr.write("dkdbg: the relay has no keeper: %s\n" % error)
        return 1
    os.write(1, words[0].encode() + b"\n")
    threading.Thread(target=_carry, args=(lambda: os.read(0, _CHUNK), sock.sendall), daemon=True).start()
    _carry(lambda: sock.recv(_CHUNK), _print)
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


def _connect(path: str, secret: bytes) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(path)
    except OSError:
        with contextlib.suppress(FileNotFoundError):  # of a keeper that was killed
            os.unlink(path)
        _start(path, secret)
        sock.connect(path)
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
        os.chdir("/")
        nothing = os.open(os.devnull, os.O_RDWR)
        for file in (0, 1, 2):
            os.dup2(nothing, file)
        hold = _hold()
        Keeper(listener, path, secret).run()
        if hold is not None:
            hold.release()
    finally:
        os._exit(0)


def _hold() -> Optional[kept.Hold]:
    """As long as the keeper lives, the file stays that the next transport starts from."""
    with contextlib.suppress(OSError):
        if kept.is_kept(sys.argv[0]):
            return kept.Hold(sys.argv[0])
    return None


def _carry(read: Callable[[], bytes], write: Callable[[bytes], None]) -> None:
    """From one side to the other until one ends; then it all does, whatever the other one waits for."""
    with contextlib.suppress(OSError):
        while True:
            data = read()
            if not data:
                break
            write(data)
    os._exit(0)


def _print(data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(1, left) :]
