"""Gives the debugger the standard library in a program that has modules of the same names.

With a `queue.py` beside the script, `import queue` finds that file. The debugger would fail with it; and if the
debugger loaded the standard module first, the program would get that one. So in such a program dkdbg's modules,
debugpy's, and the standard modules that they load get an `__import__` of their own. For a name that the program has a
module of too, it loads the standard module as `_dkdbg_standard.NAME`, for the debugger alone.

The hook loads this before dkdbg's other modules, so it imports nothing that a program can replace.
"""

from __future__ import annotations

# ruff: noqa: A002, ANN401
import os
import sys
from _frozen_importlib import __import__ as import_normally
from _frozen_importlib_external import PathFinder, SourceFileLoader
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Set

#: Folders of debugpy's top-level modules.
folders: List[str] = []
#: Prefixes of the names of dkdbg's and debugpy's modules.
_DEBUGGER = ("_dkdbg", "debugpy", "pydev", "_pydev")
#: Standard modules that the debugger does not import, and that many programs replace: a folder `test` is common, and
#: setuptools replaces distutils.
_UNUSED = {"test", "distutils"}
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_OF_OS = os.path.dirname(os.__file__)


def _is_library(entry: str) -> bool:
    """Tell whether an entry of sys.path is the standard library's.

    Compare real paths: `os` may be frozen, and the entry may spell the folder in another way.
    """
    return entry.endswith("lib-dynload") or (
        bool(entry) and os.path.realpath(entry) == os.path.realpath(_OF_OS)
    )


#: Folders of the standard library, and the names of its modules. (sys.path may contain objects of any type.)
_standard = [_OF_OS, *filter(_is_library, [each for each in sys.path if type(each) is str])]
_names: Set[str] = set()
#: Names that both a standard module and a module of the program have. While it is empty, the debugger imports as
#: the program does.
_replaced: Set[str] = set()
#: Name of the package of standard modules that are loaded for the debugger alone.
_PRIVATE = "_dkdbg_standard"
#: The `__builtins__` of the debugger's modules, with its own `__import__`, if `_replaced` is not empty.
_builtins: Dict[str, Any] = {}
#: Identifiers of the threads that are importing modules of the standard library for the debugger.
_importing: Set[int] = set()


def find_shadowing() -> None:
    """Add to `_replaced` the names of the program's modules that are also names of standard modules."""
    script = str((getattr(sys, "argv", None) or [""])[0])
    # While Python starts, sys.path does not have the script's folder yet.
    first = [""]
    if script not in ("", "-c", "-m"):
        try:
            first = [script, os.path.dirname(os.path.realpath(script))]
        except OSError:  # the working directory is gone
            first = [script]
    for entry in sys.path:
        if entry in _standard:
            break
        if type(entry) is str:
            first.append(entry)
    for folder in first:
        for name in _names & set(_listed(folder)):
            is_folder = os.path.isdir(os.path.join(folder, name))
            if not is_folder or os.path.exists(os.path.join(folder, name, "__init__.py")):
                _replaced.add(name)
    _replaced.update(name for name in _names & set(sys.modules) if not _is_standard(name))


def _listed(folder: str) -> List[str]:
    """Return the names in a folder that may be modules: those with a suffix like a module's, or without a suffix."""
    try:
        entries = os.listdir(folder or ".")
    except OSError:
        return []
    return [
        name
        for name, dot, ending in (each.partition(".") for each in entries)
        if not dot or ending[:2] in ("py", "so", "cp")
    ]


def _is_standard(name: str) -> bool:
    """Tell whether this loaded top-level module is the standard library's."""
    try:
        # Bypass `getattr`, which would import a lazy module.
        origin: str = object.__getattribute__(sys.modules[name], "__dict__")["__spec__"].origin
        folder, file = os.path.split(origin)
    except Exception:  # a program may put any object into sys.modules
        return False
    if file.startswith("__init__."):
        folder = os.path.dirname(folder)
    return origin in ("built-in", "frozen") or folder in _standard


def _import(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
    """Replace `__import__` in the debugger's modules, and in the standard modules that are loaded for it alone."""
    top = (globals["__package__"] if level else name).partition(".")[0]
    if top not in _names:
        return import_normally(name, globals, locals, fromlist, level)
    if level or top not in _replaced or (top in sys.modules and _is_standard(top)):
        nested, thread = get_ident() in _importing, get_ident()
        _importing.add(thread)
        try:
            return import_normally(name, globals, locals, fromlist, level)
        finally:
            if not nested:
                _importing.discard(thread)
    found = import_normally("%s.%s" % (_PRIVATE, name), None, None, fromlist)
    return found if fromlist else sys.modules["%s.%s" % (_PRIVATE, top)]


def loader(name: str, path: str) -> SourceFileLoader:
    """Return the loader for the debugger's module `name` in this file."""
    return (_Loader if _replaced else SourceFileLoader)(name, path)


class _Loader(SourceFileLoader):
    def exec_module(self, module: Any) -> None:
        module.__dict__["__builtins__"] = _builtins
        super().exec_module(module)


class _Finder:
    """Finder of the debugger's modules, first on sys.meta_path; with it, `sys.path` need not be changed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002
        """Return a spec of a module that is imported for the debugger, and None for others."""
        if name.startswith(_DEBUGGER):
            spec = PathFinder.find_spec(name, folders if path is None else path)
        elif get_ident() in _importing and name.partition(".")[0] in _names:
            spec = PathFinder.find_spec(name, _standard if path is None else path)
        else:
            return None
        if spec is None or not (spec.origin or "").startswith((_FOLDER, *folders, *_standard)):
            return None
        if type(spec.loader) is SourceFileLoader:
            spec.loader = loader(spec.loader.name, spec.loader.path)
        return spec


for _folder in _standard:
    _names.update(_listed(_folder))
_names -= _UNUSED
_builtins.update(vars(sys.modules["builtins"]), __import__=_import)
_package = type(sys)(_PRIVATE)
_package.__path__ = _standard
sys.modules.setdefault(_PRIVATE, _package)
find_shadowing()
sys.meta_path = [_Finder(), *sys.meta_path]  # another thread may be iterating over the list
