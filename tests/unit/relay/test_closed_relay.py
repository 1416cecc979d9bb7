"""A relay that was closed while other threads still use it."""

import contextlib
import socket

from dkdbg.agent.relay import wire
from dkdbg.errors import DkdbgError
from dkdbg.relay.relay import Relay


def test_a_closed_relay_writes_to_no_descriptor_that_was_opened_since():
    def refuse(*_):
        raise DkdbgError("no transport")

    relay = Relay(refuse)
    relay.close()
    with contextlib.ExitStack() as opened:
        opened_since = [each for _ in range(20) for each in socket.socketpair()]
        for each in opened_since:
            opened.enter_context(each).setblocking(False)
        relay.tell(wire.SIGNAL, b"\x0f")
        for each in opened_since:
            with contextlib.suppress(BlockingIOError):
                assert not each.recv(1)
