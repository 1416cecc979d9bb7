"""The root session stub: the order of its steps when an editor attaches."""

import socket
import threading

from dkdbg.agent.dap import frames
from dkdbg.agent.proxy.adapter.root_stub import RootStub


def test_who_attaches_is_asked_before_the_answer_lets_the_editor_in():
    """The answer completes a replayed attach, after which the client would count as another editor."""
    ours, theirs = socket.socketpair()
    heard, done = [], threading.Event()
    with ours, theirs:
        ours.setblocking(False)

        def is_new():
            try:
                heard.append(ours.recv(1))
            except BlockingIOError:
                heard.append(None)
            return False

        def on_attach(is_new):
            heard.append(is_new)
            done.set()

        stub = RootStub(
            theirs,
            is_new=is_new,
            on_attach=on_attach,
            on_breakpoints=print,
            on_detach=lambda _: None,
            on_lost=lambda: None,
        )
        ours.sendall(frames.encode({"seq": 1, "type": "request", "command": "configurationDone"}))
        assert done.wait(300)
        assert heard == [None, False]
        assert b"configurationDone" in ours.recv(65536)
        stub.close()
