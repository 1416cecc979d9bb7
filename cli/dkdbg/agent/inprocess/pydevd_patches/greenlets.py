"""Detects programs that use gevent or eventlet. Used by join.py; pydevd reads GEVENT_SUPPORT when it is imported.

`gevent.monkey.patch_all()` replaces the primitives that pydevd's threads wait on: pydevd would flood stderr with a
message, and the program would never end. With GEVENT_SUPPORT=True, pydevd uses its own copies of `threading` and other
modules. dkdbg sets that only for programs that probably patch, not for every program of a Python with gevent: pydevd
would import gevent, and its copy of `threading` would not have its marks on the program's threads, so that no
breakpoint would stop in them.

`eventlet.monkey_patch()` does the same, and also replaces the locks that pydevd already has: program and debugger would
wait for each other forever. The debugger leaves a process before this patch, and does not join after it.
"""

from __future__ import annotations

# ruff: noqa: ANN401
import contextlib
import os
import re
import sys

from .. import importing, session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, Sequence

_SUPPORT = "GEVENT_SUPPORT"
_MESSAGE = "GEVENT_SUPPORT_NOT_SET_MSG"
_TEXT = "dkdbg: this program uses gevent: set GEVENT_SUPPORT=True in its environment, or it will not end while it is debugged"
#: An import of gevent at module level, or gevent's monkey anywhere. The mere word, or an import within a function, does
#: not match: a wrong match costs the breakpoints in threads. A miss would keep the program from ending.
_IMPORT = re.compile(
    rb"^(?:from[ \t]+|import[ \t](?:[^\n#]*,)?[ \t]*)gevent\b|\bgevent\b[^\n]{0,200}\bmonkey\b", re.MULTILINE
)
#: Maximum bytes of a script to read.
_MAX_SCRIPT_BYTES = 1 << 20
_EVENTLET = (
    "eventlet.monkey_patch() replaces the threads and locks that a debugger needs; call eventlet.monkey_patch(thread=False) "
    "to keep them"
)


def why_not() -> str:
    """Return why the debugger cannot join this process; empty if it can."""
    patched = session.namespace(sys.modules.get("eventlet.patcher")).get("already_patched")
    return _EVENTLET if isinstance(patched, dict) and patched.get("thread") else ""


def watch() -> None:
    """Make the debugger leave this process before eventlet replaces the threads and locks."""
    importing.after("eventlet.patcher", _watch_patch)


def _watch_patch(patcher: Any) -> None:
    true = patcher.monkey_patch

    def monkey_patch(**on: Any) -> Any:
        if on.get("thread", on.get("all", True not in on.values())):
            with contextlib.suppress(Exception):
                _leave()
        return true(**on)

    patcher.monkey_patch = monkey_patch
    package = sys.modules["eventlet"]
    if hasattr(package, "monkey_patch"):
        package.monkey_patch = monkey_patch  # type: ignore[attr-defined]


def _leave() -> None:
    debugger, member = session.debugger(), session.member()
    if debugger is None or not session.is_joined():
        return
    session.tell(debugger, "the debugger leaves pid %d: %s" % (os.getpid(), _EVENTLET))
    debugger.dispose_and_kill_all_pydevd_threads()
    if member is not None:  # end the hook's thread, and start it as one that `threading` does not know
        forking = member.module("forking")
        forking.before(member)
        member.joined = False
        forking.in_parent(member)


@contextlib.contextmanager
def support(argv: Sequence[str]) -> Iterator[None]:
    """Set GEVENT_SUPPORT while pydevd is imported, unless the user has set it; `argv` is the command line."""
    wanted: dict[str, str] = {}
    if _SUPPORT not in os.environ:
        wanted[_MESSAGE] = _TEXT
        if getattr(sys.modules.get("gevent.monkey"), "saved", None) or _is_named(argv):
            with contextlib.suppress(Exception):  # missing or broken: the program's own import reports it
                import gevent  # type: ignore[import-not-found, import-untyped, unused-ignore] # noqa: F401

                wanted[_SUPPORT] = "True"
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name in wanted:
            os.environ.pop(name, None)


def let_end(threading: Any) -> None:
    """Keep the main thread from hanging if it ends while pydevd copies `threading`; call once, with the copy.

    The copy is `sys.modules["threading"]` for a moment. If the main thread ends then, it would join the threads of the
    copy: pydevd's own, and the importing thread, which the copy takes for the main thread. Python 3.13 does not join
    threads through this module.
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
    """Set that stays empty, in place of `threading._shutdown_locks`, which has the locks of the threads to join."""

    def add(self, _: object) -> None:
        """Ignore a lock."""


def _is_named(argv: Sequence[str]) -> bool:
    """Tell whether the command line names gevent, or locust (which uses it), or a script that imports gevent."""
    if any("gevent" in word or "locust" in word for word in argv):
        return True
    for word in argv[1:]:
        if word in ("-c", "-m"):
            return False
        if not word.startswith("-"):
            if word.startswith("/dev/") or not os.path.isfile(word):
                return False  # not a regular file: a pipe can be read only once, and that by Python itself
            try:
                with open(word, "rb") as source:
                    return _IMPORT.search(source.read(_MAX_SCRIPT_BYTES)) is not None
            except OSError:
                return False
    return False
