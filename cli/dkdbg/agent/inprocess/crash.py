"""Holds a process with an uncaught exception for an editor, as `--on-crash hold=20m` asks.

Without that option, only an editor that is attached stops at uncaught exceptions, if its filters ask for them. On any
error here, the process ends as it would without dkdbg.
"""

# debugpy is untyped.
# ruff: noqa: ANN401
# mypy: disable-error-code="no-untyped-call, import-not-found"

from __future__ import annotations

import os
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Tuple, Type

    #: As returned by sys.exc_info().
    Failure = Tuple[Type[BaseException], BaseException, TracebackType]


def hold(directory: str, failure: Failure) -> None:
    """Stop in the failing frame as soon as an editor is attached; continue if no editor attaches in time."""
    if not os.path.isdir(directory):
        return
    from . import choosing, duration, on_demand, session
    from .pydevd_patches import uncaught

    chosen, asked = choosing.choice(directory), os.environ.get("DKDBG_ON_CRASH", "")
    free = choosing.runs_free(directory)
    if free and (chosen is None or not chosen.failing):
        return
    seconds = duration.hold_seconds(asked)
    if not asked and (chosen is None or not chosen.failing):
        return

    if os.environ.get("DKDBG_PDB"):
        from .pdb import socket_pdb

        socket_pdb.post_mortem(failure, os.environ["DKDBG_PDB"], seconds)
        return
    if session.editor_is_attached(directory) and uncaught.was_shown(failure[1]):
        return
    what = describe(failure, on_demand.place)
    try:
        if not on_demand.await_editor(directory, seconds, "post-mortem", what):
            return
        if free:  # with this note, the agent counts this process among the selected ranks
            on_demand.write_wait(directory, "post-mortem", what, None)
        if not on_demand.connect(directory):
            stop(failure)
    except KeyboardInterrupt:
        pass  # Ctrl-C: the user does not want to wait. The exit code stays that of the exception.
    finally:
        if free:
            on_demand.write_wait(directory, "", "", None)


def describe(failure: Failure, place: Any) -> str:
    """Return a line such as `train.py:6: ZeroDivisionError: division by zero`; `place` formats a path and a line."""
    import traceback

    kind, value, trace = failure
    while trace.tb_next is not None:
        trace = trace.tb_next
    text = "".join(traceback.format_exception_only(kind, value)).strip().splitlines()[-1]
    return "%s: %s" % (place(trace.tb_frame.f_code.co_filename, trace.tb_lineno), text[:300])


def stop(failure: Failure) -> None:
    """Stop in the failing frame, for the attached editor."""
    import debugpy  # noqa: T100

    trigger = getattr(debugpy, "trigger_exception_handler", None)
    if trigger is not None:  # debugpy 1.8.22
        trigger(failure, as_uncaught=False)
        return
    import pydevd

    debugger = pydevd.get_global_debugger()
    thread = threading.current_thread()
    owner = debugger if hasattr(debugger, "set_additional_thread_info") else pydevd
    info = owner.set_additional_thread_info(thread)
    frames = []
    trace = failure[2]
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next  # type: ignore[assignment]
    info.is_tracing += 1
    try:
        by_id = {id(frame): frame for frame in frames}
        debugger.do_stop_on_unhandled_exception(thread, frames[-1], by_id, failure)
    finally:
        info.is_tracing -= 1
