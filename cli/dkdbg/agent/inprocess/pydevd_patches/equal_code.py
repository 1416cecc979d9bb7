"""Tells equal functions of two files apart. Used by join.py.

Functions that are equal and begin at the same line, as in a copied experiment, have equal code objects: Python does not
compare the names of their files. pydevd keeps its data by code object. Up to Python 3.11 a breakpoint never stops after
the other function has run. From 3.12 on it stops in both or in neither.
"""

# debugpy is untyped.
# ruff: noqa: ANN401
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import contextlib
import dis
import sys
from types import CodeType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Dict, Iterator, List, Tuple

#: Maximum bytes of a source to compile.
MAX_SOURCE_BYTES = 4 << 20
#: First line and name of a function -> file, code and breakpoints that do not stop, for the functions with breakpoints.
_functions: Dict[Tuple[int, str], List[Tuple[str, CodeType, Dict[int, _Never]]]] = {}


def watch() -> None:
    """Install the corrections in pydevd."""
    if sys.version_info >= (3, 12):
        from _pydevd_sys_monitoring import pydevd_sys_monitoring

        used = sys.modules[pydevd_sys_monitoring.FuncCodeInfo.__module__]  # compiled or not
        used._code_to_func_code_info_cache = _ByFile()  # type: ignore[attr-defined]
        return
    import pydevd

    consolidate, type_of = pydevd.PyDB.consolidate_breakpoints, pydevd.PyDB.get_file_type

    def consolidate_breakpoints(self: Any, name: str, *args: Any) -> None:
        consolidate(self, name, *args)
        _learn(self.breakpoints, name)

    def get_file_type(self: Any, frame: FrameType, paths: Any = None) -> Any:
        """Return the type of a frame's file; pydevd asks at each call of a function that it does not skip."""
        code = frame.f_code
        for name, equal, lines in _functions.get((code.co_firstlineno, code.co_name), ()):
            if equal == code and paths and paths[1] != name:
                self.breakpoints[paths[1]] = {**lines, **self.breakpoints.get(paths[1], {})}
        return type_of(self, frame, paths)

    pydevd.PyDB.consolidate_breakpoints = consolidate_breakpoints
    pydevd.PyDB.get_file_type = get_file_type


def _learn(breakpoints: Dict[str, Dict[int, Any]], name: str) -> None:
    """Find the functions of a file whose breakpoints have changed.

    Args:
        breakpoints: pydevd's, by canonical file name and line.
    """
    for file, lines in list(breakpoints.items()):
        breakpoints[file] = {line: each for line, each in lines.items() if not isinstance(each, _Never)}
    for key, found in list(_functions.items()):
        _functions[key] = [each for each in found if each[0] != name]
    wanted = sorted(breakpoints.get(name, ()))
    if not wanted:
        return
    with contextlib.suppress(OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        with open(name, "rb") as opened:
            source = opened.read(MAX_SOURCE_BYTES)
        for code in _functions_in(compile(source, name, "exec", dont_inherit=True)):
            own = {line for _, line in dis.findlinestarts(code)}
            if lines := {line: _Never() for line in wanted if line in own}:
                _functions.setdefault((code.co_firstlineno, code.co_name), []).append((name, code, lines))


class _ByFile:
    """pydevd's data of code objects, by the code and the name of its file."""

    def __init__(self) -> None:
        self._found: Dict[Tuple[CodeType, str], object] = {}

    def get(self, code: CodeType) -> object:
        return self._found.get((code, code.co_filename))

    def __setitem__(self, code: CodeType, info: object) -> None:
        self._found[(code, code.co_filename)] = info


class _Never:
    """A breakpoint that does not stop, in a function that pydevd would skip, and the equal one with it."""

    expression = condition = None
    has_condition, is_logpoint = True, False

    def handle_hit_condition(self, _: object) -> bool:
        """Return whether this breakpoint stops."""
        return False


def _functions_in(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _functions_in(each)
