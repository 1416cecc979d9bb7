"""The rank that has not come to a collective, and the one that calls another one, by what torch has recorded."""

from dataclasses import replace

from dkdbg.core.stacks import Collective, Frame, Process, ProcessGroup, Thread
from dkdbg.hang.collectives import Late, Mismatch, findings

MAIN = Thread(name="MainThread", main=True, frames=(Frame("/w/train.py", 4, "step", own=True),))


def call(seq, age=9.0, op="all_reduce", tensor="Float [4]"):
    return Collective(seq=seq, op=op, tensors=(tensor,), state="scheduled", age=age)


def rank(number, *calls, group="default_pg", answers=True):
    groups = (ProcessGroup(name="0", description=group, last=calls),) if calls else ()
    return Process(
        pid=number + 1, ppid=1, name="", rank=number, world_size=4, threads=(MAIN,) if answers else None, collectives=groups
    )  # fmt: skip


def test_the_rank_that_lacks_the_first_collective_is_late_also_from_far_behind_or_from_none():
    found = findings([rank(0, call(5), call(6)), rank(1, call(5)), rank(2, call(5), call(6, age=3.0))])
    assert found == [Late(group="of all ranks", op="all_reduce", seq=6, late=(1,), waiting=(0, 2), age=3.0)]
    (found,) = findings([rank(0, call(6, age=8.0), call(7, age=7.0, op="barrier")), rank(1, call(5))])
    assert (found.seq, found.op, found.age) == (6, "all_reduce", 8.0)
    (found,) = findings([rank(0, call(1)), rank(1)])
    assert (found.seq, found.late) == (1, (1,))


def test_who_did_not_answer_or_goes_on_or_is_in_another_group_is_not_late_and_some_calls_may_differ():
    assert findings([rank(0, call(1)), rank(1, answers=False)]) == []
    assert findings([rank(0, call(5, age=0.2), call(6, age=0.01)), rank(1, call(5, age=0.2))]) == []
    assert findings([rank(0, call(6)), rank(1, call(6))]) == []
    other = call(6, op="all_gather", tensor="Float [7]")
    assert findings([rank(0, call(6, op="all_gather")), rank(1, other)]) == []
    assert findings([rank(0, call(3), group="tp"), rank(1, call(3), group="tp"), rank(2)]) == []


def test_another_shape_or_call_is_named_the_rarest_first_also_when_the_others_went_on():
    (found,) = findings([rank(0, call(6)), rank(1, call(6, tensor="Float [7]")), rank(2, call(6))])
    assert found.calls == (("all_reduce of Float [7]", (1,)), ("all_reduce of Float [4]", (0, 2)))
    (found,) = findings([rank(0, call(6)), rank(1, call(6, op="barrier"))])
    assert isinstance(found, Mismatch)
    first, second = findings([rank(0, call(6), call(7)), rank(1, call(6, tensor="Float [7]"))])
    assert isinstance(first, Mismatch)
    assert isinstance(second, Late)
    assert (first.seq, second.seq) == (6, 7)


def test_a_rank_without_an_answer_is_not_late_and_hides_no_rank_that_is():
    unknown = replace(rank(3), collectives=None)
    assert findings([rank(0, call(5)), rank(1, call(5)), unknown]) == []
    (found,) = findings([rank(0, call(5), call(6)), rank(1, call(5)), unknown])
    assert (found.seq, found.late, found.waiting) == (6, (1,), (0,))
