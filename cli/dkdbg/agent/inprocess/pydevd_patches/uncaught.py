"""Makes the editor's filter for uncaught exceptions stop once at each of them, whatever hooks the program has.

Up to Python 3.11, pydevd looks for a thread's outermost frame once, at the first traced call, and watches for
exceptions that leave it. In a process that joins at its start, that is a frame of `site`, which ends long before the
program fails. With this module, pydevd looks again when the program's own outermost frame begins.

`sys.excepthook` is no alternative: Python does not call it for SystemExit, rich and absl replace it, and the backport
of ExceptionGroup prints no sub-exceptions if it is replaced.
"""

# debugpy is untyped.
# ruff: noqa: ANN401
# mypy: disable-error-code="no-untyped-call, import-not-found"

from __future__ import annotations

import sys

from ..natives import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Optional

#: State of each thread. `value`: the exception at which the debugger has stopped last.
_shown = threading.local()


def watch() -> None:
    """Make pydevd stop at each uncaught exception only once."""
    import pydevd

    stop = pydevd.PyDB.do_stop_on_unhandled_exception

    def stop_once(self: Any, thread: Any, frame: Any, frames: Any, failure: Any) -> None:
        if not was_shown(failure[1]):
            _shown.value = failure[1]
            stop(self, thread, frame, frames, failure)

    pydevd.PyDB.do_stop_on_unhandled_exception = stop_once
    _remove_pydevds_notes()
    if sys.version_info < (3, 12):
        _know_how_frames_end()


def was_shown(value: BaseException) -> bool:
    """Tell whether the debugger has already stopped at this exception of the current thread."""
    return getattr(_shown, "value", None) is value


def show_from_start(debugger: Any) -> None:
    """Make pydevd look for this thread's outermost frame again when the program's outermost frame begins.

    In a forked child nothing needs to be done: that frame runs already, and pydevd finds it.

    Args:
        debugger: pydevd's debugger, which this thread has just connected.
    """
    from _pydevd_bundle import pydevd_trace_dispatch

    if pydevd_trace_dispatch.USING_CYTHON or not _is_of_start(sys._getframe()):
        return
    get_trace_func, ident = debugger.fix_top_level_trace_and_get_trace_func, threading.get_ident()
    tracer: Any = None

    def get_trace_func_in_program(py_db: Any, frame: FrameType) -> Any:
        nonlocal tracer
        if threading.get_ident() != ident:
            return get_trace_func(py_db, frame)
        if frame.f_back is None and _is_of_program(frame):
            py_db.fix_top_level_trace_and_get_trace_func = get_trace_func
            return get_trace_func(py_db, frame)
        if tracer is None:
            tracer = get_trace_func(py_db, frame)[0]
        return tracer, False  # False: call this function again at the thread's next call

    debugger.fix_top_level_trace_and_get_trace_func = get_trace_func_in_program
    debugger.enable_tracing(debugger.trace_dispatch)


def _is_of_start(frame: Optional[FrameType]) -> bool:
    """Tell whether a frame runs inside Python's own import of `site`."""
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith("<frozen importlib")


def _is_of_program(frame: FrameType) -> bool:
    """Tell whether a frame without a caller is the program's. Others run before, to find an importer for the script."""
    return frame.f_globals.get("__name__") == "__main__" or frame.f_code.co_name == "_run_module_as_main"


def _know_how_frames_end() -> None:
    """Make pydevd determine exactly whether an exception leaves an outermost frame; it guesses by line numbers.

    It would take the StopIteration of a loop in a program's last line for uncaught. Stock debugpy is not affected,
    because there the outermost frame is one of runpy.
    """
    import opcode

    from _pydevd_bundle import pydevd_trace_dispatch_regular as dispatch

    returns = {
        opcode.opmap[name]
        for name in ("RETURN_VALUE", "YIELD_VALUE", "YIELD_FROM", "RETURN_GENERATOR")
        if name in opcode.opmap
    }

    def is_unhandled_exception(_container: Any, _py_db: Any, frame: FrameType, *_lines: Any) -> bool:
        return frame.f_code.co_code[frame.f_lasti] not in returns

    tracer = dispatch.TopLevelThreadTracerNoBackFrame
    make = tracer.__init__

    def init(self: Any, trace_dispatch: Any, args: Any) -> None:
        """Initialize a tracer of the outermost frame, and pass it the exception that the previous tracer has seen.

        pydevd replaces the tracer when the frame calls a function for the first time, and after each stop. Both may
        happen in a `finally`, while an exception passes through the frame.
        """
        make(self, trace_dispatch, args)
        for former in args[2].top_level_thread_tracer_no_back_frames[-1:]:
            self._last_exc_arg, former._last_exc_arg = former._last_exc_arg, None

    dispatch.is_unhandled_exception = is_unhandled_exception
    tracer.__init__ = init


def _remove_pydevds_notes() -> None:
    """Remove pydevd's notes from the names of the exception and of the frame that an editor shows.

    pydevd adds "(note: full exception trace is shown but execution is paused at: <module>)" to the name of the
    exception, and "(Current frame)" to that of the outermost frame. In stock debugpy this frame is one of runpy,
    which is hidden.
    """
    from _pydevd_bundle import pydevd_frame_utils

    make = pydevd_frame_utils.create_frames_list_from_traceback

    def create_frames_list_from_traceback(*args: Any, **kwargs: Any) -> Any:
        frames = make(*args, **kwargs)
        if kwargs.get("exception_type") == pydevd_frame_utils.EXCEPTION_TYPE_UNHANDLED:
            frames.current_frame = None
        return frames

    pydevd_frame_utils.create_frames_list_from_traceback = create_frames_list_from_traceback
