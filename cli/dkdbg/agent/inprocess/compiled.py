"""Warns about a breakpoint in a function that torch.compile has compiled, which never stops.

Used by join.py in a process that has joined. torch is never imported from here; Dynamo's bytecode hook
(`torch._dynamo.convert_frame.register_bytecode_hook`, torch 2.0 and newer) reports the replaced code.
"""

# torch and debugpy have no types here, and are only used where they are already loaded.
# ruff: noqa: ANN401
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import os
import sys

from . import importing, session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any, Dict, Set, Tuple

_CONVERT_FRAME = "torch._dynamo.convert_frame"
_REMEDY = (
    "torch.compile has compiled %s: the breakpoint at %s:%d does not stop there. "
    "Run with `launch --no-compile` (DKDBG_NO_COMPILE=1), or set TORCH_COMPILE_DISABLE=1"
)
#: Canonical file name -> line -> name of the compiled function.
_lines: Dict[str, Dict[int, str]] = {}
_reported: Set[Tuple[str, int]] = set()


def watch() -> None:
    """Watch Dynamo, now or from its first use on."""
    _check_new_breakpoints()
    importing.after(_CONVERT_FRAME, _attach)


def _attach(module: Any) -> None:
    try:
        for reference in list(getattr(module.input_codes, "seen", ())):  # functions compiled before we joined
            code = reference()
            if code is not None:
                _note(code)
        module.register_bytecode_hook(lambda code, _new: _note(code))
    except Exception as error:  # another torch: breakpoints in compiled code get no warning
        if os.environ.get("DKDBG_DEBUG"):
            sys.stderr.write("dkdbg: torch.compile: %r\n" % (error,))


def _note(code: CodeType) -> None:
    import dis

    import pydevd_file_utils

    path = pydevd_file_utils.canonical_normalized_path(code.co_filename)
    lines = _lines.setdefault(path, {})
    for _, line in dis.findlinestarts(code):
        if line and line != code.co_firstlineno:
            lines[line] = code.co_name
    _compare()


def _check_new_breakpoints() -> None:
    from _pydevd_bundle.pydevd_api import PyDevdAPI

    add = PyDevdAPI.add_breakpoint

    def add_breakpoint(*args: Any, **kwargs: Any) -> Any:
        result = add(*args, **kwargs)
        _compare()
        return result

    PyDevdAPI.add_breakpoint = add_breakpoint


def _compare() -> None:
    """Warn once about each breakpoint in compiled code."""
    debugger = session.debugger()
    if debugger is None or not _lines:
        return
    for path, lines in list(_lines.items()):
        for line in list(debugger.breakpoints.get(path) or ()):
            if line in lines and (path, line) not in _reported:
                _reported.add((path, line))
                session.tell(debugger, _REMEDY % (lines[line], os.path.basename(path), line))
