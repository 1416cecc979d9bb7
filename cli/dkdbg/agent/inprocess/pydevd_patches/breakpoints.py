"""Records facts about breakpoints for `dkdbg why` (line.py): a condition's error, and whether it was set early enough.

pydevd prints a failing condition's error at each hit, but never a NameError. If a breakpoint was set before the process
began to run its file, and has not stopped, then its line has not run.
"""

# debugpy is untyped, and the conditions are the editor's code for this process.
# ruff: noqa: ANN401, S307
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import os
import sys
import traceback

from .. import session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Tuple

#: Maximum characters of an error.
_MAX_ERROR = 300
#: File, as pydevd names it, and line -> the previous breakpoint there. Each request of the editor creates all
#: breakpoints of a file anew.
_former: Dict[Tuple[str, int], Any] = {}
#: File -> whether this process had begun to run it.
_begun: Dict[str, bool] = {}


def watch() -> None:
    """Install the records in pydevd."""
    import pydevd
    from _pydevd_bundle.pydevd_api import PyDevdAPI

    remove, consolidate = PyDevdAPI.remove_all_breakpoints, pydevd.PyDB.consolidate_breakpoints

    def remove_all_breakpoints(self: Any, debugger: Any, name: str) -> None:
        _former.clear()
        if name != "*":  # the editor leaves
            for file, lines in debugger.breakpoints.items():
                _former.update(((file, line), each) for line, each in lines.items())
        remove(self, debugger, name)

    def consolidate_breakpoints(self: Any, name: str, by_id: Dict[int, Any], *args: Any) -> None:
        for each in by_id.values():
            if not hasattr(each, "dkdbg_is_early"):
                former = _former.get((name, each.line))
                each.dkdbg_is_early = is_early(former) or not _has_begun(name)
                if _conditions(former) == _conditions(each):
                    each.dkdbg_error = error(former)
        consolidate(self, name, by_id, *args)

    PyDevdAPI.remove_all_breakpoints = remove_all_breakpoints
    pydevd.PyDB.consolidate_breakpoints = consolidate_breakpoints
    pydevd.PyDB.handle_breakpoint_condition = _handle_condition


def is_early(breakpoint_: Any) -> bool:
    """Tell whether a breakpoint was set before this process began to run its file, and has been set ever since."""
    return getattr(breakpoint_, "dkdbg_is_early", False)


def error(breakpoint_: Any) -> str:
    """Return the first error of a breakpoint's condition; empty without one."""
    return getattr(breakpoint_, "dkdbg_error", "")


def _conditions(breakpoint_: Any) -> Tuple[str, str]:
    return getattr(breakpoint_, "condition", None) or "", getattr(breakpoint_, "hit_condition", None) or ""


def _has_begun(file: str) -> bool:
    if not _begun.get(file):
        import pydevd_file_utils

        base = os.path.basename(file)
        names = [session.namespace(each).get("__file__") for each in list(sys.modules.values())]
        _begun[file] = any(
            pydevd_file_utils.canonical_normalized_path(each) == file
            for each in names
            if isinstance(each, str) and os.path.basename(each) == base
        )
    return _begun[file]


def _handle_condition(self: Any, _info: Any, breakpoint_: Any, frame: Any) -> Any:
    """Return whether a breakpoint's condition, and the one on its hit count, hold; report the first error of either.

    Replaces PyDB.handle_breakpoint_condition, which hides errors of the condition on the hit count
    (LineBreakpoint.handle_hit_condition).
    """
    condition, hits = _conditions(breakpoint_)
    try:
        if hits:
            with breakpoint_._hit_condition_lock:
                breakpoint_._hit_count += 1
                count = str(breakpoint_._hit_count)
            if eval(hits.replace("@HIT@", count), frame.f_globals, frame.f_locals):
                return True
        return bool(condition) and eval(condition, frame.f_globals, frame.f_locals)
    except Exception as failure:
        if not error(breakpoint_):
            said = traceback.format_exception_only(type(failure), failure)[-1]
            breakpoint_.dkdbg_error = " ".join(said.split())[:_MAX_ERROR]
            place = "%s:%d" % (os.path.basename(frame.f_code.co_filename), frame.f_lineno)
            text = "the breakpoint at %s does not stop: its condition, %s, raises %s"
            text %= (place, hits or condition, breakpoint_.dkdbg_error)
            self.writer.add_command(self.cmd_factory.make_console_message("dkdbg: %s\n" % text))
        return not isinstance(failure, self.skip_suspend_on_breakpoint_exception)
