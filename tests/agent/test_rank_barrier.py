"""The rank barrier as a state machine: which stops reach an editor, and when, after an attach to a running job."""

from types import SimpleNamespace
from typing import Any

import pytest

from dkdbg.agent.dap import messages
from dkdbg.agent.inprocess import ranks
from dkdbg.agent.proxy.broker import (
    broadcast_query,
    connection,
    group_control,
    rank_barrier,
    rank_timeouts,
    relay,
)
from dkdbg.agent.state.job import Share
from tests.agent.test_broker import Building, event, request, response, sent

RANKS = [11, 12, 13]


def processes(*pids: int, world: int = 3) -> list[Any]:
    """Return ranks as in the session's record: pid 11 is rank 0."""
    return [{"pid": pid, "ppid": 1, "rank": pid - 11, "world_size": world, "origin": ""} for pid in pids]


class Job(Building):
    """Brokers of three ranks of one editor; `armed` of them have answered their attach."""

    def __init__(
        self,
        armed: int = 3,
        *,
        is_closed: bool = True,
        world: int = 3,
        is_led: bool = False,
        **arguments: object,
    ) -> None:
        super().__init__()
        self.sessions.ranks = lambda: processes(*RANKS, world=world)
        self.begin(is_closed=is_closed, world=world, is_led=is_led)
        self.attach_ranks(armed, **arguments)

    def begin(self, *, is_closed: bool = True, world: int = 3, is_led: bool = False) -> None:
        """Attach the root session of an editor."""
        self.root = root = self.broker()
        root.from_client(request("initialize", clientID="vscode"))
        root.from_client(request("attach", seq=2, **({messages.LEADS_BARRIER: True} if is_led else {})))
        root.from_adapter(response("attach", 2))
        if is_closed and is_led:
            self.sessions.barrier.close_for_job(RANKS, Share(world, range(3)))
        elif is_closed:
            self.sessions.barrier.close(RANKS)

    def attach_ranks(self, armed: int = 3, **arguments: object) -> None:
        self.ranks = [self.broker() for _ in RANKS]
        for pid, one in zip(RANKS, self.ranks, strict=True):
            one.from_client(request("initialize", clientID="vscode"))
            editor = self.root.connection.editor
            one.from_client(request("attach", seq=2, subProcessId=pid, dkdbgEditor=editor, **arguments))
        for one in self.ranks[:armed]:
            one.from_adapter(response("attach", 2))

    def arm(self, number: int) -> list[connection.Action]:
        return self.ranks[number].from_adapter(response("attach", 2))

    def stop(self, number: int, reason: str = "breakpoint") -> list[connection.Action]:
        return self.ranks[number].from_adapter(
            event("stopped", threadId=1, reason=reason, allThreadsStopped=True)
        )

    def later(self, seconds: float) -> list[connection.Action]:
        self.now += seconds
        return self.sessions.barrier.settle()

    def ask(self, what: str, **arguments: object) -> list[connection.Action]:
        """Send a request of the root session's client."""
        wanted = {"seq": 9, "type": "request", "command": what, "arguments": arguments}
        return self.root.from_client(messages.body_of(wanted))

    def said(self, actions: list[connection.Action], name: str) -> list[dict[str, Any]]:
        mine = [each for each in actions if each.connection is self.root.connection]
        return [each["body"] for each in sent(mine, connection.TO_CLIENT) if each.get("event") == name]

    def told(self, actions: list[connection.Action]) -> list[int]:
        """Return the ranks whose stop is reported."""
        return [
            RANKS.index(action.connection.key)
            for action in actions
            if action.kind == connection.TO_CLIENT and b'"stopped"' in action.body
        ]

    def passed(self, actions: list[connection.Action]) -> list[int]:
        return [
            RANKS.index(action.connection.key)
            for action in actions
            if action.kind == connection.TO_ADAPTER and b'"continue"' in action.body
        ]


def test_no_stop_is_told_until_all_ranks_are_armed_and_held_also_where_it_comes_before():
    job = Job(armed=0)
    assert [job.stop(number) for number in range(3)] == [[], [], []]
    job.arm(0)
    job.arm(1)
    assert job.told(job.arm(2)) == [0, 1, 2]
    job = Job(armed=1)
    assert job.stop(0) == []
    assert job.told(job.arm(1)) == []
    assert job.later(5) == []  # one rank still imports debugpy
    assert job.told(job.arm(2)) == []
    assert job.stop(1) == []
    assert job.told(job.stop(2)) == [0, 1, 2]
    assert not job.sessions.barrier.is_closed


