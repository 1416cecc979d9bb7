"""The router as a state machine: an editor's messages while containers restart, and random clients."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dkdbg.agent.dap import messages
from dkdbg.attach.actions import (
    FIRST_NUMBER,
    Branch,
    Close,
    Dial,
    HangUp,
    Offer,
    ProcessRegistry,
    ToClient,
    ToUpstream,
    named,
)
from dkdbg.attach.router import Router

PARAMETERS = settings(max_examples=150, deadline=None)
PORT = 5677


def request(command: str, seq: int = 1, **arguments: Any) -> bytes:
    return json.dumps({"seq": seq, "type": "request", "command": command, "arguments": arguments}).encode()


def response(command: str, to: int, *, success: bool = True, **more: Any) -> bytes:
    head = {"seq": 7, "type": "response", "request_seq": to, "success": success, "command": command}
    return json.dumps({**head, **more}).encode()


def event(name: str, /, **body: Any) -> bytes:
    return json.dumps({"seq": 8, "type": "event", "event": name, "body": body}).encode()


def registry(*names: str) -> ProcessRegistry:
    return ProcessRegistry(names, lambda: PORT)


class Bench:
    """A router whose actions are recorded, and upstreams that answer like an agent."""

    def __init__(self, *names: str, shared: ProcessRegistry | None = None, pinned: bool = False) -> None:
        self.router = Router(shared or registry(*(names or ("web",))), "192.0.2.1", pinned=pinned)
        self.actions: list[Any] = []

    def do(self, actions: list[Any]) -> list[Any]:
        self.actions += actions
        return actions

    def client(self, body: bytes) -> list[Any]:
        return self.do(self.router.from_client(body))

    def heard(self) -> list[dict[str, Any]]:
        """Return the messages to the editor since the last call."""
        found = [json.loads(action.body) for action in self.actions if isinstance(action, ToClient)]
        self.actions = [action for action in self.actions if not isinstance(action, ToClient)]
        return found

    def sent(self, upstream: str) -> list[dict[str, Any]]:
        """Return the messages to the upstream since the last call."""
        mine = [a for a in self.actions if isinstance(a, ToUpstream) and a.upstream == upstream]
        self.actions = [action for action in self.actions if action not in mine]
        return [json.loads(action.body) for action in mine]

    def names(self) -> list[str]:
        return [each.get("event") or f"{each['command']} {each.get('success')}" for each in self.heard()]

    def introduce(self, **arguments: Any) -> "Bench":
        self.client(request("initialize", supportsStartDebuggingRequest=True, **arguments))
        return self

    def attach(self, **arguments: Any) -> "Bench":
        self.client(request("attach", 2, **arguments))
        return self

    def take(self, upstream: str = "web") -> "Bench":
        """Let the upstream accept the attach."""
        self.do(self.router.opened(upstream))
        self.do(self.router.from_upstream(upstream, event("initialized")))
        return self

    def let_run(self, upstream: str = "web") -> "Bench":
        self.do(self.router.from_upstream(upstream, response("attach", 2)))
        return self

    def live(self, *upstreams: str, **arguments: Any) -> "Bench":
        self.introduce().attach(**arguments)
        for upstream in upstreams or ("web",):
            self.take(upstream)
        self.client(request("configurationDone", 3))
        for upstream in upstreams or ("web",):
            self.let_run(upstream)
        self.actions.clear()
        return self

    def announce(self, pid: int, upstream: str = "web", **more: Any) -> dict[str, Any]:
        configuration = {"subProcessId": pid, "name": f"rank {pid}", **more}
        arguments = {"request": "attach", "configuration": configuration}
        self.do(self.router.from_upstream(upstream, request("startDebugging", 9, **arguments)))
        said = next(each for each in self.heard() if each.get("command") == "startDebugging")
        return said["arguments"]["configuration"]


def test_what_dkdbg_attach_was_told_of_ranks_goes_to_all_targets_unless_the_editor_says_it():
    own = {"dkdbgRanks": "0", "dkdbgContinue": "all"}
    for more, ranks, continues in (({}, "3", "one"), (own, "0", "all")):
        shared = registry("a", "b")
        shared.ranks, shared.continues = "3", "one"
        bench = Bench(shared=shared).introduce().attach(**more)
        for name in ("a", "b"):
            bench.take(name)
            attach = next(each for each in bench.sent(name) if each["command"] == "attach")["arguments"]
            assert (attach["dkdbgRanks"], attach["dkdbgContinue"]) == (ranks, continues)


def test_the_root_session_is_complete_without_any_container():
    bench = Bench().introduce()
    (answer,) = bench.heard()
    assert answer["body"]["supportsConditionalBreakpoints"] is True
    bench.attach()
    assert bench.names() == []
    assert bench.router.absent("web", "there is no container yet") == [
        ToClient(messages.event("initialized"))
    ]
    bench.client(request("setBreakpoints", 3, breakpoints=[{"line": 1}, {"line": 2}]))
    (answer,) = bench.heard()
    assert [each["verified"] for each in answer["body"]["breakpoints"]] == [False, False]
    bench.client(request("configurationDone", 4))
    said = bench.heard()
    assert [each.get("command") or each["event"] for each in said] == [
        "configurationDone", "attach", "process", "output",
    ]  # fmt: skip
    assert said[3]["body"]["output"] == "dkdbg: waiting for web: there is no container yet\n"
    bench.client(request("threads", 5))
    bench.client(request("evaluate", 6, expression="1"))
    threads, refused = bench.heard()
    assert threads["body"] == {"threads": []}
    assert (refused["success"], refused["body"]["error"]["showUser"]) == (False, False)


def test_the_agent_of_a_target_gets_the_limits_that_only_the_target_shows():
    bench = Bench().introduce().attach()
    limit = {"what": "the livenessProbe restarts it", "ends": None, "after": 30.0, "lift": ""}
    bench.do(bench.router.opened("web", deadlines=[limit]))
    _, attach = bench.sent("web")
    assert attach["arguments"]["dkdbgDeadlines"] == [limit]


def test_an_upstream_is_configured_after_the_breakpoints_and_a_silent_one_keeps_no_editor_waiting():
    bench = Bench().introduce().attach(justMyCode=False)
    bench.do(bench.router.opened("web"))
    initialize, attach = bench.sent("web")
    assert initialize["arguments"]["supportsStartDebuggingRequest"] is True
    assert attach["arguments"] == {"justMyCode": False, "dkdbgGather": True}
    assert bench.names() == ["initialize True"]
    bench.do(bench.router.from_upstream("web", event("initialized")))
    assert bench.names() == ["initialized"]
    assert bench.sent("web") == []
    bench.client(request("configurationDone", 3))
    assert [each["command"] for each in bench.sent("web")] == ["configurationDone"]
    bench = Bench().introduce().attach()
    bench.do(bench.router.opened("web"))
    bench.heard()
    bench.do(bench.router.waited())
    assert bench.names() == ["initialized"]


def test_a_refusal_of_an_upstream_fails_the_attach_with_its_words_and_later_ends_the_session():
    bench = Bench().introduce().attach()
    bench.do(bench.router.opened("web"))
    bench.heard()
    error = {"error": {"id": 1, "format": "{reason}", "showUser": True, "url": "http://evil.example"}}
    refusal = response("attach", 2, success=False, message="dkdbg: no\x1b[2J", body=error)
    actions = bench.do(bench.router.from_upstream("web", refusal))
    (answer,) = bench.heard()
    assert (answer["request_seq"], answer["success"]) == (2, False)
    assert answer["message"] == "dkdbg: no\\x1b[2J"
    assert set(answer["body"]["error"]) == {"id", "format", "variables", "showUser"}
    assert isinstance(actions[-1], Close)
    bench = Bench().introduce().attach()
    bench.do(bench.router.absent("web", "not yet"))
    bench.client(request("configurationDone", 3))
    bench.do(bench.router.opened("web"))
    bench.heard()
    bench.do(bench.router.from_upstream("web", response("attach", 2, success=False, message="dkdbg: no")))
    said, ended = bench.heard()
    assert said["body"] == {"category": "important", "output": "dkdbg: web: no\n"}
    assert ended["event"] == "terminated"


def test_a_restarted_container_is_attached_to_again_without_the_editor():
    bench = Bench().live()
    bench.do(bench.router.from_upstream("web", event("exited", exitCode=0)))
    actions = bench.do(bench.router.from_upstream("web", event("terminated")))
    assert HangUp("web", then="redial") in actions
    assert [each["event"] for each in bench.heard()] == ["output"]
    bench.do(bench.router.lost("web"))
    bench.do(bench.router.absent("web", "container web-1 is not running"))
    bench.do(bench.router.absent("web", "container web-1 is not running"))
    assert len(bench.heard()) == 1
    bench.take()
    assert [each["command"] for each in bench.sent("web")] == ["initialize", "attach", "configurationDone"]


def test_a_session_that_the_editor_has_ended_is_not_taken_up_again_and_of_two_targets_the_other_stays():
    """VS Code's stop button leaves the last process: the agent ends the root session, without `exited`."""
    bench = Bench().live()
    actions = bench.do(bench.router.from_upstream("web", event("terminated")))
    assert HangUp("web", then="replaced") in actions
    assert bench.names() == ["terminated"]
    bench = Bench("a", "b").live("a", "b")
    bench.do(bench.router.from_upstream("a", event("terminated")))
    assert bench.names() == ["output"]
    assert bench.router.phase == "live"
    bench.do(bench.router.lost("a"))
    bench.take("a").let_run("a")
    assert bench.router.is_settled("a")


