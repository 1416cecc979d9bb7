"""Whether the program uses gevent: pydevd has to know before it is imported itself. Used by join.py.

`gevent.monkey.patch_all()` takes away what pydevd's threads wait on: it floods stderr with a message, and the program
never ends. With GEVENT_SUPPORT=True pydevd works on copies of these modules. Not for every program in a Python that
has gevent: it would be imported, and pydevd's copy of `threading` knows the threads of the program, but not their marks.
"""

from __future__ import annotations

# ruff: noqa: ANN401
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Sequence

_SUPPORT = "GEVENT_SUPPORT"
_MESSAGE = "GEVENT_SUPPORT_NOT_SET_MSG"
_NOTE = "dkdbg: this program uses gevent: set GEVENT_SUPPORT=True in its environment, or it will not end while it is debugged"
#: Of a script this much is read.
_LENGTH = 1 << 20


class Told:
    """Tells pydevd, through the environment, while it is imported.

    Args:
        words: of the command line of this process.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._wanted = {_MESSAGE: _NOTE}
        if "gevent" in sys.modules or _is_named(words):
            self._wanted[_SUPPORT] = "True"

    def __enter__(self) -> None:
        if _SUPPORT in os.environ:  # it is the user's word
            self._wanted.clear()
        elif _SUPPORT in self._wanted:
            try:
                import gevent  # type: ignore[import-not-found, import-untyped, unused-ignore] # noqa: F401
            except Exception:  # not installed, or broken: the program will see
                del self._wanted[_SUPPORT]
        os.environ.update(self._wanted)

    def __exit__(self, *_: object) -> None:
        for name in self._wanted:
            os.environ.pop(name, None)


def let_end(threading: Any) -> None:
    """Let a main thread that ends while pydevd makes its copy of `threading` go on; once, after that.

    The copy stands in sys.modules for a moment. A main thread that ends then joins the threads of the copy: its main
    thread, which is the thread that imports pydevd and lives on, and pydevd's own. Python 3.13 joins none by the module.

    Args:
        threading: pydevd's.
    """
    main, locks = threading._main_thread, getattr(threading, "_shutdown_locks", None)
    if threading is sys.modules.get("threading") or not isinstance(locks, set):
        return
    threading._shutdown_locks = _Unjoined()
    lock, main._tstate_lock = main._tstate_lock, threading._allocate_lock()
    main._tstate_lock.acquire()
    if lock is not None and lock.locked():
        lock.release()


class _Unjoined(set):  # type: ignore[type-arg]
    """Takes no lock of a thread that is to be joined."""

    def add(self, _: object) -> None:
        """Leave it out."""


def _is_named(words: Sequence[str]) -> bool:
    """Tell whether the command line or the script in it names gevent, or locust, which is made of it."""
    if any("gevent" in word or "locust" in word for word in words):
        return True
    for word in words[1:]:
        if word in ("-c", "-m"):
            return False
        if not word.startswith("-"):
            if word.startswith("/dev/") or not os.path.isfile(word):
                return False  # a pipe is read once, and that is Python's
            try:
                with open(word, "rb") as source:
                    return b"gevent" in source.read(_LENGTH)
            except OSError:
                return False
    return False
