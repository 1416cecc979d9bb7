"""What dkdbg tells people to type is typed by a test, or `tests/untyped.json` says why no test does."""

from __future__ import annotations

import pytest

from tests import said
from tests.hints import exercised, to_type, untyped

#: Why no test types what a text says.
REASONS = (
    "tells a state: ",  # there is nothing to type
    "help: ",  # stands in the help of a verb, which tells of what there is
    "part: ",  # of a text that is typed
    "by hand: ",  # what was done once, and what was seen
    "not here: ",  # what it needs that no machine of ours has
)


def test_each_text_is_typed_by_a_test_or_has_a_reason():
    listed, done, rest = set(said.listed()), set(exercised()), set(untyped())
    assert sorted(listed - done - rest) == [], "type it in a test, or say in tests/untyped.json why none does"
    assert sorted(rest & done) == [], "tests/untyped.json lists what a test types"
    assert sorted(rest - listed) == [], "tests/untyped.json lists a text that is gone"
    assert sorted(done - listed) == [], "a test types a text that is gone"


def test_each_reason_is_one_of_the_known_ones():
    assert [
        (text, why) for text, why in untyped().items() if not why.startswith(REASONS) or len(why) < 20
    ] == []


def test_what_is_typed_has_the_values_of_what_was_said():
    hint = "error: no\n  hint: job 7 is still held: dkdbg run --on slurm://login/7 -- python train.py\nmore"
    assert to_type(hint, "job {} is still held: dkdbg run --on {} -- python train.py") == [
        "dkdbg run --on slurm://login/7 -- python train.py"
    ]
    both = "dkdbg attach k8s://ml/a, or dkdbg down --on k8s://ml/b takes it away"
    assert to_type(both, "dkdbg attach k8s://{}/{}, or dkdbg down --on k8s://{}/{} takes it away") == [
        "dkdbg attach k8s://ml/a", "dkdbg down --on k8s://ml/b",
    ]  # fmt: skip
    assert to_type("  dkdbg attach --port 5\nnext: x", "  dkdbg attach --port {}") == [
        "dkdbg attach --port 5"
    ]


def test_a_text_that_was_not_said_fails():
    with pytest.raises(AssertionError, match="does not stand in"):
        to_type("all is well", "dkdbg init")
