"""The port of a plain debugpy: one that accepts connections and greets none, and what an editor says to it."""

import socket
import threading

from dkdbg.agent.dap import frames
from dkdbg.attach import plain_debugpy
from dkdbg.attach.plain_debugpy import Greeted, PlainPort


def test_a_deaf_debugpy_holds_up_neither_the_status_nor_the_end():
    near, far = socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as deaf, near, far:
        anchor, theirs = socket.socketpair()
        theirs.close()
        port = PlainPort(deaf.getsockname(), Greeted(sock=anchor, received=b""), lambda _: None)
        words = (far, b"{}", frames.FrameParser())
        threading.Thread(target=port.serve, args=words, daemon=True).start()
        accepted, _ = deaf.accept()
        ends = threading.Thread(target=lambda: (port.status(), port.close()), daemon=True)
        ends.start()
        ends.join(10)
        assert not ends.is_alive()
        accepted.close()


def test_endlessly_nested_json_of_an_editor_is_no_goodbye():
    assert not plain_debugpy._is_leave(b"[" * 100_000)
