"""Threads that come to a breakpoint at the same time: each stop is told, or the editor's answer to another lets it go.

pydevd counts a stop and then marks the thread, behind a lock that another stopping thread may hold (PyDB.set_suspend,
debugpy 1.8.22; debugpy #2048 looks like it). When the editor continues that other stop in between, the thread is held,
holds all others, and its stop counts as told: nothing happens any more.
"""

# debugpy has no types, and this is where it is touched.
# ruff: noqa: ANN401

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def watch(debugger_class: Any) -> None:
    """Count each stop once more when its thread is marked; once for each process.

    Whoever is told later than that is told of a time at which the thread was held already: the answer frees it too.

    Args:
        debugger_class: pydevd's PyDB.
    """
    if getattr(debugger_class, "dkdbg_counts", False):
        return
    debugger_class.dkdbg_counts = True
    suspend = debugger_class.set_suspend

    def set_suspend(self: Any, *args: Any, **kwargs: Any) -> None:
        suspend(self, *args, **kwargs)
        self._threads_suspended_single_notification.increment_suspend_time()

    debugger_class.set_suspend = set_suspend
