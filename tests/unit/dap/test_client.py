"""One connection, against an adapter that the test plays itself."""

import socket
import threading

import pytest

from dkdbg.agent.dap.frames import MAX_BODY, FrameError, encode
from dkdbg.dap.client import MessageReader, Session, dial
from dkdbg.errors import EXIT_TIMEOUT, DkdbgError


class Adapter:
    """The far end of a session: reads what the client says, answers what it is told to."""

    def __init__(self):
        near, self.sock = socket.socketpair()
        self.session = Session(near, name="test")
        self.messages = self._read()

    def _read(self):
        reader = MessageReader()
        while data := self.sock.recv(4096):
            yield from reader.feed(data)

    def answer(self, **more):
        request = next(self.messages)
        answers = {"request_seq": request["seq"], "command": request["command"]}
        response = {"seq": 1, "type": "response", **answers}
        self.sock.sendall(encode({**response, "success": True, **more}))

    def event(self, event, **body):
        self.sock.sendall(encode({"seq": 1, "type": "event", "event": event, "body": body}))


@pytest.fixture
def adapter():
    adapter = Adapter()
    yield adapter
    adapter.sock.close()
    adapter.session.close()


def test_responses_may_come_in_any_order_and_a_refusal_says_what_and_why(adapter):
    first, second = adapter.session.send("a"), adapter.session.send("b")
    requests = [next(adapter.messages), next(adapter.messages)]
    for request in reversed(requests):
        body = {"command": request["command"]}
        message = {"seq": 1, "type": "response", "request_seq": request["seq"], "success": True, "body": body}
        adapter.sock.sendall(encode(message))
    assert adapter.session.response(first) == {"command": "a"}
    assert adapter.session.response(second) == {"command": "b"}
    number = adapter.session.send("attach")
    adapter.answer(success=False, message="no such process")
    with pytest.raises(DkdbgError, match="test: the debug adapter refused attach: no such process"):
        adapter.session.response(number)


def test_a_late_answer_is_a_time_out_and_does_no_harm_afterwards(adapter):
    with pytest.raises(DkdbgError, match=r"test: waited 0.01 s for an answer to threads") as caught:
        adapter.session.request("threads", timeout=0.01)
    assert caught.value.exit_code == EXIT_TIMEOUT
    adapter.answer(body={"late": True})
    number = adapter.session.send("scopes")
    adapter.answer(body={"scopes": []})
    assert adapter.session.response(number) == {"scopes": []}


def test_a_reverse_request_is_answered_even_while_the_client_sends(adapter):
    stop = threading.Event()

    def chatter():
        while not stop.is_set():
            adapter.session.send("threads")

    sender = threading.Thread(target=chatter)
    sender.start()
    answered = 0
    for number in range(50):
        adapter.sock.sendall(encode({"seq": number, "type": "request", "command": "startDebugging"}))
    for message in adapter.messages:
        answered += message["type"] == "response"
        if answered == 50:
            break
    stop.set()
    drain = threading.Thread(target=lambda: list(adapter.messages), daemon=True)
    drain.start()
    sender.join(300)
    assert not sender.is_alive()
    adapter.session.close()
    drain.join(300)


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_who_waits_is_told_when_the_connection_ends(adapter, data):
    number = adapter.session.send("threads")
    adapter.sock.sendall(data)
    adapter.sock.shutdown(socket.SHUT_RDWR)
    with pytest.raises(DkdbgError, match=r"the connection (was closed|broke .*) while waiting for response"):
        adapter.session.response(number, timeout=300)


def test_the_end_of_the_program_is_known_with_its_exit_code(adapter):
    adapter.event("process", systemProcessId=42)
    adapter.event("exited", exitCode=3)
    adapter.event("terminated")
    adapter.session.wait(lambda: adapter.session.is_ended, "the end", timeout=300)
    assert (adapter.session.pid, adapter.session.exit_code) == (42, 3)
    assert adapter.session.why_ended == "the program ended"


@pytest.mark.parametrize("ending", ["terminated", "closed while it waits", "closed before"])
def test_a_disconnect_is_done_when_the_session_ends_without_an_answer(adapter, ending):
    def end_after_the_request():
        next(adapter.messages)
        if ending == "terminated":
            adapter.event("terminated")
        else:
            adapter.sock.shutdown(socket.SHUT_RDWR)

    if ending == "closed before":
        adapter.sock.close()
    else:
        threading.Thread(target=end_after_the_request, daemon=True).start()
    assert adapter.session.request("disconnect", timeout=300) == {}


def test_a_disconnect_that_is_refused_is_told_and_another_request_that_the_session_has_ended(adapter):
    threading.Thread(target=adapter.answer, kwargs={"success": False, "message": "busy"}, daemon=True).start()
    with pytest.raises(DkdbgError, match="refused disconnect: busy"):
        adapter.session.request("disconnect", timeout=300)
    adapter.event("terminated")
    with pytest.raises(DkdbgError, match="the program ended while waiting for response"):
        adapter.session.request("threads", timeout=300)


@pytest.mark.parametrize("size", [2, MAX_BODY + 1])
@pytest.mark.parametrize("body", [b"{}", b'{"type":"event"}', b'{"type":"response","command":"a"}'])
def test_an_object_that_is_no_message_or_too_large_is_refused(size, body):
    with pytest.raises(FrameError):
        list(MessageReader().feed(b"Content-Length: %d\r\n\r\n%b" % (max(size, len(body)), body)))


def test_nobody_listening_is_said_with_the_address():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(DkdbgError, match=f"127.0.0.1:{port}: Connection refused"):
        dial("127.0.0.1", port, timeout=5)
