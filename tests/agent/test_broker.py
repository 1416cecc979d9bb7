"""The broker as a state machine: passed and refused messages, and random clients."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkdbg.agent.dap import frames
from dkdbg.agent.inprocess.ranks import RankSet
from dkdbg.agent.proxy.broker import broker, connection, sessions
from dkdbg.agent.proxy.broker.agent import Agent
from tests.unit.attach.test_router import JSON, PARAMETERS, event, messages_of, request

TOKEN = "sésame"


class RecordedAgent(Agent):
    """An agent that records where its processes are held."""

    def __init__(self, token: str) -> None:
        super().__init__(token)
        self.held: dict[int, str] = {}
        self.chosen: list[str] = []

    def choose(self, wanted: RankSet | None) -> None:
        self.chosen.append(str(wanted))

    def name_of(self, pid: int) -> str:
        return f"name of {pid}"

    def on_stop(self, pid: int, where: str) -> None:
        self.held[pid] = where


class Building:
    """Sessions with a clock, and brokers whose actions the test carries out."""

    def __init__(self, token: str = "") -> None:
        self.now = 0.0
        self.agent = RecordedAgent(token)
        self.held = self.agent.held
        self.sessions = sessions.Sessions(self.agent, clock=lambda: self.now, wall=lambda: "12:34")

    def broker(self, address: str = "192.0.2.1") -> broker.Broker:
        return broker.Broker(self.sessions, address)

    def initialized(self, address="192.0.2.1", **arguments):
        one = self.broker(address)
        one.from_client(request("initialize", **arguments))
        return one

    def attached(self, **arguments):
        one = self.initialized()
        one.from_client(request("attach", seq=2, **arguments))
        one.from_adapter(response("attach", 2))
        assert one.phase == connection.CONTROLLING
        return one

    def observer(self, **arguments):
        one = self.initialized("192.0.2.2")
        one.from_client(request("attach", seq=2, dkdbgRole="look-on", **arguments))
        one.from_client(request("configurationDone", seq=3))
        assert one.phase == connection.OBSERVING
        return one


def response(command: str, to: int, *, success: bool = True, **body: Any) -> bytes:
    head = {"seq": 7, "type": "response", "request_seq": to, "success": success, "command": command}
    return json.dumps({**head, "body": body}).encode()


def sent(actions: list[connection.Action], kind: str) -> list[dict[str, Any]]:
    return [json.loads(action.body) for action in actions if action.kind == kind]


def test_nothing_passes_before_the_attach_and_after_it_a_body_as_it_came():
    building = Building()
    one = building.initialized()
    for command in ("evaluate", "setExpression", "launch", "threads", "pydevdSystemInfo"):
        (action,) = one.from_client(request(command, seq=2))
        assert (action.kind, json.loads(action.body)["success"]) == (connection.TO_CLIENT, False), command
    one = building.attached()
    body = b'{ "seq":3, "type":"request",\n "command":"evaluate" }'
    (action,) = one.from_client(body)
    assert (action.kind, action.body) == (connection.TO_ADAPTER, body)
    large = b'{"seq": 5, "type": "response", "request_seq": 3, "body": "' + b"x" * 100_000 + b'" NOT JSON'
    (action,) = one.from_adapter(large)
    assert (action.kind, action.body) == (connection.TO_CLIENT, large)


def test_guessing_is_slowed_down_and_a_right_token_gets_in_at_any_time():
    building = Building(TOKEN)

    def attach(token, address):
        one = building.initialized(address)
        actions = one.from_client(request("attach", seq=2, dkdbgToken=token))
        waits = sum(action.seconds for action in actions)
        if waits:
            assert not one.ready()
            actions = one.resume()
        if actions[0].kind == connection.TO_ADAPTER:
            return "in", waits
        assert actions[-1].kind == connection.CLOSE
        return sent(actions, connection.TO_CLIENT)[0]["message"], waits

    said, waits = attach(None, "192.0.2.9")
    assert "is missing" in said
    for _ in range(20):
        said, waits = attach("x", "192.0.2.9")
        assert "is wrong" in said
    assert waits > 0
    assert attach(TOKEN, "192.0.2.9") == ("in", 0)
    assert attach("x", "192.0.2.8")[1] == 0
    building.now += 30
    assert attach("x", "192.0.2.9")[1] == 0


def test_children_are_named_in_both_kinds_of_announcement():
    one = Building().attached(dkdbgRole="take-over")
    body = {"name": "Subprocess 7", "subProcessId": 7, "dkdbgRole": "take-over", "dkdbgToken": "t"}
    reverse = {"seq": 4, "type": "request", "command": "startDebugging"}
    asked = json.dumps({**reverse, "arguments": {"request": "attach", "configuration": body}}).encode()
    (named,) = sent(one.from_adapter(asked), connection.TO_CLIENT)
    wanted = {"name": "name of 7", "subProcessId": 7, "dkdbgToken": "t", "dkdbgEditor": one.connection.editor}
    assert named["arguments"]["configuration"] == wanted
    (named,) = sent(one.from_adapter(event("debugpyAttach", **body)), connection.TO_CLIENT)
    assert named["body"] == wanted


def test_the_state_of_a_process_follows_its_stops():
    building = Building()
    one = building.attached(subProcessId=7)
    one.from_adapter(event("stopped", threadId=1, reason="breakpoint"))
    assert building.held == {7: "breakpoint"}
    one.from_client(request("stackTrace", seq=9, threadId=1))
    one.from_adapter(response("stackTrace", 9, stackFrames=[{"source": {"path": "/w/a.py"}, "line": 3}]))
    assert building.held == {7: "a.py:3 (breakpoint)"}
    one.from_client(request("stackTrace", seq=10, threadId=1, startFrame=1, levels=19))  # as VS Code
    one.from_adapter(response("stackTrace", 10, stackFrames=[{"source": {"path": "/w/b.py"}, "line": 4}]))
    assert building.held == {7: "a.py:3 (breakpoint)"}
    one.from_adapter(event("continued", threadId=1))
    assert building.held == {7: ""}


@pytest.mark.parametrize("command", ["continue", "next", "stepIn", "stepOut", "disconnect", "terminate"])
def test_a_process_that_was_asked_to_go_on_is_not_held_before_the_adapter_confirms_it(command):
    building = Building()
    one = building.attached(subProcessId=7)
    one.from_adapter(event("stopped", threadId=1, reason="breakpoint"))
    one.from_client(request(command, seq=9, threadId=1))
    assert building.held == {7: ""}


@pytest.mark.parametrize("ends", ["refused", "continues one thread"])
def test_a_process_that_does_not_go_on_as_asked_is_held_where_it_was(ends):
    building = Building()
    one = building.attached(subProcessId=7)
    for thread in (1, 2):
        one.from_adapter(event("stopped", threadId=thread, reason="breakpoint"))
    one.from_client(request("stackTrace", seq=8, threadId=2))
    one.from_client(request("stepIn", seq=9, threadId=1))
    top = {"source": {"path": "/w/train.py"}, "line": 3}
    one.from_adapter(response("stackTrace", 8, stackFrames=[top]))
    assert building.held == {7: ""}, "a late answer"
    if ends == "refused":
        one.from_adapter(response("stepIn", 9, success=False))
    else:
        one.from_adapter(event("continued", threadId=1, allThreadsContinued=False))
    assert building.held == {7: "breakpoint"}


def test_an_observer_gets_copies_and_its_requests_are_passed_on():
    building = Building()
    first = building.attached(subProcessId=7)
    second = building.observer(subProcessId=7)
    actions = first.from_adapter(event("stopped", threadId=1, reason="step"))
    assert [action.connection for action in actions] == [first.connection, second.connection]
    (asked,) = second.from_client(request("stackTrace", seq=5, threadId=1))
    assert (asked.connection, asked.kind) == (first.connection, connection.TO_ADAPTER)
    number = json.loads(asked.body)["seq"]
    (answered,) = first.from_adapter(response("stackTrace", number, stackFrames=[]))
    assert (answered.connection, json.loads(answered.body)["request_seq"]) == (second.connection, 5)
    (refused,) = sent(second.from_client(request("continue", seq=6)), connection.TO_CLIENT)
    assert refused["message"] == (
        "dkdbg: another editor (since 12:34, from 192.0.2.1) controls this session; "
        'add "dkdbgRole": "take-over" to this configuration to take it over'
    )
    ended = first.from_adapter(event("exited")) + first.from_adapter(event("terminated"))
    told = sent([each for each in ended if each.connection is second.connection], connection.TO_CLIENT)
    assert [each["event"] for each in told] == ["exited", "terminated"]
    assert first.adapter_gone() == []


def test_an_attach_that_fails_leaves_the_process_free_and_another_waits_for_one_that_is_just_leaving():
    building = Building()
    failed = building.initialized()
    failed.from_client(request("attach", seq=2))
    failed.from_adapter(response("attach", 2, success=False))
    assert building.sessions.controller(connection.ROOT) is None
    first = building.attached()
    second = building.initialized()
    (wait,) = second.from_client(request("attach", seq=2))
    assert wait.kind == connection.WAIT
    assert not second.ready()
    first.client_gone()
    assert second.ready()
    (wait,) = second.resume()
    first.ended()
    assert second.ready()
    assert [action.kind for action in second.resume()] == [connection.TO_ADAPTER]


def test_a_take_over_tells_the_first_client_and_waits_for_its_end():
    building = Building()
    root, child = building.attached(), building.attached(subProcessId=7)
    second = building.initialized("192.0.2.5")
    actions = second.from_client(request("attach", seq=2, dkdbgRole="take-over"))
    for one in (root, child):
        of_it = [action for action in actions if action.connection is one.connection]
        kinds = [connection.TO_CLIENT, connection.TO_CLIENT, connection.TO_ADAPTER]
        assert [action.kind for action in of_it] == kinds
        assert one.from_client(request("continue", seq=9))[0].kind == connection.TO_CLIENT
    root.adapter_gone()
    assert not second.ready()
    child.adapter_gone()
    assert second.ready()
    assert [action.kind for action in second.resume()] == [connection.TO_ADAPTER]
    assert building.sessions.controller(connection.ROOT) is second.connection


def test_what_an_editor_still_opens_after_its_root_session_was_left_ends_at_once():
    building = Building()
    root = building.attached()
    strange = building.attached(subProcessId=8)  # by a port of its own: of no editor
    child = building.attached(subProcessId=7, dkdbgEditor=root.connection.editor)
    actions = root.from_client(request("disconnect", seq=9))
    assert [(each.connection, each.kind) for each in actions] == [
        (root.connection, connection.TO_ADAPTER),
        (child.connection, connection.TO_CLIENT),
        (child.connection, connection.TO_CLIENT),
        (child.connection, connection.TO_ADAPTER),
    ]
    assert strange.phase == connection.CONTROLLING
    late = building.initialized()
    told = sent(
        late.from_client(request("attach", seq=2, subProcessId=9, dkdbgEditor=root.connection.editor)),
        connection.TO_CLIENT,
    )
    assert told[1]["event"] == "terminated"


def test_who_stops_one_process_leaves_the_other_sessions_of_the_same_editor_and_its_own_end_takes_none_along():
    for ends_by_itself in (True, False):
        building = Building()
        root = building.attached()
        child = building.attached(subProcessId=7, dkdbgEditor=root.connection.editor)
        other = building.attached(subProcessId=8, dkdbgEditor=root.connection.editor)
        strange = building.attached(subProcessId=9)  # by a port of its own: of no editor
        left = strange.from_client(request("disconnect", seq=9))
        assert {each.connection for each in left} == {strange.connection}
        if ends_by_itself:
            child.from_adapter(event("terminated"))
        ended = child.from_client(request("disconnect", seq=9))
        others = set() if ends_by_itself else {root.connection, other.connection}
        assert {each.connection for each in ended} == {child.connection, *others}
    assert root.from_client(request("disconnect", seq=9))[-1].kind == connection.CLOSE


def test_a_root_session_that_comes_back_or_ends_the_program_leaves_the_others_alone():
    for argument in ("restart", "terminateDebuggee"):
        building = Building()
        root = building.attached()
        child = building.attached(subProcessId=7, dkdbgEditor=root.connection.editor)
        actions = root.from_client(request("disconnect", seq=9, **{argument: True}))
        assert [action.connection for action in actions] == [root.connection]
        assert child.phase == connection.CONTROLLING


def test_the_ranks_of_an_editor_that_has_left_are_not_those_of_the_next_one():
    """The agent went back to its own set only after the next editor had been let in, whose set was lost."""
    building = Building()
    building.attached(dkdbgRanks="0,3").ended()
    building.attached(dkdbgRanks="0-2:2").ended()
    assert building.agent.chosen == ["0,3", "None", "0-2:2", "None"]
    building.attached()
    assert building.agent.chosen[4:] == ["None"]


def test_a_root_session_is_set_up_at_a_new_adapter_with_what_the_client_has_set():
    building = Building(TOKEN)
    one = building.attached(dkdbgToken=TOKEN, justMyCode=True)
    one.from_client(request("setExceptionBreakpoints", seq=3, filters=["uncaught"]))
    one.from_adapter(response("setExceptionBreakpoints", 3))
    one.from_client(request("threads", seq=4))
    actions = one.adapter_gone()
    assert [m["message"] for m in sent(actions, connection.TO_CLIENT) if m["type"] == "response"] == [
        "dkdbg: debugpy's adapter died"
    ]
    assert actions[-1].kind == connection.RECONNECT
    (initialize,) = sent(one.again(), connection.TO_ADAPTER)
    assert one.again() == []
    assert one.from_client(request("setFunctionBreakpoints", seq=5, breakpoints=[])) == []
    (attach,) = sent(one.from_adapter(response("initialize", initialize["seq"])), connection.TO_ADAPTER)
    assert attach["arguments"] == {"dkdbgToken": TOKEN, "justMyCode": True}
    configured = sent(one.from_adapter(event("initialized")), connection.TO_ADAPTER)
    assert [(m["command"], m["arguments"]) for m in configured] == [
        ("setExceptionBreakpoints", {"filters": ["uncaught"]}),
        ("configurationDone", {}),
    ]
    (passed,) = one.from_adapter(response("attach", attach["seq"]))
    assert (passed.kind, json.loads(passed.body)["seq"]) == (connection.TO_ADAPTER, 5)
    assert one.phase == connection.CONTROLLING


@pytest.mark.parametrize(
    ("client", "key", "told"),
    [
        ({"clientID": "lsp4e"}, {}, True),
        ({}, {}, True),
        ({"clientID": "vscode"}, {}, False),
        ({"clientID": "neovim", "supportsStartDebuggingRequest": True}, {}, False),
        ({"clientID": "lsp4e"}, {"subProcessId": 7}, False),
    ],
)
def test_a_client_that_opens_no_child_sessions_is_told_what_to_do(client, key, told):
    one = Building().initialized(**client)
    one.from_client(request("attach", seq=2, **key))
    said = sent(one.from_adapter(response("attach", 2)), connection.TO_CLIENT)
    assert ["dkdbg attach --ports" in json.dumps(message) for message in said[1:]] == [True] * told


def test_an_answer_passes_to_the_adapter_that_has_asked_and_to_no_other():
    one = Building().attached()
    reverse = {"seq": 4, "type": "request", "command": "startDebugging", "arguments": {}}
    answer = json.dumps({"seq": 3, "type": "response", "request_seq": 4, "success": True}).encode()
    assert one.from_client(answer) == []
    one.from_adapter(json.dumps(reverse).encode())
    assert [action.body for action in one.from_client(answer)] == [answer]
    assert one.from_client(answer) == []


def test_the_longest_observer_gets_a_process_with_its_breakpoints_and_ranks():
    building = Building()
    first, second, third = building.attached(), building.observer(dkdbgRanks="1"), building.observer()
    asked = request("setBreakpoints", seq=4, source={"path": "/a.py"}, breakpoints=[{"line": 3}])
    (told,) = sent(second.from_client(asked), connection.TO_CLIENT)
    (unset,) = told["body"]["breakpoints"]
    first.from_client(request("disconnect", seq=9))
    actions = first.from_adapter(event("terminated")) + first.adapter_gone()
    reconnecting = [action.connection for action in actions if action.kind == connection.RECONNECT]
    assert reconnecting == [second.connection, third.connection]
    assert third.again() == []
    (initialize,) = sent(second.again(), connection.TO_ADAPTER)
    assert building.agent.chosen == ["None", "None", "1"]
    (attach,) = sent(second.from_adapter(response("initialize", initialize["seq"])), connection.TO_ADAPTER)
    assert "dkdbgRole" not in attach["arguments"]
    breakpoints, _ = sent(second.from_adapter(event("initialized")), connection.TO_ADAPTER)
    assert breakpoints["arguments"] == json.loads(asked)["arguments"]
    verified = response("setBreakpoints", breakpoints["seq"], breakpoints=[{"id": 0, "verified": True}])
    (changed,) = sent(second.from_adapter(verified), connection.TO_CLIENT)
    assert changed["body"] == {"reason": "changed", "breakpoint": {"id": unset["id"], "verified": True}}
    second.from_adapter(response("attach", attach["seq"]))
    assert (building.sessions.controller(connection.ROOT), third.phase) == (
        second.connection,
        connection.OBSERVING,
    )


def test_a_waiting_observer_gets_the_process_and_no_second_announcement():
    building = Building()
    first, second = building.attached(), building.observer()
    waiting = building.initialized("192.0.2.2")
    editor = second.connection.editor
    observes = request("attach", seq=2, dkdbgRole="look-on", subProcessId=7, dkdbgEditor=editor)
    (wait,) = waiting.from_client(observes)
    assert (wait.kind, waiting.ready()) == (connection.WAIT, False)
    first.from_client(request("disconnect", seq=9))
    first.from_adapter(event("terminated"))
    first.adapter_gone()
    (begun,) = second.again()
    number = json.loads(begun.body)["seq"]
    (asked,) = sent(second.from_adapter(response("initialize", number)), connection.TO_ADAPTER)
    second.from_adapter(response("attach", asked["seq"]))
    assert second.phase == connection.CONTROLLING

    assert second.from_adapter(event("debugpyAttach", name="Subprocess 7", subProcessId=7)) == []
    assert waiting.ready()
    assert [action.kind for action in waiting.resume()] == [connection.TO_ADAPTER]
    assert building.sessions.controller(7) is waiting.connection


def test_an_observer_from_before_a_processs_session_is_told_of_it_too():
    building = Building()
    first = building.attached()
    first.from_adapter(event("debugpyAttach", name="Subprocess 7", subProcessId=7))
    second = building.initialized("192.0.2.2")
    second.from_client(request("attach", seq=2, dkdbgRole="look-on"))
    told = sent(second.from_client(request("configurationDone", seq=3)), connection.TO_CLIENT)
    offers = [each["body"] for each in told if each.get("event") == "debugpyAttach"]
    assert [(each["subProcessId"], each["dkdbgRole"]) for each in offers] == [(7, "look-on")]
    building.attached(subProcessId=7, dkdbgEditor=1)
    assert building.sessions.observable() == [7]


def test_an_observer_gets_no_process_before_its_editor_has_the_root_session():
    building = Building()
    root, child = building.attached(), building.attached(subProcessId=7)
    taker = building.broker("192.0.2.5")
    watching, looking = building.observer(), building.observer(subProcessId=7, dkdbgEditor=2)
    assert watching.connection.editor == looking.connection.editor == 2
    taker.from_client(request("initialize"))
    taker.from_client(request("attach", seq=2, dkdbgRole="take-over"))
    root.adapter_gone()
    child.adapter_gone()
    taker.resume()
    assert building.sessions.controller(connection.ROOT) is taker.connection
    assert watching.again() == looking.again() == []


NAMES = [
    "initialize", "attach", "launch", "evaluate", "setExpression", "disconnect", "stackTrace", "continue",
    "configurationDone", "setBreakpoints", "startDebugging", "stopped", "continued", "debugpyAttach", "terminated", "thread",
    "output", "dkdbgProve",
]  # fmt: skip
ARGUMENTS = JSON | st.fixed_dictionaries(
    {},
    optional={
        "subProcessId": st.sampled_from([0, 7, 8, "7", True, None]),
        "dkdbgToken": st.sampled_from(["", "wrong", TOKEN, 3, None, "\ud800"]),
        "dkdbgRole": st.sampled_from(["look-on", "take-over", "x", 1, []]),
        "threadId": st.sampled_from([1, 2, "*", [], None]),
        **dict.fromkeys(("configuration", "stackFrames", "clientID", "dkdbgNonce", "dkdbgProof"), JSON),
    },
)
MESSAGES = messages_of(NAMES, ARGUMENTS)
#: Whole requests: of messages whose parts are drawn one by one, few are any.
REQUESTS = st.builds(
    lambda seq, command, said: {"seq": seq, "type": "request", "command": command, "arguments": said},
    st.integers(1, 6), st.sampled_from(NAMES), ARGUMENTS,
)  # fmt: skip
BODIES = st.binary(max_size=30) | (JSON | MESSAGES | REQUESTS).map(lambda x: json.dumps(x).encode())
STEPS = st.tuples(
    st.integers(0, 2),
    st.sampled_from(["client", "client", "adapter", "resume", "gone", "lost", "again", "ended"]),
)


@PARAMETERS
@given(st.lists(st.tuples(STEPS, BODIES), max_size=40), st.booleans())
def test_random_clients_raise_nothing_and_pass_nothing_without_the_token(steps, begun):
    building = Building(TOKEN)
    brokers = [building.broker(), building.broker(), building.broker()]
    trusted = set()
    for one in brokers if begun else []:
        one.from_client(request("initialize"))
    for (number, what), body in steps:
        one = brokers[number]
        if what == "client" and shows_token(body):
            trusted.add(one.connection)
        if what == "resume":
            one.ready()
        actions = {
            "client": lambda one=one, body=body: one.from_client(body),
            "adapter": lambda one=one, body=body: one.from_adapter(body),
            "resume": one.resume,
            "lost": one.adapter_gone,
            "again": one.again,
            "gone": one.client_gone,
            "ended": one.ended,
        }[what]()
        for action in actions:
            if action.kind != connection.TO_ADAPTER or action.connection in trusted:
                continue
            message = json.loads(action.body)
            assert message["type"] == "request"
            assert message["command"] in ("initialize", "disconnect")


def shows_token(body: bytes) -> bool:
    try:
        arguments = frames.decode(body).get("arguments")
    except frames.FrameError:
        return False
    return isinstance(arguments, dict) and arguments.get("dkdbgToken") == TOKEN


@PARAMETERS
@given(st.lists(st.binary(max_size=200) | BODIES.map(frames.wrap), max_size=10), st.data())
def test_the_parser_takes_any_bytes_in_any_pieces(parts, data):
    stream = b"".join(parts)
    whole = outcome([stream])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert outcome(pieces)[0] == whole[0]


def outcome(pieces: list[bytes]) -> tuple[list[bytes], bool]:
    parser = frames.FrameParser(max_body=1000)
    found: list[bytes] = []
    try:
        for piece in pieces:
            parser.feed(piece)
            while (body := parser.take()) is not None:
                found.append(body)
    except frames.FrameError:
        return found, True
    return found, False


def test_a_worker_that_cannot_use_cuda_after_a_fork_is_told_once_what_helps():
    """Uses torch's own text, from `_lazy_init` in torch/cuda/__init__.py (2.13)."""
    one = Building().attached(subProcessId=7)
    text = (
        "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, "
        "you must use the 'spawn' start method\n"
    )
    said = sent(one.from_adapter(event("output", category="stderr", output=text)), connection.TO_CLIENT)
    assert [each["body"]["category"] for each in said] == ["stderr", "important"]
    assert "set_start_method('spawn')" in said[1]["body"]["output"]
    again = one.from_adapter(event("output", category="stderr", output=text))
    assert len(sent(again, connection.TO_CLIENT)) == 1


