"""Records become rows of `dkdbg ps`."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from dkdbg import console, hints
from dkdbg.core import sessions
from dkdbg.core.record import parse, parse_all
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.targets.docker.container import Container, sessions_of
from dkdbg.targets.kubernetes import target as pods

choose = partial(sessions.choose, naming="dkdbg pdb {}".format)

RECORD: dict[str, Any] = {
    "id": "job-1", "name": "job", "state": "running", "host": "127.0.0.1", "port": 5678, "started": 1000.0,
    "client": False, "detail": "", "processes": [{"pid": 7, "name": "rank 3"}, {"pid": 8, "name": ""}],
}  # fmt: skip


def inspected(**more: Any) -> dict[str, Any]:
    return {
        "Id": "abc" * 20, "Name": "/web-debug-1", "Config": {"Labels": {"dev.dkdbg.session": "web-debug"}},
        "State": {"Running": True}, "HostConfig": {"NetworkMode": "web_default"},
        "NetworkSettings": {"Ports": {"5678/tcp": [{"HostIp": "127.0.0.1", "HostPort": "5680"}], "80/tcp": None}},
    } | more  # fmt: skip


def local(record: dict[str, Any], *, live: bool = True) -> sessions.SeenSession:
    return sessions.of_record(parse(record), live=live, target="local", address=f"local:{record['id']}")


def test_a_local_session_is_attached_to_where_it_listens_and_its_jobs_are_names_and_few():
    seen = local(RECORD)
    assert (seen.target, seen.state, seen.endpoint) == ("local", "running", "127.0.0.1:5678")
    assert seen.processes == ("rank 3", "process 8")
    assert parse({**RECORD, "jobs": ["7", "7_3"]}).jobs == {"7", "7_3"}
    assert [
        parse({**RECORD, **more}).is_of("5f") for more in ({}, {"run": ""}, {"run": "5"}, {"run": "5f"})
    ] == [False, False, False, True]
    assert len(parse({**RECORD, "run": "f" * 10_000}).run) <= 200
    assert parse(RECORD).jobs == frozenset()
    assert len(parse({**RECORD, "jobs": [str(each) for each in range(1000)]}).jobs) <= 10


def test_programs_read_in_detail_what_a_person_types_by_hand():
    seen = replace(local(RECORD), manual_command="nc 10.0.0.1 5678", detail="pdb")
    said = seen.as_json(1001.0)
    assert (said["detail"], "manual_command" in said) == ("nc 10.0.0.1 5678", False)
    assert local({**RECORD, "detail": "runs"}).as_json(1001.0)["detail"] == "runs"


ON_ALL = {"Ports": {"5678/tcp": [{"HostIp": "0.0.0.0", "HostPort": "5681"}]}}


@pytest.mark.parametrize(
    ("more", "endpoint"),
    [
        ({}, "127.0.0.1:5680"),
        ({"NetworkSettings": ON_ALL}, "127.0.0.1:5681"),
        ({"HostConfig": {"NetworkMode": "host"}, "NetworkSettings": {"Ports": {}}}, "127.0.0.1:5678"),
        ({"NetworkSettings": {"Ports": {}}}, ""),
    ],
    ids=["published", "published on all addresses", "network of the host", "not published"],
)
def test_a_session_in_a_container_is_attached_to_at_its_published_port(more, endpoint):
    (seen,) = sessions_of(Container.of(inspected(**more)), parse_all(json.dumps([{**RECORD, "live": True}])))
    assert (seen.target, seen.endpoint) == ("container web-debug-1", endpoint)
    assert seen.address == "docker://web-debug-1"


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({}, "its state is not text"),
        ({**RECORD, "jobs": "7"}, "its jobs are not a list of names"),
        ({**RECORD, "jobs": [7]}, "its jobs are not a list of names"),
        ({**RECORD, "run": ["5f"]}, "its run is not text"),
        ({**RECORD, "port": [1]}, "its port is not a number"),
        ({**RECORD, "port": 1 << 70}, "its port is not a number"),
        ({**RECORD, "processes": 7}, "its processes are not a list"),
        ({**RECORD, "processes": [{}, []]}, "its processes contain a list in place of an object"),
        ({**RECORD, "state": {}}, "its state is not text"),
        ({**RECORD, "state": "\x1b[2J"}, "it has an unknown state"),
        ({**RECORD, "started": "now"}, "its start time is not a time"),
        ({**RECORD, "started": float("nan")}, "its start time is not a time"),
        ({**RECORD, "host": "evil.example"}, "its host is not an address"),
        ({**RECORD, "detail": None}, "its detail is not text"),
        ([], "it is not the record of a session"),
        (None, "it is not the record of a session"),
    ],
)
def test_a_record_that_makes_no_sense_is_named_and_hides_no_other_one(broken, why):
    records = parse_all(json.dumps([broken, {**RECORD, "live": True}]))
    first, second = sessions_of(Container.of(inspected()), records)
    assert (first.state, first.target) == ("unreadable", "container web-debug-1")
    assert why in first.detail
    assert (second.id, second.state) == ("job-1", "running")
    assert choose([first, second]) is second
    assert len(sessions.rows([first, second], 1000.0)) == 2


@pytest.mark.parametrize("port", ["9" * 5000, "70000", "-1", "٣", "²", "5678 "])
def test_an_image_that_names_no_port_hides_no_other_container(port):
    labels = {"Labels": {"dev.dkdbg.session": "x"}, "Env": [f"DKDBG_PORT={port}"]}
    assert Container.of(inspected(Config=labels)).port == 5678


@pytest.mark.parametrize(
    ("entrypoint", "starts"),
    [
        (["/usr/bin/python3", "/opt/dkdbg/agent.pyz", "launch", "--"], "/usr/bin/python3"),
        (["sh", "/opt/dkdbg/agent.pyz", "launch", "--"], "sh"),
        (["/entry.sh", "/opt/other.pyz"], "sh"),
        (["/entry.sh"], "sh"),
        (None, "sh"),
    ],
)
def test_the_agent_of_a_container_is_started_as_its_entrypoint_starts_it(entrypoint, starts):
    config = {"Labels": {}, "Env": [], "Entrypoint": entrypoint}
    assert Container.of(inspected(Config=config)).agent == (starts, "/opt/dkdbg/agent.pyz")


@pytest.mark.parametrize(
    ("state", "live", "shown"), [("running", False, "lost"), ("exited", False, "exited")]
)
def test_an_agent_that_is_gone_is_lost_or_has_ended(state, live, shown):
    seen = local({**RECORD, "state": state}, live=live)
    assert (seen.state, seen.endpoint, seen.is_ended) == (shown, "", True)


@pytest.mark.parametrize(("running", "state"), [(True, "starting"), (False, "exited")])
def test_a_container_without_a_record_has_a_state(running, state):
    seen = sessions_of(Container.of(inspected(State={"Running": running})), [])[0]
    assert (seen.name, seen.state) == ("web-debug", state)


def shown(seen: list[sessions.SeenSession], now: float, capsys: pytest.CaptureFixture[str]) -> list[str]:
    console.table(sessions.HEADER, sessions.rows(seen, now), styles=sessions.STYLES)
    return capsys.readouterr().out.splitlines()


def test_the_table_has_a_printable_line_for_each_with_processes_counted(capsys):
    limit = {"what": "Slurm ends job 7", "ends": 1000.0 + 3 * 3600 + 52 * 60, "after": None, "lift": ""}
    attached = local({**RECORD, "state": "attached", "client": True, "deadlines": [limit]})
    lines = shown([attached], 1000.0 + 3 * 3600, capsys)
    header = "TARGET SESSION STATE ATTACH TO AGE ENDS IN EDITOR PROCESSES"
    row = "local job attached 127.0.0.1:5678 3 h 52 min attached rank 3, process 8"
    assert [" ".join(line.split()) for line in lines[:2]] == [header, row]
    many = {**RECORD, "processes": [{"pid": n, "name": f"rank {n}"} for n in range(9)]}
    assert sessions.rows([local(many)], 1000.0)[0][-1].endswith("rank 3, 5 more")
    assert "a\\x1b[2Jb\\nc" in shown([local({**RECORD, "name": "a\x1b[2Jb\nc"})], 1000.0, capsys)[1]


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 s"), (59.9, "59 s"), (61, "1 min"), (7300, "2 h"), (180000, "2 d")]
)
def test_ages_are_short(seconds, text):
    assert sessions.age(seconds) == text


def test_one_session_is_chosen_by_what_tells_it_apart_and_where_none_is_what_is_there_is_named():
    one = local(RECORD)
    two = local({**RECORD, "id": "eval-2", "name": "eval"})
    ended = local({**RECORD, "id": "old-3", "name": "old", "state": "exited"})
    assert choose([one, ended], None) is one
    assert choose([one, ended], "web") is one  # the name of its place
    assert choose([one, two], "eval") is two
    assert choose([one, two], "job-1") is one
    worker = replace(two, started=None)  # one of Ray's, which has no agent to ask
    assert choose([worker, one], "ray+docker://x") is one
    one, two = (replace(local({**RECORD, "id": each}), address="docker://x") for each in ("job-1", "job-2"))
    with pytest.raises(DkdbgError, match=r"2 sessions match docker://x; there are: job-1, job-2$") as caught:
        choose([one, two], "docker://x")
    assert caught.value.hint == "name one: dkdbg pdb job-1"
    with pytest.raises(DkdbgError, match=r"no session is called nix; there are: local:job-1$"):
        choose([], "nix", others=[local(RECORD)])


@pytest.mark.parametrize(
    ("seen", "name", "said"),
    [
        ([RECORD, {**RECORD, "id": "eval-2", "name": "eval"}], None, "2 sessions are running; there are: local:job-1, local:eval-2$"),
        ([RECORD, {**RECORD, "id": "job-2"}], "job", "2 sessions match job; there are: local:job-1, local:job-2$"),
    ],
)  # fmt: skip
def test_several_sessions_are_an_error_with_their_names(seen, name, said):
    with pytest.raises(DkdbgError, match=said) as caught:
        choose([local(each) for each in seen], name)
    assert caught.value.exit_code == EXIT_USAGE
    assert "name one: dkdbg pdb local:job-1" in caught.value.hint


def test_where_nothing_runs_the_hint_leads_on():
    """It was `dkdbg ps`, which says that nothing runs."""
    with pytest.raises(DkdbgError, match=r"no session is running$") as caught:
        choose([], None)
    assert (caught.value.hint, caught.value.exit_code) == (hints.SERVICE_UP(), EXIT_USAGE)
    with pytest.raises(DkdbgError, match=r"no session is running$") as caught:
        choose([], None, begin="type this")
    assert caught.value.hint == "type this"


def test_a_pod_that_cannot_be_queried_is_shown_with_the_reason_not_as_its_agents_answer(monkeypatch):
    def fail(_target):
        raise DkdbgError("the cluster does not answer\nsecond line")

    monkeypatch.setattr(pods, "_pods_of_local_runs", lambda: ["ml/train-0"])
    monkeypatch.setattr(pods.PodTarget, "sessions", fail)
    (seen,) = pods.KIND.sessions()
    assert (seen.state, seen.detail) == ("unreadable", "the cluster does not answer")