def test_the_same_pid_in_two_containers_gets_two_numbers_and_two_names():
    shared = registry("a", "b")
    bench = Bench(shared=shared).live("a", "b", justMyCode=True)
    first, second = bench.announce(7, "a"), bench.announce(7, "b")
    assert first["subProcessId"] != second["subProcessId"]
    assert (first["name"], second["name"]) == ("rank 7 on a", "rank 7 on b")
    assert (first["justMyCode"], first["connect"]) == (True, {"host": "127.0.0.1", "port": PORT})
    child = Bench(shared=shared).introduce()
    (branch,) = child.client(request("attach", 2, **second))
    assert (branch.process.upstream, branch.attach["arguments"]["subProcessId"]) == ("b", 7)
    assert branch.initialize["seq"] == 1


def test_a_pid_means_a_process_of_the_only_target_and_one_that_is_gone_a_session_that_ends_at_once():
    shared = registry("web")
    root = Bench(shared=shared).live()
    number = root.announce(7)["subProcessId"]
    root.do(root.router.lost("web"))
    child = Bench(shared=shared).introduce().attach(subProcessId=number)
    assert child.names() == ["initialize True", "attach True", "terminated"]
    (branch,) = Bench("web").introduce().client(request("attach", 2, subProcessId=7))
    assert branch.process.pid == 7
    assert Bench("a", "b").introduce().attach(subProcessId=7).names()[-1] == "terminated"


