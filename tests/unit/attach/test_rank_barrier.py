"""The barrier for ranks of several agents: the attach proxy's requests to each agent."""

import re
from typing import Any

from dkdbg.agent.proxy.broker import rank_timeouts
from dkdbg.attach.rank_barrier import FIRST_REPORT_TIMEOUT_S, JobBarrier


class Job:
    """Agents `a` and `b` with two ranks each, of a job of four."""

    def __init__(self, *agents: str) -> None:
        self.now = 100.0
        self.barrier = JobBarrier(lambda: self.now)
        self.number = 0
        for each in agents or ("a", "b"):
            self.barrier.expect(each)
            self.barrier.attached(each)

    def say(self, agent: str, unarmed: int = 0, armed: int = 0, held: int = 0, **more: Any) -> dict[str, Any]:
        """Report an agent's ranks; return the resulting requests by agent."""
        self.number += 1
        first = 2 * (ord(agent) - ord("a"))
        missing = [f"rank {first + n}" for n in range(unarmed or armed - held)]
        said = {"number": self.number, "unarmed": unarmed, "armed": armed, "held": held, "world": 4}
        self.barrier.hear(agent, {**said, "ranks": [first, first + 1], "missing": missing, **more})
        return self.later(0)

    def later(self, seconds: float) -> dict[str, Any]:
        self.now += seconds
        return dict(self.barrier.decide())


OPEN = {"do": "open"}


def test_nothing_is_asked_for_until_all_ranks_of_all_agents_are_armed_and_held():
    job = Job()
    assert job.say("a", unarmed=2) == {}
    assert job.say("a", armed=2, held=2) == {}  # the other one has not reported yet
    assert job.say("b", unarmed=1, armed=1, held=1) == {}
    assert job.later(5) == {}
    assert job.say("b", armed=2, held=1) == {}
    assert job.say("b", armed=2, held=2) == {"a": OPEN, "b": OPEN}
    assert job.later(0.05) == {}
    assert job.say("a", over=True) == {}
    assert job.say("b", over=True) == {}
    assert not job.barrier.is_closed


def test_those_that_are_held_pass_when_nothing_moves_and_each_agent_is_told_what_is_known_of_it():
    job = Job()
    job.say("a", armed=2, held=1)
    job.say("b", armed=2)
    assert job.later(rank_timeouts.QUIET_S / 2) == {}
    assert job.later(rank_timeouts.QUIET_S) == {"a": {"do": "pass", "number": 1}}
    assert job.say("a", armed=2) == {}
    assert job.say("b", armed=2, held=2) == {}
    assert job.say("a", armed=2, held=2) == {"a": OPEN, "b": OPEN}


def test_after_the_limit_those_who_are_there_stop_and_the_missing_are_named_with_their_agent():
    job = Job()
    job.say("a", armed=2, held=2)
    job.say("b", armed=2)
    asked: dict[str, Any] = {}
    end = job.now + 2 * rank_timeouts.GATHER_TIMEOUT_S
    while not any("why" in each for each in asked.values()):
        assert job.now < end
        job.say("a", armed=2, held=2)
        asked = job.later(0.05)
    why = asked["a"]["why"]
    assert re.fullmatch(
        r"stopped without the others: rank 2 on b, rank 3 on b: not at a breakpoint within 0\.\d s", why
    )


def test_those_that_are_there_open_when_an_agent_is_silent_gone_or_has_told_a_stop_or_the_job_is_whole():
    job = Job()
    job.say("a", armed=2, held=2)
    assert job.later(FIRST_REPORT_TIMEOUT_S / 2) == {}
    assert job.later(FIRST_REPORT_TIMEOUT_S) == {"a": OPEN}
    job = Job()
    job.say("a", armed=2, held=2)
    job.say("b", unarmed=2)
    job.barrier.forget("b")
    assert job.later(0) == {"a": OPEN}
    job = Job()
    job.say("a", armed=2, held=1)
    assert job.say("b", over=True) == {"a": OPEN}
    job = Job()
    assert job.say("a", armed=2, held=2, world=2) == {"a": OPEN}
    job = Job()
    job.say("a", armed=2, held=1, ranks=[0, 1])
    job.say("b", armed=2, held=1, ranks=[0, 1])
    assert job.say("b", armed=2, held=2, ranks=[0, 1]) == {"b": OPEN}


def test_an_agents_word_counts_unless_a_newer_one_came_and_whatever_it_says_is_no_error():
    job = Job()
    job.say("a", armed=2, held=2)
    job.say("b", armed=2, number=8)
    assert job.say("b", unarmed=1, armed=1, number=7) == {}
    assert job.say("b", armed=2, held=2, number=9) == {"a": OPEN, "b": OPEN}
    job = Job()
    for value in (None, -1, True, "x", [], {}, 1 << 80, [None, "x", [1]]):
        said = dict.fromkeys(
            ("number", "unarmed", "armed", "held", "over", "world", "ranks", "missing"), value
        )
        job.barrier.hear("a", said)
        job.barrier.hear("unknown", said)
        job.later(1)


def test_agents_whose_ranks_know_of_no_world_size_stop_apart_which_is_said_once():
    job = Job()
    assert job.say("a", unarmed=2, world=0, ranks=[0, 1]) == {}
    assert job.barrier.apart() == ""
    assert job.say("b", unarmed=2, world=0, ranks=[0, 1]) == {}
    assert job.barrier.apart() == (
        "the ranks of a, b stop per target, not together: "
        "the number of ranks in their job is unknown (torchrun sets WORLD_SIZE)"
    )
    assert job.say("b", armed=2, world=0, ranks=[0, 1]) == {}
    assert job.barrier.apart() == ""
    assert job.say("b", armed=2, held=2, world=0, ranks=[0, 1]) == {"b": OPEN}
    whole = Job()
    whole.say("a", unarmed=2)
    whole.say("b", unarmed=2)
    assert whole.barrier.apart() == ""


def test_an_agent_that_is_about_to_be_attached_to_is_waited_for_and_not_longer_than_any_other():
    job = Job("a")
    job.barrier.coming = frozenset("b")
    assert job.say("a", armed=2, held=2) == {}
    assert job.later(rank_timeouts.ARM_TIMEOUT_S / 2) == {}
    assert job.later(rank_timeouts.ARM_TIMEOUT_S)["a"]["why"].startswith(
        "stopped without the others: b: not attached to yet"
    )
    job = Job("a")
    job.barrier.coming = frozenset("b")
    assert job.say("a", armed=2, held=2) == {}
    job.barrier.coming = frozenset()
    assert job.later(0.05) == {"a": OPEN}
