"""A debugger whose sessions a test opens itself."""

import socket
import threading

from dkdbg.dap import debugger as debuggers
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


def test_a_session_that_is_connected_only_after_the_debugger_has_left_is_closed(monkeypatch):
    debugger, dials, goes_on = Debugger(AttachOptions(port=1)), threading.Event(), threading.Event()
    ours, theirs = socket.socketpair()

    def dial(*_, **__):
        dials.set()
        assert goes_on.wait(60)
        return ours

    monkeypatch.setattr(debuggers, "dial", dial)
    with debugger.changed:
        debugger._follow({"name": "a child"})
    assert dials.wait(60)
    debugger.disconnect(timeout=0)
    goes_on.set()
    theirs.settimeout(60)
    with theirs:
        assert not theirs.recv(1)
