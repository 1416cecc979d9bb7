"""Threads that come to a breakpoint at the same time: no stop is kept from the editor, and no answer to it either.

Four faults of pydevd (debugpy 1.8.22, the issue debugpy #2048) leave threads held in silence, or the editor's requests
unanswered for good, as soon as threads stop while the editor continues:

1. A stop is counted, and a moment later the thread is marked (PyDB.set_suspend). When the editor continues another
   stop in between, this one counts as told.
2. Who resumes threads marks one after another. A thread that stops in the midst holds those that were marked before
   it, and is let go itself.
3. A thread that leaves its wait late tells that all run, when another stop has been told of since. The resuming of that
   one is then not told.
4. `continue` is answered when that is told. Where it is not, where nothing was held, or where another thread stops
   before those that were let go have noticed, there is no answer, and debugpy's adapter takes no further request
   before it has one: none about the new stop either.
"""

# debugpy has no types, and this is where it is touched.
# ruff: noqa: ANN401

from __future__ import annotations

import _thread

from ..clocks import clocks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Held while threads are marked as held or as running; gevent does not patch this one.
_lock = _thread.RLock()


def watch(pydevd: Any, lifecycle: Any, resuming: Any, api_class: Any) -> None:
    """Mend them; once for each process.

    Args:
        lifecycle: pydevd's module that marks threads. resuming: those that resume threads by its function.
        api_class: its PyDevdAPI.
    """
    if getattr(pydevd.PyDB, "dkdbg_tells_stops", False):
        return
    pydevd.PyDB.dkdbg_tells_stops = True
    _stop_at_once(pydevd.PyDB)
    for module in resuming:
        module.resume_threads = _resuming_at_once(lifecycle, module.resume_threads)
    _tell_own_resuming(pydevd.ThreadsSuspendedSingleNotification)
    _answer_continue(pydevd, api_class)


def forget() -> None:
    """In a forked child: a thread of the parent's may have held the lock."""
    global _lock  # noqa: PLW0603
    _lock = _thread.RLock()


def _stop_at_once(debugger_class: Any) -> None:
    suspend = debugger_class.set_suspend

    def set_suspend(self: Any, *args: Any, **kwargs: Any) -> None:
        with _lock:
            suspend(self, *args, **kwargs)

    debugger_class.set_suspend = set_suspend


def _resuming_at_once(lifecycle: Any, resume: Any) -> Any:
    def resume_threads(thread_id: str, except_thread: Any = None) -> None:
        with _lock:
            if except_thread is not None:  # it steps, and was let go a moment ago
                info = lifecycle.set_additional_thread_info(except_thread)
                if info.pydev_state == lifecycle.STATE_SUSPEND:
                    return  # another thread has stopped since, and is told of
            resume(thread_id, except_thread)

    return resume_threads


def _tell_own_resuming(notification_class: Any) -> None:
    suspend = notification_class.on_thread_suspend

    def on_thread_suspend(self: Any, thread_id: str, thread: Any, stop_reason: int) -> None:
        if not self._suspended_thread_id_to_thread:
            clocks.held()
        suspend(self, thread_id, thread, stop_reason)
        with self._lock:
            thread.dkdbg_held_since = self._suspend_time_request

    def on_thread_resume(self: Any, thread_id: str, thread: Any) -> None:
        with self._lock:
            self._suspended_thread_id_to_thread.pop(thread_id, None)
            if not self._suspended_thread_id_to_thread:
                clocks.runs_on()
            told = self._last_suspend_notification_time
            if thread.dkdbg_held_since >= told > self._last_resume_notification_time:
                self._last_resume_notification_time = told
                self.send_resume_notification(thread_id)

    notification_class.on_thread_suspend = on_thread_suspend
    notification_class.on_thread_resume = on_thread_resume


def _answer_continue(pydevd: Any, api_class: Any) -> None:
    """Answer before any thread is let go: an editor takes the answer for the end of each stop that it was told of.

    pydevd waits until one runs, as a pause in between would be told to nobody; it tells of that after 0.5 s by itself.
    """
    resume = api_class.request_resume_thread

    def request_resume_thread(self: Any, thread_id: str) -> None:
        debugger = pydevd.get_global_debugger()
        with _lock:
            if debugger is not None:
                _call_back(debugger._threads_suspended_single_notification)
            resume(self, thread_id)

    api_class.request_resume_thread = request_resume_thread


def _call_back(notification: Any) -> None:
    with notification._callbacks_lock:
        callbacks, notification._callbacks = notification._callbacks, []
    for callback in callbacks:
        callback()