def test_children_are_told_the_editors_address_or_a_port_is_offered():
    forwarded = {"host": "localhost", "port": 15677}
    assert Bench().live(connect=forwarded).announce(7)["connect"] == forwarded
    bench = Bench()
    bench.client(request("initialize", clientID="plain"))
    bench.attach().take()
    bench.client(request("configurationDone", 3))
    bench.let_run()
    arguments = {"configuration": {"subProcessId": 7, "name": "rank 7"}}
    actions = bench.do(bench.router.from_upstream("web", request("startDebugging", 9, **arguments)))
    (offer,) = [action for action in actions if isinstance(action, Offer)]
    assert (offer.process.pid, offer.say) == (7, True)
    assert "debugpyAttach" in bench.names()


def test_disconnect_and_restart_are_passed_on_to_every_target_and_a_refusal_is_said():
    bench = Bench("a", "b").live("a", "b")
    actions = bench.client(request("disconnect", 9, terminateDebuggee=True))
    for upstream in ("a", "b"):
        (sent,) = bench.sent(upstream)
        assert (sent["command"], sent["arguments"]) == ("disconnect", {"terminateDebuggee": True})
        assert HangUp(upstream) in actions
    (answered,) = [at for at, action in enumerate(actions) if isinstance(action, ToClient)]
    assert not any(isinstance(action, ToUpstream) for action in actions[answered:])
    assert isinstance(actions[-1], Close)
    bench = Bench("a", "b").live("a", "b")
    bench.client(request("restart", 9))
    assert bench.names() == ["restart True"]
    for upstream in ("a", "b"):
        (sent,) = bench.sent(upstream)
        assert sent["command"] == "restart"
    bench.do(
        bench.router.from_upstream("a", response("restart", sent["seq"], success=False, message="no: 7"))
    )
    (said,) = bench.heard()
    assert (said["body"]["category"], said["body"]["output"]) == ("important", "a: no: 7\n")


@pytest.mark.parametrize("command", ["evaluate", "setBreakpoints", "configurationDone", "launch"])
def test_nothing_is_done_before_the_attach(command):
    bench = Bench().introduce()
    bench.heard()
    bench.client(request(command, 2))
    (answer,) = bench.heard()
    assert answer["success"] is False


def test_a_client_at_the_port_of_a_process_waits_for_it():
    shared = registry("web")
    root = Bench(shared=shared).live()
    bench = Bench(shared=shared, pinned=True).introduce().attach(justMyCode=False)
    assert bench.router.phase == "expecting"
    assert not any(isinstance(each, Dial) for each in bench.actions)
    (branch,) = bench.router.branch(root.announce(7)["subProcessId"])
    assert branch.attach["arguments"] == {"justMyCode": False, "subProcessId": 7}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = ["initialize", "attach", "launch", "evaluate", "disconnect", "terminate", "configurationDone"]
