"""Which target a name or an address means, without an engine."""

import json
import os

import pytest

from dkdbg import hints
from dkdbg.core.sessions import SeenSession
from dkdbg.core.target import Capability
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.targets import registry

#: One address of each kind.
EXAMPLES = {
    "compose": "compose://trainer",
    "docker": "docker://web-1",
    "k8s": "k8s://ml/train-0/main",
    "local": "local:job",
    "ssh": "ssh://me@login,node4/~/code",
    "slurm": "slurm://me@login/7_3/node-12:rank3",
    "pbs": "pbs:///12.server/node4",
    "pai": "pai://127.0.0.1:1/me/mnist/worker/0",
    "ray": "ray://me@login,node-12:8265",
    "call": "call://nightly",
    "endpoint": "node4:5678",
}


@pytest.fixture(autouse=True)
def _no_docker(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DKDBG_RUNTIME_DIR", str(tmp_path / "run"))


@pytest.mark.parametrize("entry", registry.ENTRIES, ids=lambda entry: entry.scheme)
def test_each_kind_makes_a_place_of_its_addresses_without_looking(entry, tmp_path):
    example = EXAMPLES.get(entry.scheme, f"{entry.scheme}://login/7/n1")  # of a batch system
    target = registry.target_of(example, tmp_path)
    assert str(target.address) == example
    assert target.pause > 0
    assert target.endpoint().why
    assert (Capability.START in target.capabilities) == (entry.scheme == "compose")
    target.close()


@pytest.mark.parametrize(
    "text", ["sge://login/7", "sge+ray://head:8265"]
)  # fmt: skip
def test_an_address_that_no_place_serves_yet_says_so_and_what_there_is(text, tmp_path):
    with pytest.raises(DkdbgError) as caught:
        registry.target_of(text, tmp_path)
    scheme = text.partition(":")[0]
    assert caught.value.message == f"{text}: unknown target scheme {scheme}://"
    assert caught.value.hint == f"a target is {registry.forms()}"
    assert caught.value.exit_code == EXIT_USAGE


@pytest.mark.parametrize(
    ("address", "hint"),
    [
        ("compose://web", hints.SERVICE_UP()),
        ("docker://web-1", hints.HOW_TO_ENTER(target="docker://web-1")),
        ("ssh://node1", hints.RUN_THERE(target="ssh://node1")),
        ("ray://head:8265", hints.RAY_WAITS(target="ray://head:8265")),
        ("local:", "dkdbg run -- python train.py starts one"),
        ("call://job", "dkdbg ps --all call://job shows ended sessions"),
    ],
)
def test_each_kind_has_a_hint_where_nothing_runs(address, hint):
    assert registry.how_to_begin(address) == hint


def test_a_container_in_which_a_session_has_ended_gets_another_one():
    ended = SeenSession(target="x", address="docker://x", id="job-1", name="job", state="exited")
    assert registry.how_to_begin("docker://x", [ended]) == hints.RUN_THERE(target="docker://x")


@pytest.mark.parametrize("text", ["compose://a/b", "docker://a/b", "docker://-it", "a/b", "-x", ""])
def test_what_makes_no_sense_is_refused(text, tmp_path):
    with pytest.raises(DkdbgError) as caught:
        registry.target_of(text, tmp_path)
    assert caught.value.exit_code == EXIT_USAGE
    assert "docker://CONTAINER" in caught.value.hint or "compose://SERVICE" in caught.value.hint


def test_a_name_that_nothing_answers_to_is_a_service_that_does_not_run_yet(tmp_path):
    (tmp_path / "compose.yaml").write_text("services: {}\n")
    target = registry.target_of("trainer", tmp_path)
    assert str(target.address) == "compose://trainer"
    with pytest.raises(DkdbgError, match="there is no program 'docker' here"):
        target.find()


def test_a_name_of_a_session_of_this_machine_is_that_session(tmp_path):
    from dkdbg.agent.state import records

    record = records.first_record(
        session_id="job-7", name="job", host="127.0.0.1", port=4711, debugpy="1", argv=["x"]
    )
    (tmp_path / "run" / "job-7").mkdir(parents=True)
    (tmp_path / "run" / "job-7" / "session.json").write_text(json.dumps({**record, "pid": os.getpid()}))
    for name in ("job", "job-7"):
        target = registry.target_of(name, tmp_path)
        assert str(target.address) == f"local:{name}"
        assert target.endpoint().address == ("127.0.0.1", 4711)
        assert [each.id for each in target.sessions()] == ["job-7"]