def test_ranks_that_others_wait_for_pass_once_and_their_editor_hears_nothing_of_it():
    job = Job()
    job.stop(0)
    assert job.held == {11: "breakpoint"}  # the clocks of the others stop
    assert job.later(rank_timeouts.QUIET_S / 2) == []
    assert job.passed(job.later(rank_timeouts.QUIET_S)) == [0]
    assert job.ranks[0].from_adapter(event("continued", threadId=1, allThreadsContinued=True)) == []
    assert job.held == {11: ""}
    job.stop(1)
    job.stop(2)
    assert job.told(job.stop(0)) == [0, 1, 2]
    assert set(job.held) == set(RANKS)
    (told,) = sent(job.ranks[0].from_adapter(event("continued", threadId=1)), connection.TO_CLIENT)
    assert told["event"] == "continued"


def test_no_observer_hears_of_a_stop_that_is_withheld():
    job = Job()
    job.ranks[0].from_client(request("configurationDone", seq=3))
    job.stop(0)
    one = job.initialized("192.0.2.2")
    one.from_client(request("attach", seq=2, dkdbgRole="look-on", subProcessId=11))
    told = sent(one.from_client(request("configurationDone", seq=3)), connection.TO_CLIENT)
    assert [each["event"] for each in told if each["type"] == "event"] == ["process"]
    job.stop(1)
    assert one.connection in [each.connection for each in job.stop(2) if b'"stopped"' in each.body]


def test_a_pause_of_all_ranks_shows_the_stops_that_are_withheld():
    """They count as stopped then, and none passes its line."""
    job, shown = Job(), []
    job.sessions.agent.processes = lambda: [
        {**each, "name": "", "started": 1.0} for each in processes(*RANKS)
    ]  # type: ignore[method-assign]
    job.ranks[0].connection.link = SimpleNamespace(to_client=shown.append)  # type: ignore[assignment]
    job.ranks[0].from_client(request("configurationDone", seq=3))
    job.stop(0)
    service = relay.Service(job.agent)  # type: ignore[arg-type]
    service._sessions = job.sessions
    (row,) = service.broadcast(broadcast_query.Query(broadcast_query.PAUSE, ranks=ranks.parse("0")), 300)
    assert (row["state"], row["text"]) == (broadcast_query.DONE, "it was already stopped")
    assert b'"stopped"' in shown[0]
    assert job.later(rank_timeouts.QUIET_S) == []


def test_a_line_that_is_not_for_all_ranks_stops_within_a_second_and_the_missing_are_named():
    job = Job()
    passes, began = 0, job.now
    while job.sessions.barrier.is_closed:
        if not job.sessions.barrier._held:
            job.stop(0)
        actions = job.later(0.05)
        passes += len(job.passed(actions))
    assert passes == 1
    assert job.now - began < 1.2
    assert job.told(actions) == [0]
    assert b"name of 12, name of 13" in actions[0].body
    assert job.told(job.stop(1)) == [1]


def test_a_rank_that_has_passed_and_does_not_come_back_is_named_in_its_console():
    """A line that runs once, for one rank, while another one imports debugpy."""
    job = Job(armed=2)
    job.stop(0)
    job.arm(2)
    assert job.passed(job.later(2 * rank_timeouts.QUIET_S)) == [0]
    (said,) = job.later(2 * rank_timeouts.QUIET_S)
    assert said.connection is job.ranks[0].connection
    assert rank_barrier.PASSED.encode() in said.body
    assert job.told(job.stop(1)) == [1]


@pytest.mark.parametrize("was_closed", [False, True])
def test_the_sessions_of_a_former_editor_that_end_late_take_no_rank_from_the_next_editors_barrier(was_closed):
    job = Job(is_closed=was_closed)
    job.stop(0)
    former = job.ranks
    for one in [job.root, *former]:
        one.from_client(request("disconnect", seq=5))
    job.root.adapter_gone()
    job.begin()
    for one in former:
        one.from_adapter(event("stopped", threadId=1, reason="breakpoint", allThreadsStopped=True))
        one.adapter_gone()
    job.attach_ranks()
    assert [job.told(job.stop(number)) for number in range(3)] == [[], [], [0, 1, 2]]


