"""Detects programs that use gevent: pydevd has to know before it is imported itself. Used by join.py.

`gevent.monkey.patch_all()` replaces the primitives that pydevd's threads wait on: pydevd floods stderr with a
message, and the program never ends. With GEVENT_SUPPORT=True pydevd works on copies of these modules. It is
not set for every program of a Python with gevent: pydevd would import gevent, and its copy of `threading`
knows the program's threads, but not their marks.
"""

from __future__ import annotations

# ruff: noqa: ANN401
import contextlib
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, Sequence

_SUPPORT = "GEVENT_SUPPORT"
_MESSAGE = "GEVENT_SUPPORT_NOT_SET_MSG"
_NOTE = "dkdbg: this program uses gevent: set GEVENT_SUPPORT=True in its environment, or it will not end while it is debugged"
#: Maximum bytes of a script to read.
_MAX_SCRIPT_BYTES = 1 << 20


@contextlib.contextmanager
def support(words: Sequence[str]) -> Iterator[None]:
    """Set GEVENT_SUPPORT while pydevd is imported, unless the user has set it; `words` is the command line."""
    wanted: dict[str, str] = {}
    if _SUPPORT not in os.environ:
        wanted[_MESSAGE] = _NOTE
        if "gevent" in sys.modules or _is_named(words):
            with contextlib.suppress(Exception):  # not installed, or broken: the program will see
                import gevent  # type: ignore[import-not-found, import-untyped, unused-ignore] # noqa: F401

                wanted[_SUPPORT] = "True"
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name in wanted:
            os.environ.pop(name, None)


def let_end(threading: Any) -> None:
    """Keep a main thread that ends while pydevd copies `threading` from hanging; call once, with the copy.

    The copy is in sys.modules for a moment. A main thread that ends then would join the copy's threads: pydevd's own,
    and the importing thread, which the copy takes for the main thread. Python 3.13 joins none through the module.
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
    """Set that stays empty, in place of the set with the locks of threads to join."""

    def add(self, _: object) -> None:
        """Ignore a lock."""


def _is_named(words: Sequence[str]) -> bool:
    """Tell whether the command line or the script in it names gevent, or locust, which uses it."""
    if any("gevent" in word or "locust" in word for word in words):
        return True
    for word in words[1:]:
        if word in ("-c", "-m"):
            return False
        if not word.startswith("-"):
            if word.startswith("/dev/") or not os.path.isfile(word):
                return False  # not a regular file: a pipe can be read once, and Python needs it
            try:
                with open(word, "rb") as source:
                    return b"gevent" in source.read(_MAX_SCRIPT_BYTES)
            except OSError:
                return False
    return False
