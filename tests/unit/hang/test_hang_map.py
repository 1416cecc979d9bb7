"""Processes at the same place are put together, and the odd ones come first."""

from typing import Any

from dkdbg.core.stacks import Frame, Process, Session, Thread
from dkdbg.hang import hang_map, output

STEP = Frame("/w/train.py", 41, "step", own=True)
REDUCE = Frame(
    "/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 3252, "all_reduce", own=False
)
LOAD = Frame("/w/data.py", 12, "load_batch", own=True)


def main(*frames: Frame) -> Thread:
    return Thread(name="MainThread", main=True, frames=frames)


def process(rank: int | None, *threads: Thread, **fields: Any) -> Process:
    known: dict[str, Any] = {
        "pid": 100 + (rank or 0),
        "ppid": 1,
        "name": f"rank {rank} (train.py)",
        "world_size": 4,
    }
    return Process(**(known | {"rank": rank, "threads": threads or None} | fields))


def session(*processes: Process, name: str = "job") -> Session:
    return Session(id=f"{name}-1", name=name, target="local", address=f"local:{name}", processes=processes)


def lines(*sessions: Session) -> str:
    return "\n".join(line for job in hang_map.jobs(sessions) for line in output.lines(job))


def test_the_one_that_is_elsewhere_comes_before_the_many():
    waiting = [process(rank, main(REDUCE, STEP)) for rank in (0, 1, 3)]
    (job,) = hang_map.jobs([session(*waiting, process(2, main(LOAD, STEP)))])
    assert [each.ranks for each in job.ranks] == [(2,), (0, 1, 3)]
    assert [output.headline(each, job) for each in job.ranks] == [
        "rank 2 in load_batch at data.py:12",
        "3 ranks (0, 1, 3) in all_reduce, from step at train.py:41",
    ]


def test_parts_of_one_world_are_one_job_and_two_jobs_with_the_same_ranks_stay_two():
    first = session(process(0, main(STEP)), process(1, main(STEP)), name="a")
    parts = [first, session(process(2, main(STEP)), name="b")]
    (job,) = hang_map.jobs(parts)
    assert (job.ranks[0].ranks, job.absent) == ((0, 1, 2), (3,))
    assert "rank 3 is missing" in lines(*parts)
    one = session(process(0, main(STEP)), name="a")
    two = session(process(0, main(LOAD)), name="b")
    assert len(hang_map.jobs([one, two])) == 2


def test_a_thread_that_is_elsewhere_is_told_of_with_its_rank():
    usual = Thread(name="loader", main=False, frames=(LOAD,))
    odd = Thread(name="loader", main=False, frames=(Frame("/w/data.py", 99, "lock", own=True),))
    said = lines(session(*(process(rank, main(STEP), odd if rank == 1 else usual) for rank in range(4))))
    assert said.index("thread loader of rank 1 in lock at data.py:99") < said.index(
        "thread loader of ranks 0, 2, 3 in"
    )


def test_who_does_not_answer_says_what_is_seen_of_it():
    said = lines(
        session(process(0, main(STEP)), process(1, why="it does not answer: it is stopped by a signal"))
    )
    assert "rank 1: it does not answer: it is stopped by a signal" in said


def test_what_processes_say_commands_no_terminal_and_makes_no_long_list():
    evil = "\x1b]0;owned\x07\r\n\u202e"
    frame = Frame(f"/w/{evil}.py", 1, evil, own=True)
    thread = Thread(name=evil, main=False, frames=(frame,))
    hostile = process(None, main(frame), thread, name=evil, stopped=evil, note=evil)
    said = lines(session(hostile, process(0, why=evil), name=evil))
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(said)
    assert all(line.isprintable() for line in said.split("\n"))
    said = lines(session(process(0, main(STEP), world_size=1 << 31)))
    assert len(said) < 1000


def test_ranks_that_may_be_on_a_target_without_an_answer_are_not_said_to_have_ended():
    (job,) = hang_map.jobs([session(process(0, main(STEP)))])
    assert output.absent(job).endswith(" are missing: ended, or never started")
    assert "never started, or on a target that cannot be queried" in output.absent(job, partial=True)
