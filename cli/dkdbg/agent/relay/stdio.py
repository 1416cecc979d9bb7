"""`relay WORD`: hands standard input and output to a keeper, starting one if necessary, and waits until it closes them.

The first line of the input is `ID SECRET` in hexadecimal; on the command line, other users would see it. The first line
of the output is WORD, by which the host recognises it: a login shell may print something before. With `again`, no
keeper is started; if it is gone, the first line of the output is WORD followed by GONE. With `keep`, this process
itself becomes the keeper, because a batch system would end a separate one together with the job's step. With `wait`, it
waits for such a keeper to start.
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

#: First line of the input: ID and SECRET.
_FIRST = re.compile(rb"([0-9a-f]{16}) ([0-9a-f]{%d})\n" % (2 * SECRET))
#: Maximum bytes of the path of a keeper's socket; Linux's limit is 107.
_MAX_SOCKET_PATH_BYTES = 100
#: Timeout in seconds to wait for a keeper that another process starts, and seconds between two attempts to connect.
_START_TIMEOUT_S, _POLL_S = 20.0, 0.05
#: Seconds to keep a program's exit code and last output after its job has ended.
_RESULT_TIMEOUT_S = 2.0


def main(argv: List[str]) -> int:
    """Pass standard input and output to the keeper, wait until it releases them, and return the exit code."""
    if argv[1:] not in ([], ["again"], ["keep"], ["wait"]) or not argv:
        sys.stderr.write("dkdbg: relay WORD [again|keep|wait]\n")
        return 2
    match = _FIRST.fullmatch(_line())
    if match is None:
        sys.stderr.write("dkdbg: the relay's first line is invalid\n")
        return 2
    secret = bytes.fromhex(match[2].decode())
    try:
        folder = runtime_dir.private_folder("dkdbg-relay-%d" % os.getuid())
        path = os.path.join(folder, match[1].decode())
        if len(os.fsencode(path)) > _MAX_SOCKET_PATH_BYTES:
            raise OSError(0, "%s is too long for a socket" % path)
        if argv[1:] == ["keep"]:
            _run_keeper(path, secret)
            return 0
        sock = _awaited(path) if argv[1:] == ["wait"] else _connect(path, secret, may_start=len(argv) == 1)
        if sock is None:
            os.write(1, argv[0].encode() + wire.GONE + b"\n")
            return 0
        os.write(1, argv[0].encode() + b"\n")
        # With the descriptors, the keeper reads and writes the streams directly: this process copies nothing. If this
        # process is killed, the kernel closes the socket, which the keeper notices.
        sock.sendmsg([secret], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1]))])
    except (OSError, runtime_dir.RuntimeDirError) as error:
        sys.stderr.write("dkdbg: cannot start or reach the relay's keeper: %s\n" % error)
        return 1
    with contextlib.suppress(OSError):
        sock.recv(1)  # returns at the end of file, the only thing to arrive
    return 0


def _line() -> bytes:
    """Return the first line of standard input, without reading past it: the rest is for the keeper."""
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
        with contextlib.suppress(FileNotFoundError):  # a killed keeper has left its socket
            os.unlink(path)
        _start(path, secret)  # the keeper must not inherit our socket, or it would not see us exit
        return _connected(path)


def _awaited(path: str) -> socket.socket:
    end = time.monotonic() + _START_TIMEOUT_S
    while True:
        try:
            return _connected(path)
        except OSError:
            if time.monotonic() > end:
                raise OSError(0, "the job's step that runs the keeper has not begun") from None
        time.sleep(_POLL_S)


def _connected(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(path)
    except OSError:
        sock.close()
        raise
    return sock


def _start(path: str, secret: bytes) -> None:
    """Start a keeper that outlives this process and listens already when this function returns."""
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
        _new_keeper(listener, path, secret).run()
    finally:
        os._exit(0)


def _run_keeper(path: str, secret: bytes) -> None:
    """Become the keeper, unless one exists: a batch step is started twice when its first answer was lost."""
    with contextlib.suppress(OSError):
        _connected(path).close()
        return
    keeper = _new_keeper(_listening(path), path, secret)
    # When a job is over, the batch system sends SIGTERM to all its processes, the program's too, and kills them soon.
    signal.signal(signal.SIGTERM, lambda *_: keeper.hurry(_RESULT_TIMEOUT_S))
    keeper.run()


def _listening(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(path)
    except FileNotFoundError:  # the last of other relays' keepers has just ended, and removed the folder
        os.mkdir(os.path.dirname(path), 0o700)  # fails if another user has just created it
        listener.bind(path)
    os.chmod(path, 0o600)
    listener.listen(4)
    return listener


def _new_keeper(listener: socket.socket, path: str, secret: bytes) -> Keeper:
    """Turn this process into the keeper."""
    folder = os.getcwd()
    os.chdir("/")
    # Ctrl-C is not meant for the keeper. An empty handler instead of SIG_IGN, which the program would inherit.
    signal.signal(signal.SIGINT, lambda *_: None)
    nothing = os.open(os.devnull, os.O_RDWR)
    for file in (0, 1, 2):
        os.dup2(nothing, file)
    hold = kept.hold_own()
    return Keeper(listener, path, secret, folder, None if hold is None else hold.release)
