"""A debugger whose sessions a test opens itself."""

import threading

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions


def test_an_end_is_seen_when_the_thread_that_opened_a_session_ends_last():
    debugger, waits = Debugger(AttachOptions(port=1)), threading.Event()
    opened = threading.Event()
    debugger._open = lambda *_: opened.wait(60)
    with debugger.changed:
        debugger._follow({"name": "a child"})
    waiter = threading.Thread(target=debugger.wait_ended, args=(60,))
    debugger._all_ended, usual = lambda: (waits.set(), usual())[1], debugger._all_ended
    waiter.start()
    assert waits.wait(60)
    opened.set()
    waiter.join(30)
    assert not waiter.is_alive()
