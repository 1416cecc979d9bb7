"""Changes to modules of the program: at once where they are imported, else when they are."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict

    Change = Callable[[Any], object]


class _Finder:
    """Asked first for each import while a module is awaited."""

    def __init__(self) -> None:
        self.awaited: Dict[str, Change] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ANN401, ARG002
        """Return an awaited module's own spec, which changes it once it has run; None for any other."""
        change = self.awaited.pop(name, None)
        if change is None:
            return None
        import importlib.machinery

        _follow()
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        run = getattr(spec and spec.loader, "exec_module", None)
        if spec is None or run is None:
            return None

        def exec_module(module: Any) -> None:  # noqa: ANN401
            run(module)
            _try(change, module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign, union-attr]
        return spec


_finder = _Finder()


def once(name: str, change: Change) -> None:
    """Change a module by its name, now or when it is imported. An error in it is swallowed: another version of it."""
    if name in sys.builtin_module_names:
        __import__(name)
    module = sys.modules.get(name)
    if module is not None:
        _try(change, module)
        return
    _finder.awaited[name] = change
    _follow()


def no_more(name: str) -> None:
    """Leave a module alone that has not been imported yet."""
    _finder.awaited.pop(name, None)
    _follow()


def _follow() -> None:
    """Be asked for imports as long as something is awaited."""
    if bool(_finder.awaited) == (_finder in sys.meta_path):
        return
    if _finder.awaited:
        sys.meta_path.insert(0, _finder)
    else:
        sys.meta_path.remove(_finder)


def _try(change: Change, module: object) -> None:
    try:
        change(module)
    except Exception:  # another version of it: it stays as it is
        return
