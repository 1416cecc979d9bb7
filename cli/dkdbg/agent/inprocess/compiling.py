"""Compiles the program's sources for the debugger, without printing the compiler's warnings a second time."""

from __future__ import annotations

import contextlib
import os
import warnings
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Iterator, Optional

#: Maximum bytes of a source to compile.
MAX_SOURCE_BYTES = 4 << 20


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Suppress warnings in this thread, such as the compiler's about `x is 1`: the program has printed them already.

    Leave the warning filters unchanged: after a change, Python prints each warning of the program once more.
    """
    true, thread = getattr(warnings, "_showwarnmsg", None), get_ident()

    def show(message: object) -> None:
        if get_ident() != thread and true is not None:
            true(message)

    vars(warnings)["_showwarnmsg"] = show
    try:
        yield
    finally:
        if vars(warnings)["_showwarnmsg"] is show:
            vars(warnings)["_showwarnmsg"] = true


def compiled(file: str, optimize: int = -1) -> Optional[CodeType]:
    """Compile a source without its warnings; return None for a file that cannot be compiled, or is too large.

    Args:
        optimize: see `compile`; -1 for this Python's own level.
    """
    if not os.path.isfile(file):  # opening a pipe would block
        return None
    with without_warnings():
        try:
            with open(file, "rb") as source:
                text = source.read(MAX_SOURCE_BYTES + 1)
            if len(text) > MAX_SOURCE_BYTES:
                return None
            code: CodeType = compile(text, file, "exec", dont_inherit=True, optimize=optimize)
            return code
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return None
