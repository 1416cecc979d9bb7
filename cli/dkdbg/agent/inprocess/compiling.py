"""Compiles sources of the program for the debugger, without the warnings that the program has printed already."""

from __future__ import annotations

import contextlib
import os
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Iterator, Optional

#: Maximum bytes of a source to compile.
MAX_SOURCE_BYTES = 4 << 20


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Ignore what the compiler warns of, such as `x is 1`: the program has printed that already."""
    with warnings.catch_warnings():
        for category in (SyntaxWarning, DeprecationWarning):
            warnings.simplefilter("ignore", category)
        yield


def compiled(file: str, optimize: int = -1) -> Optional[CodeType]:
    """Compile a source without its warnings; return None for a file that cannot be compiled, or is too large.

    Args:
        optimize: see `compile`; -1 for this Python's own level.
    """
    if not os.path.isfile(file):  # a pipe would be waited for
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
