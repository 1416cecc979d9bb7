"""The reverse connection of an agent, to a listener that the test plays."""

import socket
import threading

from dkdbg.agent.supervisor.reverse import ReverseConnection


def test_an_end_waits_for_no_listener_that_says_nothing():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        connection = ReverseConnection(
            (*silent.getsockname(), "0" * 64), "t" * 40, {"id": "a", "name": "a", "port": 1}
        )
        accepted, _ = silent.accept()
        ends = threading.Thread(target=connection.close)
        ends.start()
        ends.join(6)
        assert not ends.is_alive()
        assert connection._process.returncode == 0
        accepted.close()
