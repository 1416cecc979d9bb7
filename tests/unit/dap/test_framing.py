"""Bytes in, messages out, in whatever pieces they come."""

import pytest

from dkdbg.agent.dap.frames import FrameError, encode
from dkdbg.dap.client import MessageReader

EVENT = {"seq": 1, "type": "event", "event": "output", "body": {"output": "grün\n"}}
RESPONSE = {"seq": 2, "type": "response", "request_seq": 7, "success": True}


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_messages_come_whole_from_pieces_of_any_size(size):
    data, reader, found = encode(EVENT) + encode(RESPONSE), MessageReader(), []
    for start in range(0, len(data), size):
        found += reader.feed(data[start : start + size])
    assert found == [EVENT, RESPONSE]


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 99\r\n\r\n",
        b"Content-Length: 2\r\n\r\n[]",
        b"Content-Length: 2\r\n\r\n{}",
        b"Content-Length: 16\r\n\r\n" + b'{"type":"event"}',
        b"Content-Length: 3\r\n\r\n{a}",
        b"x" * 5000,
    ],
)
def test_what_is_no_message_is_refused(data):
    with pytest.raises(FrameError):
        list(MessageReader(max_body=98).feed(data))
