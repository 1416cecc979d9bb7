"""When a changed path is due, with a clock of the test's own."""

from hypothesis import given
from hypothesis import strategies as st

from dkdbg.sync.watch.inbox import MAX_WAIT_S, QUIET_S, Coalescer


def test_a_settled_path_is_due_at_once_and_once_without_those_that_wait():
    pending = Coalescer()
    pending.settled("a")
    pending.settled("a")
    assert pending.due() == 0.0
    assert pending.take(5.0) == {"a"}
    assert (pending.due(), pending.take(5.0)) == (None, frozenset())
    pending = Coalescer()
    pending.unsettled("a", 1.0)
    pending.settled("a")
    assert pending.take(1.0) == {"a"}
    assert pending.due() is None
    pending = Coalescer()
    pending.unsettled("gone", 1.0)
    pending.settled("a")
    assert pending.take(1.0) == {"a"}
    assert pending.due() == 1.0 + QUIET_S


def test_an_unsettled_path_waits_for_quiet_or_for_a_second():
    pending = Coalescer()
    pending.unsettled("a", 10.0)
    pending.unsettled("a", 10.03)
    assert pending.due() == 10.03 + QUIET_S
    assert pending.take(10.06) == frozenset()
    assert pending.take(10.03 + QUIET_S) == {"a"}
    pending = Coalescer()
    now = 0.0
    while now < MAX_WAIT_S:
        pending.unsettled("log", now)
        assert pending.take(now) == frozenset()
        now += QUIET_S / 2
    assert pending.take(MAX_WAIT_S) == {"log"}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.floats(0, 0.4)), max_size=30))
def test_nothing_is_ever_lost_nor_late(events):
    pending, now, owed = Coalescer(), 0.0, {}
    for path, settled, pause in events:
        now += pause
        for taken in pending.take(now):
            owed.pop(taken)
        if settled:
            pending.settled(path)
        else:
            pending.unsettled(path, now)
        owed.setdefault(path, now)
        due = pending.due()
        assert due <= min(owed.values()) + MAX_WAIT_S
    assert pending.take(now + MAX_WAIT_S) == set(owed)
