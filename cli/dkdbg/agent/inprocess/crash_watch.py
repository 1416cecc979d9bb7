"""Passes uncaught exceptions to crash.py, after the program's own hooks.

Loaded by the hook at the start of a process that runs with DKDBG_ON_CRASH; it imports nothing that such a
process would not have imported anyway.
"""

# ruff: noqa: ANN401

from __future__ import annotations

import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    from .hook.sitecustomize import _Member as Member

_held: Optional[BaseException] = None
_armed = False
_worker_armed = False


def arm(member: Member) -> None:
    """Watch the exceptions of the main thread and of `threading`'s threads; once per process."""
    global _armed  # noqa: PLW0603
    if _armed:
        return
    _armed = True

    def excepthook(kind: Any, value: Any, trace: Any) -> None:
        former(kind, value, trace)
        _hold(member, (kind, value, trace))

    def thread_excepthook(details: Any) -> None:
        former_of_threads(details)
        _hold(member, (details.exc_type, details.exc_value, details.exc_traceback))

    def at_end() -> None:
        # A program that sets its own excepthook (rich, absl) bypasses this one; Python has recorded the exception.
        value = getattr(sys, "last_value", None)
        if value is not None and sys.excepthook is not excepthook and not hasattr(sys, "ps1"):
            _hold(member, (type(value), value, sys.last_traceback))

    register = getattr(threading, "_register_atexit", None)  # Python 3.9; `at_end` can still start threads
    if register is not None:
        register(at_end)
    former, sys.excepthook = sys.excepthook, excepthook
    former_of_threads, threading.excepthook = threading.excepthook, thread_excepthook


def arm_worker(member: Member) -> None:
    """Watch exceptions in a worker of multiprocessing, which prints its exception itself and ends."""
    global _worker_armed  # noqa: PLW0603
    if _worker_armed:
        return
    _worker_armed = True
    import traceback

    def print_exc(*args: Any, **kwargs: Any) -> None:
        former(*args, **kwargs)
        caller = sys._getframe(1).f_code
        if caller.co_name == "_bootstrap" and "multiprocessing" in caller.co_filename:
            _hold(member, sys.exc_info())

    former, traceback.print_exc = traceback.print_exc, print_exc
    wrapper: Any = getattr(sys.modules.get("torch._utils"), "ExceptionWrapper", None)
    if wrapper is not None:
        _arm_wrapper(member, wrapper)


def _arm_wrapper(member: Member, wrapper: Any) -> None:
    """Watch exceptions in a forked DataLoader worker, which sends them to its parent without the frames."""
    former = wrapper.__init__

    def init(self: Any, exc_info: Any = None, *args: Any, **kwargs: Any) -> None:
        _hold(member, exc_info or sys.exc_info())
        former(self, exc_info, *args, **kwargs)

    wrapper.__init__ = init


def _hold(member: Member, failure: Any) -> None:
    global _held  # noqa: PLW0603
    if failure[1] is _held:
        return
    _held = failure[1]
    try:
        if not issubclass(failure[0], (KeyboardInterrupt, SystemExit)):
            from . import crash

            crash.hold(member.directory, failure)
    except Exception as error:
        member.say("post-mortem: %r" % (error,))