@pytest.mark.parametrize("answers", [True, False])
def test_one_that_cannot_be_debugged_is_not_waited_for_and_one_that_never_answers_with_a_limit(answers):
    job = Job(armed=2)
    job.stop(0)
    job.stop(1)
    if answers:
        job.sessions.barrier.left(13)
    actions = job.later(0 if answers else rank_timeouts.ARM_TIMEOUT_S + 1)
    assert job.told(actions) == [0, 1]
    assert (b"name of 13: not attached to yet" in actions[0].body) is not answers


def test_a_stop_after_all_have_been_armed_for_a_moment_is_told_at_once():
    """`if rank == 0:` at the end of an epoch: no rank may pass it for the others."""
    job = Job()
    assert job.later(rank_timeouts.QUIET_S + 0.1) == []
    assert job.told(job.stop(0)) == [0]


@pytest.mark.parametrize("reason", ["exception", "pause", "step"])
def test_other_stops_are_told_at_once(reason):
    job = Job()
    job.stop(0)
    assert job.told(job.stop(1, reason)) == [1]
    assert job.told(job.later(0)) == [0]  # it waits for no other ranks: none passes for it


def test_breakpoints_with_conditions_are_told_at_once_and_to_who_asks_for_a_pause_those_held_back():
    job = Job()
    job.stop(0)
    assert job.told(job.ranks[1].from_client(request("pause", seq=5, threadId=1))) == [0]
    job = Job()
    points = [{"line": 3, "condition": "rank == 0"}]
    job.ranks[0].from_client(request("setBreakpoints", seq=3, source={"path": "/t.py"}, breakpoints=points))
    assert job.told(job.stop(0)) == [0]


def test_one_rank_alone_and_one_that_starts_later_are_not_held_up():
    job = Job(is_closed=False)
    job.sessions.barrier.close([11])
    assert job.told(job.stop(0)) == [0]


def test_one_continue_lets_all_ranks_go_and_its_answer_does_not_reach_the_client():
    job = Job(is_closed=False)
    for number in (0, 2):
        job.stop(number)
    actions = job.ranks[0].from_client(request("continue", seq=9, threadId=1))
    assert job.passed(actions) == [0, 2]
    ours = sent([each for each in actions if each.connection.key == 13], connection.TO_ADAPTER)[0]["seq"]
    assert ours >= messages.OWN_SEQUENCE
    assert job.ranks[2].from_adapter(response("continue", ours)) == []


@pytest.mark.parametrize(
    ("said", "by_default", "passed"),
    [("one", "", [0]), ("one", "all", [0]), (None, "one", [0]), ("all", "one", [0, 1]), (None, "", [0, 1])],
)
def test_whom_a_continue_is_for_is_the_editors_choice_before_the_agents(said, by_default, passed):
    one = Job(is_closed=False, **({"dkdbgContinue": said} if said else {}))
    one.agent.continues = by_default
    one.stop(0)
    one.stop(1)
    assert one.passed(one.ranks[0].from_client(request("continue", seq=9, threadId=1))) == passed


def test_one_pause_pauses_all_ranks_that_run_and_those_that_have_not_said_yet_that_they_run():
    job = Job(is_closed=False)

    def paused(seq):
        actions = job.ranks[0].from_client(request("pause", seq=seq, threadId=1))
        return [action.connection.key for action in actions if b'"pause"' in action.body]

    job.stop(2)
    assert paused(8) == [11, 12]
    for number in range(2):
        job.stop(number)
    job.ranks[0].from_client(request("continue", seq=9, threadId=1))
    assert paused(10) == [11, 12, 13]
    job.stop(2, "pause")
    job.ranks[0].from_client(request("continue", seq=11, threadId=1))
    job.stop(1)
    assert paused(12) == [11, 13]


def test_a_process_that_is_no_rank_goes_on_alone():
    job = Job(is_closed=False)
    job.sessions.ranks = lambda: processes(12, 13)
    for number in range(3):
        job.stop(number)
    assert job.passed(job.ranks[0].from_client(request("continue", seq=9, threadId=1))) == [0]


