"""Wakes threads that pydevd has stopped as soon as their state changes.

pydevd's wait loop checks the state, and then sleeps up to 0.2 s or until its event is set
(PyDB._do_wait_suspend, debugpy 1.8.22). Where pydevd changes the state and sets no event, everything takes
200 ms too long.
"""

# debugpy is untyped.
# ruff: noqa: ANN401

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def watch() -> None:
    """Wake stopped threads from now on."""
    import pydevd
    from _pydevd_bundle.pydevd_api import PyDevdAPI

    _after_commands(pydevd.PyDB)
    _after_resume(pydevd, PyDevdAPI)


def _after_commands(debugger_class: Any) -> None:
    """Wake the thread after a command: a step took 204 ms instead of 4, because the loop sleeps after a command."""
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


def _after_resume(pydevd: Any, api_class: Any) -> None:
    """Wake the threads after a resume. Continue took up to 200 ms before the program ran.

    The same delay hit the program of an editor that left, and the next stop of one that came back at once:
    PyDevdAPI.request_disconnect resumes too.
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
