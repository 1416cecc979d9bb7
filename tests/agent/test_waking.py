"""A held thread looks at its state at once."""

import contextlib
import queue
import threading
from types import SimpleNamespace

import pytest

from dkdbg.agent.inprocess.pydevd_patches import suspending


class _Debugger:
    """As much of pydevd's PyDB as its threads' command queues."""

    def __init__(self) -> None:
        self._thread_events = {"held": threading.Event(), "other": threading.Event()}
        self.posted: queue.Queue[_Command] = queue.Queue()

    def post_internal_command(self, command, thread_id):
        self.posted.put(command)
        self._thread_events[thread_id].set()


class _Command:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def do_it(self, debugger):  # noqa: ARG002
        if self.error:
            raise self.error


@pytest.mark.parametrize("error", [None, ValueError("cannot jump there")])
def test_a_held_thread_looks_again_after_its_command_though_it_failed(error):
    class Patched(_Debugger):
        pass

    suspending._wake_after_commands(Patched)
    debugger = Patched()
    debugger.post_internal_command(_Command(error), "held")
    for event in debugger._thread_events.values():
        event.clear()  # the thread has been woken by the request
    with pytest.raises(ValueError, match="jump") if error else contextlib.nullcontext():
        debugger.posted.get_nowait().do_it(debugger)
    assert all(event.is_set() for event in debugger._thread_events.values())


def test_an_editor_that_leaves_wakes_the_threads_that_it_held():
    class Api:
        def request_disconnect(self, py_db, resume_threads):
            assert resume_threads
            assert not any(event.is_set() for event in py_db._thread_events.values())
            self.request_resume_thread("*")  # as pydevd's own does

        def request_resume_thread(self, thread_id):
            assert thread_id == "*"

    debugger = _Debugger()
    suspending._wake_after_resume(SimpleNamespace(get_global_debugger=lambda: debugger), Api)
    Api().request_disconnect(debugger, resume_threads=True)
    assert all(event.is_set() for event in debugger._thread_events.values())
