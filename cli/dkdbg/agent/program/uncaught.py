"""Lets the editor's filter for uncaught exceptions stop the main thread, for Python up to 3.11.

There pydevd looks once for the outermost frame of a thread, at the first call that it traces. In a process that joins
at its start that is a frame of `site`, which has ended long before the program fails. When breakpoints change while it
runs, pydevd looks again, and then shows the exception of its own accord.
"""

# debugpy has no types, and this is where it is imported.
# ruff: noqa: ANN401
# mypy: disable-error-code="no-untyped-call, import-not-found"

from __future__ import annotations

import contextlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List


def show(debugger_class: Any) -> None:
    """Show each exception that reaches `sys.excepthook`, once."""
    former, stop = sys.excepthook, debugger_class.do_stop_on_unhandled_exception
    shown: List[BaseException] = []

    def stop_once(self: Any, thread: Any, frame: Any, frames: Any, failure: Any) -> None:
        if not any(failure[1] is former_one for former_one in shown):
            shown[:] = [failure[1]]
            stop(self, thread, frame, frames, failure)

    def excepthook(kind: Any, value: Any, trace: Any) -> None:
        with contextlib.suppress(Exception):
            _trigger((kind, value, trace))
        former(kind, value, trace)

    debugger_class.do_stop_on_unhandled_exception, sys.excepthook = stop_once, excepthook


def _trigger(failure: Any) -> None:
    import debugpy  # noqa: T100

    trigger = getattr(debugpy, "trigger_exception_handler", None)  # debugpy 1.8.22
    if trigger is not None:
        trigger(failure, as_uncaught=True)  # nothing without an editor, or when it has not asked for these