NAMES += ["setBreakpoints", "startDebugging", "debugpyAttach", "initialized", "exited", "terminated"]
NAMES += ["output", "threads"]
ANY = ("connect", "breakpoints", "clientID", "supportsStartDebuggingRequest", "output", "terminateDebuggee")
ARGUMENTS = JSON | st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(ANY, JSON)
    | {
        "subProcessId": st.sampled_from([0, 7, FIRST_NUMBER, FIRST_NUMBER + 1, "7", True, None, -1]),
        "configuration": JSON | st.fixed_dictionaries({"subProcessId": st.integers(-1, 9), "name": JSON}),
    },
)


def messages_of(names: list[str], arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Messages whose parts are right or not."""
    number = st.sampled_from([messages.OWN_SEQUENCE, messages.OWN_SEQUENCE + 1])
    return st.fixed_dictionaries(
        {},
        optional={
            "seq": st.integers(0, 6) | number | st.sampled_from(["1", None]),
            "type": st.sampled_from(["request", "request", "request", "response", "event", 1]),
            "command": st.sampled_from(names) | JSON,
            "event": st.sampled_from(names) | JSON,
            "request_seq": st.integers(0, 6) | number | JSON,
            "success": JSON,
            "message": JSON,
            "arguments": arguments,
            "body": arguments,
        },
    )


MESSAGES = messages_of(NAMES, ARGUMENTS)
BODIES = (
    st.binary(max_size=30)
    | JSON.map(lambda x: json.dumps(x).encode())
    | MESSAGES.map(lambda x: json.dumps(x).encode())
)
OFTEN = ["client", "upstream"]
STEPS = st.sampled_from([*OFTEN, *OFTEN, "opened", "absent", "lost", "waited", "branch", "gone", "stop"])


@PARAMETERS
@given(st.lists(st.tuples(STEPS, st.sampled_from(["a", "b", "?"]), BODIES), max_size=40), st.integers(0, 3))
def test_whatever_comes_nothing_is_raised_and_nothing_reaches_a_target_before_an_attach(steps, begun):
    bench = Bench("a", "b")
    script = [request("initialize"), request("attach", 2), request("configurationDone", 3)]
    for body in script[:begun]:
        bench.client(body)
    attached = begun > 1
    for what, upstream, body in steps:
        router = bench.router
        if what == "client":
            attached = attached or b"attach" in body
            actions = router.from_client(body)
        elif what == "branch":
            actions = router.branch(FIRST_NUMBER) if router.phase == "expecting" else []
        else:
            actions = {
                "upstream": lambda: router.from_upstream(upstream, body),  # noqa: B023
                "opened": lambda: router.opened(upstream) if upstream in router.sessions else [],  # noqa: B023
                "absent": lambda: router.absent(upstream, "why"),  # noqa: B023
                "lost": lambda: router.lost(upstream),  # noqa: B023
                "waited": router.waited,
                "gone": router.client_gone,
                "stop": lambda: router.stop("bye"),  # noqa: B023
            }[what]()
        for action in actions:
            if isinstance(action, ToClient):
                json.loads(action.body)
            if isinstance(action, ToUpstream | HangUp):
                assert action.upstream in router.sessions
            assert attached or not isinstance(action, ToUpstream | Dial | Branch)


def test_the_project_of_the_editors_entry_is_not_asked_for_at_targets_that_were_chosen():
    bench = (
        Bench().introduce().attach(connect={"host": "127.0.0.1", "port": PORT, "project": "mine-01234567"})
    )
    bench.take()
    (attach,) = (each for each in bench.sent("web") if each["command"] == "attach")
    assert attach["arguments"]["connect"] == {"host": "127.0.0.1", "port": PORT}


@pytest.mark.parametrize(
    ("upstream", "name", "shown"),
    [
        ("gpu01", "rank 3 (local 1)", "rank 3 (local 1) on gpu01"),
        ("gpu01", "torchrun", "gpu01: torchrun"),
        ("train.py on node-12", "rank 0", "rank 0 on node-12"),
        ("train.py on node-12", "train.py", "train.py on node-12: train.py"),
        ("a.py on node-22", "rank 0", "rank 0 on a.py on node-22"),
    ],
)
def test_a_process_is_named_by_its_target_and_a_rank_of_a_batch_job_by_the_node(upstream, name, shown):
    targets = ("gpu01", "train.py on node-12", "a.py on node-22", "b.py on node-22")
    assert named(upstream, name, targets) == shown
