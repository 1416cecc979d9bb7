"""Frames: whatever the pieces, the same frames; whatever the bytes, frames or a WireError."""

import contextlib
import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dkdbg.sync.receiver import wire

KINDS = st.sampled_from(sorted(wire.NAMES))
TEXT = st.text(st.characters() | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF), max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
FRAMES = st.lists(
    st.tuples(KINDS, st.dictionaries(TEXT, VALUES, max_size=4), st.binary(max_size=200)), max_size=6
)


def parse(pieces):
    parser, found = wire.Parser(), []
    for piece in pieces:
        parser.feed(piece)
        while frame := parser.take():
            found.append(frame)
    assert parser.rest() == 0
    return found


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]


@given(FRAMES, st.lists(st.integers(0, 40)))
def test_frames_come_out_as_they_went_in_whatever_the_pieces(frames, sizes):
    data = b"".join(wire.encode(*frame) for frame in frames)
    assert parse(cut(data, sizes)) == [tuple(frame) for frame in frames]


@given(FRAMES, st.data())
def test_a_byte_that_is_changed_gives_frames_or_a_wire_error(frames, data):
    whole = bytearray(b"".join(wire.encode(*frame) for frame in frames))
    if whole:
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    parser = wire.Parser()
    parser.feed(bytes(whole))
    with contextlib.suppress(wire.WireError):
        while frame := parser.take():
            kind, head, body = frame
            assert kind in wire.NAMES
            assert isinstance(head, dict)
            assert len(body) <= wire.MAX_BODY


@given(KINDS, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_lengths_over_the_limit_are_refused_before_their_bytes_arrive(kind, head, body):
    parser = wire.Parser()
    parser.feed(struct.pack("!BII", kind, head, body))
    if head > wire.MAX_HEAD or body > wire.MAX_BODY:
        with pytest.raises(wire.WireError, match="allowed"):
            parser.take()
    else:
        assert parser.take() is None or (head, body) == (0, 0)


def test_a_banner_on_the_stream_is_called_what_it_is():
    parser = wire.Parser()
    parser.feed(b"Welcome to node4!\n")
    with pytest.raises(wire.WireError, match="Welcome to node4"):
        parser.take()


@pytest.mark.parametrize(
    "head",
    [
        b"[]", b"1", b"null", b'"x"', b"{", b'{"a":1}x', b'{"a":\xff}', "{\"a\":\"\u00e9\"}".encode(), b"[" * 100_000,
        b'{"a":NaN}', b'{"a":-Infinity}', b'{"a":' + b"9" * 500_000 + b"}",
    ],
    ids=range(12),
)  # fmt: skip
def test_a_head_that_is_no_json_object_in_ascii_is_refused(head):
    parser = wire.Parser()
    parser.feed(struct.pack("!BII", wire.PUT, len(head), 0) + head)
    with pytest.raises(wire.WireError, match="PUT"):
        parser.take()


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (zlib.compress(b"[" + b" " * (64 << 20) + b"]"), "larger than"),
        (zlib.compress(b"{" + b" " * wire.MAX_HEAD + b"}"), "larger than"),
        (zlib.compress(b'{"entries":[]}')[:-1], "is cut"),
        (b'{"entries":[]}', "not compressed"),
    ],
    ids=["a bomb", "a little too large", "cut", "plain"],
)
def test_a_listing_that_does_not_unpack_to_a_head_is_refused(head, reason):
    parser = wire.Parser()
    parser.feed(struct.pack("!BII", wire.LISTING, len(head), 0) + head)
    tracemalloc.start()
    try:
        with pytest.raises(wire.WireError, match=reason):
            parser.take()
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_too_large_a_frame_is_not_sent():
    with pytest.raises(wire.WireError, match="too large"):
        wire.encode(wire.PUT, {}, b"x" * (wire.MAX_BODY + 1))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 5000), st.integers(1, 1000))
def test_a_listing_is_split_so_that_each_frame_fits_and_only_the_last_says_end(count, length):
    entries = [["\udcff" * length, "f", 0, 0, "", str(index)] for index in range(count)]
    frames = parse(wire.encode_entries(wire.LISTING, entries))
    assert [one for _, head, _ in frames for one in head["entries"]] == entries
    assert [head["end"] for _, head, _ in frames] == [False] * (len(frames) - 1) + [True]
