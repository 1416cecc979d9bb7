"""What passes sealed: to the byte, in order, once; and nothing that somebody has touched."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkdbg.agent.relay.sealed import LARGEST, Seal, SealError

KEY = bytes(range(32))


@given(pieces=st.lists(st.binary(min_size=1, max_size=400), max_size=8), cut=st.integers(1, 50))
def test_what_was_said_is_heard_however_it_is_cut(pieces, cut):
    sent, heard = Seal(KEY), Seal(KEY)
    wire = b"".join(map(sent.close, pieces))
    got = [piece for at in range(0, len(wire), cut) for piece in heard.open(wire[at : at + cut])]
    assert got == pieces


def test_what_is_larger_than_a_record_takes_several():
    data = os.urandom(LARGEST * 2 + 5)
    wire = Seal(KEY).close(data)
    assert b"".join(Seal(KEY).open(wire)) == data
    assert data[:64] not in wire


@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_one_bit_that_was_changed_ends_it(at, bit):
    wire = bytearray(Seal(KEY).close(b"continue, please"))
    wire[at % len(wire)] ^= 1 << bit
    heard = Seal(KEY)
    try:
        assert list(heard.open(bytes(wire))) == []  # a longer length: the rest is waited for
    except SealError:
        return
    assert at % len(wire) < 4


def test_a_record_again_one_that_is_left_out_and_one_of_another_key_are_refused():
    sent = Seal(KEY)
    first, second = sent.close(b"first"), sent.close(b"second")
    for wire in (first + first, second, Seal(KEY[::-1]).close(b"first")):
        with pytest.raises(SealError):
            list(Seal(KEY).open(wire))
