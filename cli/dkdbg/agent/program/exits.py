"""A SystemExit that may leave a process which waits to join. Used by waiting.py.

Python calls no hook for it and raises no audit event. Who calls `sys.exit`, as argparse does, is met there; a script
that raises it by name has that name in its code.
"""

# ruff: noqa: ANN401

from __future__ import annotations

import os
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any, Callable, Optional

_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep
_PACKAGES = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)


def watch(join: Callable[[], Any], *, every: bool) -> None:
    """Join when the program's own code is about to leave its main thread with a failure by `sys.exit`.

    Args:
        join: does nothing when there is nothing to wait for any more.
        every: whatever the exit code is.
    """
    original = sys.exit
    if hasattr(original, "dkdbg"):
        return

    def leave(*status: Any) -> Any:
        failed = every or status[:1] not in ((), (None,), (0,))
        if failed and threading.get_ident() == threading.main_thread().ident and _is_called(sys._getframe(1)):
            if sys.exit is leave:
                sys.exit = original
            join()
        return original(*status)

    leave.dkdbg = True  # type: ignore[attr-defined]
    leave.__name__ = leave.__qualname__ = "exit"
    sys.exit = leave


def may_raise(code: CodeType) -> bool:
    """Tell whether a file of the program's own names SystemExit, anywhere in its code."""
    return _is_own(code.co_filename) and _names(code)


def is_of_standard_library(path: str) -> bool:
    """Tell whether a file comes with Python."""
    return path.startswith(_STANDARD_LIBRARY) and not any(part in path for part in _PACKAGES)


def _is_own(path: str) -> bool:
    """Tell whether a file belongs neither to the standard library nor to an installed package."""
    return not path.startswith((_STANDARD_LIBRARY, "<frozen")) and not any(part in path for part in _PACKAGES)


def _names(code: CodeType) -> bool:
    return "SystemExit" in code.co_names or any(
        _names(each) for each in code.co_consts if isinstance(each, type(code))
    )


def _is_called(frame: Optional[FrameType]) -> bool:
    """Tell whether a frame of the program's own is among the callers; the debugger stops for no others."""
    while frame is not None:
        if _is_own(frame.f_code.co_filename):
            return True
        frame = frame.f_back
    return False
