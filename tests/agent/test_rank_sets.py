"""Sets of ranks as they are written on a command line, in dkdbg.toml and in a launch entry."""

import pytest

from dkdbg.agent.inprocess import ranks


@pytest.mark.parametrize(
    ("text", "inside", "shown"),
    [
        ("0,3", [0, 3], "0,3"),
        (" 3 , 0 ", [0, 3], "0,3"),
        ("all", list(range(10)), "all"),
        ("ALL", list(range(10)), "all"),
        ("failing", [], "failing"),
        ("0,failing", [0], "0,failing"),
        ("0-7:2", [0, 2, 4, 6], "0-7:2"),
        ("1-3", [1, 2, 3], "1-3"),
        ("2-2", [2], "2"),
        ("1-9:3,0", [0, 1, 4, 7], "0,1-9:3"),
        ("3,all", list(range(10)), "all"),
        ("0,0", [0], "0"),
    ],
)
def test_a_set_holds_the_ranks_that_are_written(text, inside, shown):
    found = ranks.parse(text)
    assert [rank for rank in range(10) if found.contains(rank)] == inside
    assert str(found) == shown
    assert ranks.parse(str(found)) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no ranks are named"),
        (" , ", "no ranks are named"),
        ("rank0", "not a set of ranks: 'rank0'"),
        ("0,x", "'x' in '0,x' is not a rank"),
        ("0,,1", "'' in '0,,1' is not a rank"),
        ("-1", "not a set of ranks: '-1'"),
        ("0:8:2", "not a set of ranks: '0:8:2'"),
        ("99999999999", "not a set of ranks"),
        ("0-", "not a set of ranks: '0-'"),
        ("0-4:0", "'0-4:0' has a step of 0"),
        pytest.param("x" * 500, "...", id="long"),
        ("\u0663", "not a set of ranks"),
    ],
)
def test_what_is_no_set_is_refused_with_its_wrong_part_and_the_way_to_write_one(text, said):
    with pytest.raises(ranks.RankSetError) as refusal:
        ranks.parse(text)
    assert said in str(refusal.value)
    assert len(str(refusal.value)) < 200
    assert refusal.value.hint == ranks.HINT


def test_a_span_that_runs_down_is_refused_and_turned_round_in_the_hint():
    with pytest.raises(ranks.RankSetError, match="'3-1' ends before it begins") as refusal:
        ranks.parse("3-1")
    assert refusal.value.hint == "write the lower rank first: 1-3"


def test_a_process_without_a_rank_is_only_in_all_and_failing_is_told_beside_the_numbers():
    assert ranks.EVERYONE.contains(None)
    assert not ranks.parse("0-7").contains(None)
    assert not ranks.parse("failing").contains(None)
    assert ranks.parse("0,failing").failing
    assert not ranks.parse("all,failing").failing
    assert ranks.parse("all,failing").everyone


def test_ranks_that_are_asked_for_and_not_there_are_named():
    assert ranks.parse("0-7:2").missing([0, 1, 2, 3]) == [4, 6]
    assert ranks.parse("all").missing([]) == []
    assert ranks.parse("0-9999999").missing([], limit=3) == [0, 1, 2]
