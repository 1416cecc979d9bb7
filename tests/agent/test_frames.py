"""The frame parser: whole frames from any pieces, garbage turned away at its first bytes."""

import pytest

from dkdbg.agent.dap.frames import FrameError, FrameParser, decode, encode

MESSAGES = [
    {"seq": n, "type": "request", "command": "x" * n, "arguments": {"text": "ü€"}} for n in (1, 70, 900)
]
STREAM = b"".join(encode(message) for message in MESSAGES)


def parse(parser: FrameParser, data: bytes) -> list[bytes]:
    parser.feed(data)
    found = []
    while (body := parser.take()) is not None:
        found.append(body)
    return found


@pytest.mark.parametrize("size", [1, 2, 7, 64, len(STREAM)])
def test_frames_come_whole_out_of_pieces_of_any_size(size):
    parser = FrameParser()
    bodies = [b for at in range(0, len(STREAM), size) for b in parse(parser, STREAM[at : at + size])]
    assert [decode(body) for body in bodies] == MESSAGES


def test_headers_in_any_case_and_other_ones_are_allowed():
    data = b"Content-Type: application/vscode-jsonrpc\r\ncontent-length:2\r\n\r\n{}"
    assert parse(FrameParser(), data) == [b"{}"]


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01",  # a TLS client
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"POST / HTTP/1.1\r\n",
        b"\r\n\r\n",
        b"Content-Length\r\n\r\n",
        b"Content-Length: -5\r\n\r\n",
        b"Content-Length: 5x\r\n\r\n",
        b"Content-Length: 9999999999999\r\n\r\n",
        b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n",
        b"Content-Type: x\r\n\r\n",
        b"A" * 200,
        b"X-Long: " + b"a" * 2000,
        bytes(range(256)),
    ],
)
def test_what_is_no_frame_is_refused(data):
    with pytest.raises(FrameError):
        parse(FrameParser(), data)


def test_a_body_larger_than_allowed_is_refused_before_it_arrives_and_one_that_is_no_json_object():
    with pytest.raises(FrameError, match="65537 bytes; the maximum is 65536"):
        parse(FrameParser(max_body=65536), b"Content-Length: 65537\r\n\r\n")
    for body in (b"", b"{", b"[1]", b"\xff\xfe", b"3", b"[" * 100_000):
        with pytest.raises(FrameError):
            decode(body)
