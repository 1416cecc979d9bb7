"""Makes `faulthandler` write the Python stack of a process that dies of a fatal signal into a file of the session.

It is enabled when the process joins, not in a program without an editor, nor in one that handles one of the signals or
has enabled `faulthandler` itself. `agent/state/deaths.py` reads the file (issue 33).
"""

from __future__ import annotations

import contextlib
import os
import signal
import weakref

from . import own_socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Optional

#: Suffix of the file's name, after the pid, in the folder where the process announces itself.
SUFFIX = ".fault"
_SIGNALS = (signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV)
_file: Optional[int] = None


class _Target:
    """File object to which only `faulthandler` refers, so that it is freed if the program enables or disables that."""

    def __init__(self, number: int) -> None:
        self._number = number

    def fileno(self) -> int:
        return self._number

    def flush(self) -> None:
        pass


#: Weak reference to the target, alive while `faulthandler` writes into it.
_target: Callable[[], Optional[_Target]] = lambda: None


def enable(path: str) -> None:
    """Make `faulthandler` write into the file `path`, once per process.

    `faulthandler` writes to a descriptor's number, even if the program has closed it and opened a file of its own
    there. So use a high number, which a program does not get by opening files; if `ulimit -n` forbids that, do nothing.
    """
    global _file, _target  # noqa: PLW0603
    if _file is not None or _is_handled():
        return
    import faulthandler

    if faulthandler.is_enabled():
        return
    try:
        low = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return
    _file = own_socket.lifted(low)
    os.close(low)
    if _file is not None:
        target = _Target(_file)
        _target = weakref.ref(target)
        faulthandler.enable(target, all_threads=False)


def forget() -> None:
    """In a forked child, stop writing into the parent's file, unless the program has enabled `faulthandler` itself."""
    global _file  # noqa: PLW0603
    if _file is None:
        return
    import faulthandler

    if _target() is not None:
        faulthandler.disable()
    with contextlib.suppress(OSError):
        os.close(_file)
    _file = None


def _is_handled() -> bool:
    """Tell whether the process handles or ignores one of the signals; True if unknown."""
    masks = {"SigCgt", "SigIgn"}
    taken = 0
    try:
        with open("/proc/self/status") as source:
            for line in source:
                name, _, value = line.partition(":")
                if name in masks:
                    masks.discard(name)
                    taken |= int(value, 16)
    except (OSError, ValueError):
        return True
    return bool(masks) or any(taken >> (number - 1) & 1 for number in _SIGNALS)
