"""Passes uncaught exceptions to crash.py, after the program's own hooks.

The hook loads it at the start of a process with DKDBG_ON_CRASH, so it imports only modules that every process has
imported already.
"""

# ruff: noqa: ANN401

from __future__ import annotations

import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
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

    def thread_excepthook(details: Any) -> None:
        former_of_threads(details)
        _hold(member, (details.exc_type, details.exc_value, details.exc_traceback))

    def shutdown() -> None:
        try:
            value, trace = getattr(sys, "last_value", None), getattr(sys, "last_traceback", None)
            if trace is not None and _is_outermost(trace.tb_frame) and not hasattr(sys, "ps1"):
                _hold(member, (type(value), value, trace))
        finally:
            former_shutdown()

    # Python calls `threading._shutdown` in the main thread at the program's end, after sys.excepthook. Do not replace
    # sys.excepthook: the backport of ExceptionGroup then prints no sub-exceptions.
    module: Any = threading
    former_shutdown, module._shutdown = module._shutdown, shutdown
    former_of_threads, threading.excepthook = threading.excepthook, thread_excepthook


def _is_outermost(frame: FrameType) -> bool:
    """Tell whether a frame is the program's outermost one.

    Python stores an exception that leaves the outermost frame in sys.last_value. But pytest, interactive prompts, and
    C++ code that prints the exception of a Python function store others there too.
    """
    return frame.f_back is None and frame.f_code.co_name in ("<module>", "_run_module_as_main")


def arm_worker(member: Member) -> None:
    """Watch exceptions in a worker of multiprocessing, which catches and prints them itself before it ends."""
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
    """Watch exceptions in a forked DataLoader worker, which catches them and sends their text to its parent."""
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
