"""Runs a callback as soon as the program has imported a certain module, without importing that module itself."""

# ruff: noqa: ANN401

from __future__ import annotations

import contextlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


def after(name: str, do: Callable[[Any], object]) -> None:
    """Call `do` with a module: now if it is loaded, else after its import; only once, even if registered twice.

    If another thread is importing the module now, call `do` at the next import of any other module. Ignore errors of
    `do`, because the module may have an unknown version. Import a built-in module now.
    """
    if name in sys.builtin_module_names:  # built-in modules share one loader
        __import__(name)
    module = sys.modules.get(name)
    if module is not None and not _is_half(module):
        with contextlib.suppress(Exception):
            do(module)
    elif not any(
        isinstance(finder, Finder) and (finder.name, finder.do) == (name, do) for finder in sys.meta_path
    ):
        finder = Finder(name, do, module)
        sys.meta_path = [finder, *sys.meta_path]  # another thread may be iterating over the list


def _is_half(module: Any) -> bool:
    """Return whether a module is still being imported."""
    try:  # this neither imports a lazy module nor calls an object that the program has put in a module's place
        return object.__getattribute__(module, "__dict__")["__spec__"]._initializing is True
    except Exception:
        return False


class Finder:
    """First finder on sys.meta_path until the module is imported; the finders after it find the module.

    Args:
        half: the module, if another thread is importing it when the finder is created.
    """

    def __init__(self, name: str, do: Callable[[Any], object], half: Any = None) -> None:
        self.name = name
        self.do = do
        self._half = [] if half is None else [half]  # a list: `pop` gives it to one thread only

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return a spec of the module, with a loader that calls `do` after the import; None for other modules."""
        if name != self.name:
            with contextlib.suppress(Exception):
                if self._half and not _is_half(self._half[0]):
                    self._change(self._half.pop())
            return None
        self._leave()
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                self._do_after(spec.loader)
                return spec
        return None

    def _change(self, module: Any) -> None:
        if sys.modules.get(self.name) is module:  # otherwise its import has failed; a later one may succeed
            self._leave()
            self.do(module)

    def _leave(self) -> None:
        sys.meta_path = [each for each in sys.meta_path if each is not self]

    def _do_after(self, loader: Any) -> None:
        execute = getattr(loader, "exec_module", None)
        if execute is None:  # a loader with `load_module` only, such as zipimport's up to Python 3.9
            return

        def exec_module(module: Any) -> None:
            execute(module)
            if module.__name__ == self.name:  # a zip's loader has many modules
                with contextlib.suppress(Exception):
                    self.do(module)

        loader.exec_module = exec_module
