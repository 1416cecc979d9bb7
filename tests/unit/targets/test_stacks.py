"""What an agent says of stacks is checked: whoever is root where it runs may have written it."""

import json

import pytest

from dkdbg.agent.supervisor import where
from dkdbg.core import stacks
from dkdbg.core.record import BadRecord


def process(**fields):
    thread = {"name": "MainThread", "id": 7, "main": 1, "more": 0, "frames": [["/w/train.py", 41, "step", 1]]}
    return {
        "pid": 7, "ppid": 1, "name": "rank 0 (train.py)", "rank": 0, "world_size": 2, "os": "S", "threads": [thread],
    } | fields  # fmt: skip


def parse(*processes, **fields):
    said = {"version": 1, "sessions": [{"id": "a-1", "name": "a", "processes": list(processes)}]} | fields
    return stacks.parse(json.dumps(said), target="local", address="local:a")[0].processes


def test_a_process_has_its_threads_or_says_why_not_and_a_child_with_its_parents_rank_is_none():
    first, second = parse(process(), process(pid=8, rank=1, threads=None, why="it does not answer"))
    assert first.threads[0].frames == (stacks.Frame("/w/train.py", 41, "step", own=True),)
    assert (second.threads, second.why) == (None, "it does not answer")
    parent, child = parse(process(), process(pid=8, ppid=7))
    assert (parent.rank, child.rank) == (0, None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rank": -1}, {"rank": "0"}, {"pid": None}, {"threads": [1]}, {"threads": {}}, {"name": 3}, {"world_size": 1 << 40},
        {"threads": [{"frames": [["/w/train.py", "41", "step", 1]]}]}, {"threads": [{"frames": [["a", 1, "b"]]}]},
        {"threads": [{"frames": [["a", -1, "b", 1]]}]}, {"threads": [{"frames": "abc"}]},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(BadRecord):
        parse(process(**wrong))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2, "sessions": []}', "[" * 100_000])
def test_what_is_no_answer_is_refused(text):
    with pytest.raises(BadRecord):
        stacks.parse(text, target="local", address="local:")


def test_texts_and_lists_have_ends():
    frames = [["p" * 1000, 1, "f" * 1000, 1], *([["p", 1, "f", 1]] * 150)]
    threads = [{"name": "n", "main": 1, "frames": frames}] * 150
    found = parse(process(threads=threads))[0].threads
    assert (len(found), len(found[0].frames), len(found[0].frames[0].path)) == (100, 100, 500)


def test_no_answer_about_collectives_is_not_an_answer_that_there_are_none():
    answers = [
        parse(process(**each))[0].collectives for each in ({}, {"collectives": None}, {"collectives": []})
    ]
    assert answers == [None, None, ()]
    told = '{"threads": [], "left_out": 0}'
    assert [where._process({"pid": 1}, each)["collectives"] for each in (told, f"{told}\n[]")] == [None, []]
