"""The agent as its own client, against brokers that the test plays itself."""

import json
import threading

import pytest

from dkdbg.agent.dap import frames
from dkdbg.agent.supervisor.own_client import OwnClient


def refuse_attach(sock, _first, parser):
    def send(**message):
        sock.sendall(frames.wrap(json.dumps({"seq": 1, **message}).encode()))

    send(type="response", request_seq=1, command="initialize", success=True)
    for body in frames.received(sock.recv, parser):
        command = json.loads(body)["command"]
        send(type="response", request_seq=2, command=command, success=command == "disconnect")


@pytest.mark.parametrize("broker", [lambda *_: None, refuse_attach], ids=["hangs-up", "refuses"])
def test_processes_are_not_waited_for_without_a_session(broker):
    with OwnClient(broker, "", "") as client:
        waiter = threading.Thread(target=client.wait, args=({1}, 120))
        waiter.start()
        waiter.join(60)
        assert not waiter.is_alive()