def test_a_client_that_has_other_agents_too_is_told_of_each_change_and_decides():
    job = Job(armed=2, world=4, is_led=True)
    (armed,) = job.said(job.arm(2), messages.BARRIER)
    assert (armed["unarmed"], armed["armed"], armed["held"]) == (0, 3, 0)
    assert (armed["world"], armed["ranks"]) == (4, [0, 1, 2])
    for number in range(3):
        actions = job.stop(number)
        assert job.told(actions) == []
    (held,) = job.said(actions, messages.BARRIER)
    assert (held["held"], held["missing"]) == (3, [])
    assert job.later(rank_barrier.LED_TIMEOUT_S / 2) == []
    assert job.passed(job.ask(messages.BARRIER, do="pass", number=held["number"] - 1)) == []
    passed = job.ask(messages.BARRIER, do="pass", number=held["number"])
    assert job.passed(passed) == [0, 1, 2]
    assert job.said(passed, messages.BARRIER)[0]["held"] == 0
    job.stop(1)
    opened = job.ask(messages.BARRIER, do="open", why="stopped without the others: rank 3")
    assert job.told(opened) == [1]
    assert job.said(opened, messages.BARRIER)[0]["over"] is True
    assert b"rank 3" in next(each.body for each in opened if each.connection.key == 12)


def test_a_client_that_never_decides_is_waited_for_with_a_limit():
    job = Job(world=4, is_led=True)
    job.stop(0)
    assert job.told(job.later(rank_barrier.LED_TIMEOUT_S + 1)) == [0]


@pytest.mark.parametrize("command", ["continue", "pause", "disconnect"])
def test_what_is_done_to_one_rank_the_client_with_other_agents_hears_of(command):
    job = Job(is_closed=False, world=4, is_led=True)
    job.stop(0)
    (said,) = job.said(job.ranks[0].from_client(request(command, seq=9, threadId=1)), messages.GROUP)
    assert said == {"command": command, "world": 4, "ranks": [0, 1, 2]}
    whole = Job(is_closed=False, world=3, is_led=True)
    whole.stop(0)
    actions = whole.ranks[0].from_client(request(command, seq=9, threadId=1))
    assert whole.said(actions, messages.GROUP) == []


def test_ranks_go_on_pause_and_are_left_with_those_of_another_agent_if_they_are_of_one_job():
    job = Job(is_closed=False, world=4, is_led=True)
    job.stop(0)
    there = {"world": 4, "ranks": [3]}
    assert job.passed(job.ask(messages.GROUP, command="continue", **{**there, "ranks": [0, 3]})) == []
    assert job.passed(job.ask(messages.GROUP, command="continue", **{**there, "world": 5})) == []
    assert job.passed(job.ask(messages.GROUP, command="continue", **there)) == [0]
    actions = job.ask(messages.GROUP, command="pause", **there)
    assert [each.connection.key for each in actions if b'"pause"' in each.body] == [11, 12, 13]
    actions = job.ask(messages.GROUP, command="disconnect", **there)
    assert {each.connection.key for each in actions if b'"terminated"' in each.body} == {0, 11, 12, 13}


def test_a_stop_stops_the_clocks_of_another_agent_unless_it_has_ranks_of_another_job():
    job, elsewhere = Job(is_closed=False, world=4, is_led=True), []
    job.stop(0)
    (said,) = job.said(group_control.held(job.sessions), messages.GROUP)
    assert said == {"command": "held", "world": 4, "ranks": [0, 1, 2]}
    whole = Job(is_closed=False, world=3, is_led=True)
    (said,) = whole.said(group_control.held(whole.sessions), messages.GROUP)
    assert said == {"command": "held", "world": 3, "ranks": [0, 1, 2]}
    assert group_control.held(Job(is_closed=False, world=3).sessions) == []
    job.sessions.agent.on_other_agent_held = lambda: elsewhere.append(1)
    assert job.told(job.ask(messages.GROUP, command="held", world=4, ranks=[0])) == []
    assert elsewhere == []
    assert job.told(job.ask(messages.GROUP, command="held", world=4, ranks=[3])) == []
    assert job.told(job.ask(messages.GROUP, command="held", world=0, ranks=[])) == []  # a service
    assert elsewhere == [1, 1]


def test_only_the_root_session_speaks_for_other_agents():
    job = Job(is_closed=False, world=4)
    (answer,) = sent(
        job.ranks[0].from_client(request(messages.BARRIER, seq=9, do="open")), connection.TO_CLIENT
    )
    assert answer["success"] is False
