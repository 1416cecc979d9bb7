"""Makes pydevd distinguish equal functions of two files. Used by join.py.

Equal functions that begin at the same line, as in a copied experiment, have equal code objects, because Python does not
compare the names of their files. pydevd keeps its data by code object. With pydevd alone, up to Python 3.11, a
breakpoint never stops once the equal function of the other file has run; from 3.12 on it stops in both or in neither.
"""

# debugpy is untyped.
# ruff: noqa: ANN401
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import dis
import itertools
import sys
from types import CodeType

from .. import compiling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Dict, Iterable, Iterator, Tuple

#: Key of a function (`_key`) -> the files in which such a function has breakpoints, each with its code.
_functions: Dict[object, Dict[str, CodeType]] = {}
#: Key and file of a function -> whether it is equal to a function with breakpoints in another file.
_decided: Dict[Tuple[object, str], bool] = {}


def watch() -> None:
    """Install the corrections in pydevd."""
    if sys.version_info >= (3, 12):
        from _pydevd_sys_monitoring import pydevd_sys_monitoring

        used = sys.modules[pydevd_sys_monitoring.FuncCodeInfo.__module__]  # compiled, or not
        used._code_to_func_code_info_cache = _ByFile()  # type: ignore[attr-defined]
        return
    import pydevd
    import pydevd_file_utils

    debugger = pydevd.PyDB
    consolidate, type_of, filters = (
        debugger.consolidate_breakpoints, debugger.get_file_type, debugger.apply_files_filter
    )  # fmt: skip
    names = pydevd_file_utils.get_abs_path_real_path_and_base_from_file

    def consolidate_breakpoints(self: Any, name: str, *args: Any) -> None:
        consolidate(self, name, *args)
        _learn(self.breakpoints, name)
        self._clear_caches()  # pydevd may have decided already to skip such functions

    def is_needed(self: Any, code: CodeType) -> bool:
        """Tell whether a function is equal to one with a breakpoint in another file."""
        key = _key(code)
        if key not in _functions:
            return False
        found = _decided.get((key, code.co_filename))
        if found is None:
            name, files = names(code.co_filename)[1], dict(_functions[key])
            files.pop(name, None)
            if files:
                _keep(self.breakpoints, code, name, files)
            found = _decided[key, code.co_filename] = code in files.values()
        return found

    def get_file_type(self: Any, frame: FrameType, *args: Any) -> Any:
        """Return the type of a frame's file, None for the program's; pydevd calls this for each call that it traces."""
        return None if is_needed(self, frame.f_code) else type_of(self, frame, *args)

    def apply_files_filter(self: Any, frame: FrameType, *args: Any) -> Any:
        """Return whether pydevd is to skip a frame, as it does those of libraries."""
        return not is_needed(self, frame.f_code) and filters(self, frame, *args)

    debugger.consolidate_breakpoints, debugger.get_file_type = consolidate_breakpoints, get_file_type
    debugger.apply_files_filter = apply_files_filter


def _learn(breakpoints: Dict[str, Dict[int, Any]], name: str) -> None:
    """Record the functions with breakpoints in a file, after its breakpoints have changed.

    Args:
        breakpoints: pydevd's breakpoints by canonical file name and line. name: canonical name of the file.
    """
    _decided.clear()
    for file, lines in list(breakpoints.items()):
        breakpoints[file] = {line: each for line, each in lines.items() if not isinstance(each, Never)}
    for files in _functions.values():
        files.pop(name, None)
    wanted = breakpoints.get(name)
    if not wanted:
        return
    whole = compiling.compiled(name)
    for code in _codes_in(whole) if whole is not None else ():
        if not wanted.keys().isdisjoint(line for _, line in dis.findlinestarts(code)):
            _functions.setdefault(_key(code), {})[name] = code


def _key(code: CodeType) -> object:
    """Return a key that equal functions share: first line and name; for a module, as all begin alike, its code."""
    return code if code.co_name == "<module>" else (code.co_firstlineno, code.co_name)


def _keep(breakpoints: Dict[str, Dict[int, Any]], code: CodeType, name: str, files: Iterable[str]) -> None:
    """Keep pydevd from skipping a function that may be equal to one with breakpoints; set breakpoints that never stop.

    They are on the lines that have breakpoints in the other function, and on the first line: up to Python 3.10 equal
    code may have other lines, and the program may have compiled the source in another way (pytest). If the functions
    are different after all, this costs only time.

    Args:
        name: canonical name of the function's file. files: the files with breakpoints in functions that may be equal.
    """
    lines = [line for file in files for line in breakpoints.get(file, ())]
    lines += [line for _, line in itertools.islice(dis.findlinestarts(code), 1)]
    breakpoints[name] = {**dict.fromkeys(lines, Never()), **breakpoints.get(name, {})}


class _ByFile:
    """Replacement of pydevd's dict with data about code objects; its keys include the name of the file."""

    def __init__(self) -> None:
        self._found: Dict[Tuple[CodeType, str], object] = {}

    def get(self, code: CodeType) -> object:
        return self._found.get((code, code.co_filename))

    def __setitem__(self, code: CodeType, info: object) -> None:
        self._found[(code, code.co_filename)] = info


class Never:
    """Breakpoint that never stops. It keeps pydevd from skipping its function, and with it the equal one."""

    expression = condition = None
    has_condition, is_logpoint = True, False

    def handle_hit_condition(self, _: object) -> bool:
        """Return whether this breakpoint stops."""
        return False


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes_in(each)
