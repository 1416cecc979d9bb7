"""Context managers in place of those of `contextlib`, which the debugger traces.

The functions of this folder run inside those of the standard library, where a thread holds a lock. A debugger
that stops all threads suspends each at the next function that it traces. A thread suspended in `contextlib` would
keep the lock, and other threads, heartbeat threads included, would wait for it.
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
