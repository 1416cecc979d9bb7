"""`suppress` of contextlib, in a module that the debugger does not trace.

Functions of this folder run inside those of the standard library, while a thread holds a lock. When the debugger stops
all threads, each is suspended at the next function that is traced. A thread suspended in `contextlib` would keep the
lock, and all threads that need it would wait, even heartbeat threads.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Type


class Suppress:
    """Suppress exceptions as `contextlib.suppress` does."""

    def __init__(self, *exceptions: Type[BaseException]) -> None:
        self._exceptions = exceptions

    def __enter__(self) -> None:
        """Return nothing."""

    def __exit__(self, kind: Optional[Type[BaseException]], *_: object) -> bool:
        return kind is not None and issubclass(kind, self._exceptions)