def waits_for_its_end(building: Building) -> connection.Connection:
    """The session of the program, whose end the adapter has told and the agent does not know yet."""
    building.sessions.program = 7
    one = building.initialized(clientID="vscode")
    one.from_client(request("attach", seq=2, subProcessId=7))
    one.from_adapter(response("attach", 2))
    (wait,) = one.from_adapter(event("terminated"))
    assert (wait.kind, one.ready()) == (connection.WAIT, False)
    return one


def test_the_first_process_of_a_former_run_waits_for_no_end_that_is_told():
    building = Building()
    one = waits_for_its_end(building)
    building.sessions.program = 8  # restarted
    assert one.ready()
    assert [each["event"] for each in sent(one.resume(), connection.TO_CLIENT)] == ["terminated"]


def test_a_question_and_an_observers_request_fail_when_the_session_that_was_to_answer_ends():
    building = Building()
    one = building.attached(subProcessId=7)
    beside = building.observer(subProcessId=7)
    failures = []
    one.connection.phase.ask("threads", {}, lambda answer: failures.append(answer["success"]) or [])
    (asked,) = beside.from_client(request("threads", seq=4))
    assert asked.connection is one.connection
    one.from_client(request("disconnect", seq=3))
    one.adapter_gone()
    (refused,) = sent(one.ended(), connection.TO_CLIENT)
    assert failures == [False]
    assert (refused["request_seq"], refused["success"]) == (4, False)


def test_a_program_that_calls_exec_is_let_in_again_before_its_end_is_known():
    building = Building()
    root = building.attached(clientID="vscode")
    one = waits_for_its_end(building)
    root.from_adapter(event("debugpyAttach", name="Subprocess 7", subProcessId=7))
    assert one.ready()
