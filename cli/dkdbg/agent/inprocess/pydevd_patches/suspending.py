"""Makes pydevd report all stops and answer all requests when several threads stop at the same time.

If threads stop while the editor continues others, four faults of pydevd (debugpy 1.8.22, debugpy #2048) leave threads
stopped without a report, or requests of the editor without an answer:

1. PyDB.set_suspend counts a stop, and marks the thread as stopped a moment later. If the editor continues another stop
   in between, this one counts as reported.
2. A resume marks threads as running one after another. A thread that stops meanwhile suspends those that are marked
   already, and is then resumed itself.
3. A thread that leaves its wait late reports that all threads run, although another stop has been reported
   meanwhile. When that stop is continued, this is not reported.
4. pydevd answers `continue` when a thread reports that it runs. There is no answer if nothing was stopped, or if
another
   thread stops before the resumed ones have noticed. debugpy's adapter accepts no further request before the answer,
   not even about the new stop.

This module also wakes stopped threads as soon as their state changes. pydevd's wait loop (PyDB._do_wait_suspend) checks
the state, and then sleeps up to 0.2 s unless its event is set. pydevd does not always set the event, and then the
thread reacts up to 200 ms late.
"""

# debugpy is untyped.
# ruff: noqa: ANN401

from __future__ import annotations

import _thread
import os

from .. import session
from ..clocks import clocks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Set, Tuple

#: File, as pydevd names it, and line -> number of stops at breakpoints there.
stops: Dict[Tuple[str, int], int] = {}
#: Maximum lines to count.
_MAX_LINES = 10_000
#: Held while threads are marked as stopped or as running. From `_thread`, which gevent does not patch.
_lock = _thread.RLock()
#: PIDs of processes that have reported that they cannot stop, because C code has forked them.
_said: Set[int] = set()
#: PID of the process in which the debugger's threads run. Until `forget`, a forked child has a copy of the debugger
#: without them, and a stop there would last forever.
_pid = 0


def watch() -> None:
    """Install the fixes in pydevd."""
    global _pid  # noqa: PLW0603
    import pydevd
    from _pydevd_bundle import pydevd_api, pydevd_comm, pydevd_thread_lifecycle

    _pid = os.getpid()
    _wake_after_commands(pydevd.PyDB)
    _wake_after_resume(pydevd, pydevd_api.PyDevdAPI)
    _stop_at_once(pydevd)
    _count_stops(pydevd)
    for module in (pydevd_api, pydevd_comm):
        module.resume_threads = _resuming_at_once(pydevd_thread_lifecycle, module.resume_threads)
    _tell_own_resuming(pydevd.ThreadsSuspendedSingleNotification)
    _answer_continue(pydevd, pydevd_api.PyDevdAPI)


def forget() -> None:
    """Replace the lock in a forked child, because a thread of the parent may have held it; allow stops again."""
    global _lock, _pid
    _lock, _pid = _thread.RLock(), os.getpid()


def _stop_at_once(pydevd: Any) -> None:
    suspend = pydevd.PyDB.set_suspend

    def set_suspend(self: Any, thread: Any, stop_reason: int, *args: Any, **kwargs: Any) -> None:
        if os.getpid() != _pid:
            if stop_reason == pydevd.CMD_SET_BREAK:
                _say_no_stop()
            return
        with _lock:
            suspend(self, thread, stop_reason, *args, **kwargs)

    pydevd.PyDB.set_suspend = set_suspend


def _say_no_stop() -> None:
    """Report why this forked child does not stop: it has only a copy of its parent's debugger."""
    member = session.member()
    if member is None or member.forking:
        session.say("no stop in a callback of os.fork: the child can stop once all its callbacks have run")
    elif (pid := os.getpid()) not in _said:
        _said.add(pid)
        session.say("no stop in pid %d: C code has forked it without the callbacks of os.fork" % pid)


def _count_stops(pydevd: Any) -> None:
    wait = pydevd.PyDB.do_wait_suspend

    def do_wait_suspend(self: Any, thread: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
        if os.getpid() != _pid:
            return None
        if thread.stop_reason == pydevd.CMD_SET_BREAK and len(stops) < _MAX_LINES:
            file = pydevd.pydevd_file_utils.canonical_normalized_path(frame.f_code.co_filename)
            stops[file, frame.f_lineno] = stops.get((file, frame.f_lineno), 0) + 1
        return wait(self, thread, frame, *args, **kwargs)

    pydevd.PyDB.do_wait_suspend = do_wait_suspend


def _resuming_at_once(lifecycle: Any, resume: Any) -> Any:
    def resume_threads(thread_id: str, except_thread: Any = None) -> None:
        with _lock:
            if except_thread is not None:  # the thread is stepping, and was resumed a moment ago
                info = lifecycle.set_additional_thread_info(except_thread)
                if info.pydev_state == lifecycle.STATE_SUSPEND:
                    return  # another thread has stopped since, and that stop is reported
            resume(thread_id, except_thread)

    return resume_threads


def _tell_own_resuming(notification_class: Any) -> None:
    suspend = notification_class.on_thread_suspend

    def on_thread_suspend(self: Any, thread_id: str, thread: Any, stop_reason: int) -> None:
        clocks.on_stop(is_first=not self._suspended_thread_id_to_thread)
        suspend(self, thread_id, thread, stop_reason)
        with self._lock:
            thread.dkdbg_held_since = self._suspend_time_request

    def on_thread_resume(self: Any, thread_id: str, thread: Any) -> None:
        with self._lock:
            self._suspended_thread_id_to_thread.pop(thread_id, None)
            clocks.on_resume(is_last=not self._suspended_thread_id_to_thread)
            notified_at = self._last_suspend_notification_time
            if thread.dkdbg_held_since >= notified_at > self._last_resume_notification_time:
                self._last_resume_notification_time = notified_at
                self.send_resume_notification(thread_id)

    notification_class.on_thread_suspend = on_thread_suspend
    notification_class.on_thread_resume = on_thread_resume


def _answer_continue(pydevd: Any, api_class: Any) -> None:
    """Answer `continue` before any thread is resumed.

    An editor takes the answer as the end of all stops that were reported before it, so no new stop may be reported
    before the answer. pydevd answers only when a thread runs.
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


def _wake_after_commands(debugger_class: Any) -> None:
    """Wake stopped threads after each command. pydevd's loop sleeps after one: a step took 204 ms instead of 4."""
    post = debugger_class.post_internal_command

    def post_and_wake(self: Any, command: Any, thread_id: str) -> None:
        run = command.do_it

        def run_and_wake(debugger: Any) -> None:
            try:
                run(debugger)
            finally:
                _wake(self)  # a step may resume the other threads too

        command.do_it = run_and_wake
        post(self, command, thread_id)

    debugger_class.post_internal_command = post_and_wake


def _wake_after_resume(pydevd: Any, api_class: Any) -> None:
    """Wake the threads after a resume, which otherwise run up to 200 ms after Continue.

    This includes PyDevdAPI.request_disconnect, which resumes when the editor leaves.
    """
    resume = api_class.request_resume_thread

    def request_resume_thread(self: Any, thread_id: str) -> Any:
        try:
            return resume(self, thread_id)
        finally:
            debugger = pydevd.get_global_debugger()
            if debugger is not None:
                _wake(debugger)

    api_class.request_resume_thread = request_resume_thread


def _wake(debugger: Any) -> None:
    for event in list(debugger._thread_events.values()):
        event.set()
