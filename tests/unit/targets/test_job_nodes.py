"""A node of a batch job that does not answer hides no session of the others; the queries are fakes."""

import types
from pathlib import Path

import pytest

from dkdbg.core import address
from dkdbg.core.jobs import Job
from dkdbg.doctor.situation import Machine
from dkdbg.errors import DkdbgError
from dkdbg.targets import registry
from dkdbg.targets.batch.job_line import JobLine
from dkdbg.targets.batch.job_target import JobTarget
from dkdbg.targets.batch.slurm import SLURM
from dkdbg.verbs import doctor, submit, where

RUNS = Job(
    id="7", phase="running", state="RUNNING", user="me", nodes=("n1", "n2"), reason="", folder="/h", tasks=2
)


@pytest.fixture
def dead(monkeypatch):
    """The nodes that do not answer."""
    dead = {"n2"}

    def ask(line, **_):
        line.nodes = RUNS.nodes
        return RUNS

    def look(line, **_):
        if (node := line._address.node) in dead:
            raise DkdbgError(f"no command can be run on {node}\nsecond line")
        return types.SimpleNamespace(
            executor=types.SimpleNamespace(node=node, label=node), agents=("a",), job=RUNS
        )

    monkeypatch.setattr(JobLine, "ask", ask)
    monkeypatch.setattr(JobLine, "locate", look)
    record = {
        "id": "1", "name": "rank0", "pid": 7, "agent_pid": 7, "state": "running", "host": "127.0.0.1", "port": 1, "processes": [],
        "started": 1.0, "live": True,
    }  # fmt: skip
    seen = types.SimpleNamespace(
        **record, jobs=(), client=False, deadlines=(), detail="", local_address=("127.0.0.1", 1)
    )
    monkeypatch.setattr(JobTarget, "_records", lambda *_: [seen])
    return dead


def job():
    return JobTarget(SLURM, address.parse("slurm:///7", local_schemes={"slurm"}))


@pytest.mark.usefixtures("dead")
def test_the_sessions_of_the_other_nodes_are_shown_and_attached_to():
    first, second = job().sessions()
    assert (first.state, first.address) == ("running", "slurm:///7/n1")
    assert (second.state, second.target, second.address) == ("unreadable", "slurm 7/n2", "slurm:///7/n2")
    assert second.detail == "no command can be run on n2"


@pytest.mark.usefixtures("dead")
def test_a_node_that_does_not_answer_is_named_by_the_verbs_that_query_each_session(monkeypatch):
    assert [str(each.address) for each in job().each()] == ["slurm:///7/n1:rank0", "slurm:///7/n2"]
    monkeypatch.setattr(registry, "target_of", lambda *_: job())
    wanted, missing = where._wanted(Path(), ["slurm:///7"])
    assert [each.ids for each in wanted] == [("1",)]
    assert missing == {"slurm:///7/n2": "no command can be run on n2"}
    monkeypatch.setattr(doctor, "_remote_machine", lambda target: Machine(label=target.find().label))
    (found,) = [each for label, each in doctor._findings(Path(), "slurm:///7") if label == "slurm:///7/n2"]
    assert (found.severity, found.cause) == ("error", "it cannot be checked: no command can be run on n2")


def test_a_node_that_did_not_answer_is_not_asked_again_at_once(dead):
    """A query takes 90 s to fail; the verbs made one more for each such node, one after the other."""
    targets = [job().each()[1] for _ in range(2)]
    dead.clear()
    assert targets[0].endpoint().why == "no command can be run on n2"
    with pytest.raises(DkdbgError, match="no command can be run on n2"):
        targets[1].sessions()
    assert [each.state for each in targets[1].sessions()] == ["running"]


@pytest.mark.usefixtures("dead")
def test_a_node_that_is_named_alone_ends_them_with_its_reason(monkeypatch):
    dead = JobTarget(SLURM, address.parse("slurm:///7/n2", local_schemes={"slurm"}))
    monkeypatch.setattr(registry, "target_of", lambda *_: dead)
    for ask in (lambda: where._wanted(Path(), ["n2"]), lambda: list(doctor._findings(Path(), "n2"))):
        with pytest.raises(DkdbgError, match="no command can be run on n2"):
            ask()


def test_where_no_node_answers_the_reason_is_raised(dead):
    dead.add("n1")
    with pytest.raises(DkdbgError, match="no command can be run on n1"):
        job().sessions()


@pytest.mark.usefixtures("dead")
def test_a_rank_on_such_a_node_does_not_count_as_up(monkeypatch):
    said = []

    def say(_kind, text, **_):
        said.append(text)
        raise KeyboardInterrupt

    monkeypatch.setattr(registry, "target_of", lambda *_: job())
    queue = types.SimpleNamespace(address=lambda _: "slurm:///7", read=lambda _: RUNS)
    with pytest.raises(KeyboardInterrupt):
        submit._wait_for_ranks(Path(), queue, "7", say)
    assert said == ["job 7: 1 of 2 ranks are up"]
