"""Keeps pydevd from delaying the release of the program's frames, and of the objects in them.

A frame that can be reached from its own local variables is a cycle: it lives until the next garbage collection, with
everything that its variables refer to. Two functions of pydevd (debugpy 1.8.22) store the result of
`sys._current_frames()` in a local variable, and so put the stack of every thread into such a cycle. One runs at each
stop, unless pydevd is compiled, the other at each change of breakpoints. In a function with a batch of 200 MB, each
stop kept another batch alive.
"""

# debugpy is untyped.
# ruff: noqa: ANN401

from __future__ import annotations

import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def watch() -> None:
    """Replace both functions of pydevd."""
    import pydevd
    from _pydevd_bundle import pydevd_additional_thread_info, pydevd_constants

    def get_topmost_frame(self: Any, thread: Any) -> Any:  # noqa: ARG001
        return pydevd_constants._current_frames().get(thread._ident)

    def set_tracing_for_untraced_contexts(self: Any, breakpoints_changed: bool = False) -> None:
        monitoring = pydevd.pydevd_sys_monitoring if pydevd.PYDEVD_USE_SYS_MONITORING else None
        if monitoring is not None and breakpoints_changed:
            monitoring.update_monitor_events()
        left_out = {each.ident for each in pydevd.threadingEnumerate() if _is_left_out(each)}
        frames = sys._current_frames()
        for ident in list(frames):
            if ident not in left_out:
                self.set_trace_for_frame_and_parents(ident, frames[ident])
        frames.clear()
        if monitoring is not None:
            monitoring.restart_events()

    info = pydevd_additional_thread_info.PyDBAdditionalThreadInfo
    if isinstance(vars(info)["get_topmost_frame"], types.FunctionType):  # pydevd is not compiled
        info.get_topmost_frame = get_topmost_frame
    pydevd.PyDB.set_tracing_for_untraced_contexts = set_tracing_for_untraced_contexts


def _is_left_out(thread: Any) -> bool:
    return bool(
        getattr(thread, "is_pydev_daemon_thread", False) or getattr(thread, "pydev_do_not_trace", False)
    )
