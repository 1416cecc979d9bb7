"""Lets a thread that pydevd holds look at its state at once, whenever something has changed it.

pydevd's wait loop looks, and then sleeps up to 0.2 s or until its event is set (PyDB._do_wait_suspend, debugpy 1.8.22).
Where pydevd changes the state and sets no event, everything takes 200 ms longer than it has to.
"""

# debugpy has no types, and this is where it is touched.
# ruff: noqa: ANN401

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def watch(debugger_class: Any, api_class: Any) -> None:
    """Wake held threads from now on; once for each process."""
    if getattr(debugger_class, "dkdbg_wakes", False):
        return
    debugger_class.dkdbg_wakes = True
    _after_commands(debugger_class)
    _after_disconnect(api_class)
    _after_resume(api_class)


def _after_commands(debugger_class: Any) -> None:
    """A step took 204 ms instead of 4 when the thread was asleep: the loop runs the command and then sleeps."""
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


def _after_disconnect(api_class: Any) -> None:
    """An editor that left took its stop along for up to 200 ms, and so did the one that came back at once."""
    disconnect = api_class.request_disconnect

    def request_disconnect(self: Any, py_db: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return disconnect(self, py_db, *args, **kwargs)
        finally:
            _wake(py_db)

    api_class.request_disconnect = request_disconnect


def _after_resume(api_class: Any) -> None:
    """Continue took up to 200 ms until the program ran."""
    resume = api_class.request_resume_thread

    def request_resume_thread(self: Any, thread_id: str) -> Any:
        try:
            return resume(self, thread_id)
        finally:
            debugger = sys.modules["pydevd"].get_global_debugger()
            if debugger is not None:
                _wake(debugger)

    api_class.request_resume_thread = request_resume_thread


def _wake(debugger: Any) -> None:
    for event in list(debugger._thread_events.values()):
        event.set()
