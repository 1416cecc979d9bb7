"""`dkdbg where` without a target, and the verbs that show several targets."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dkdbg.core import stacks
from dkdbg.core.address import parse
from dkdbg.core.sessions import UNREADABLE, SeenSession
from dkdbg.core.target import Target
from dkdbg.errors import EXIT_ENGINE, EXIT_NO_PROGRAM, EXIT_USAGE, DkdbgError
from dkdbg.targets import registry
from dkdbg.verbs import ranks, where
from dkdbg.verbs.parser import Parser

BROKEN = SeenSession(
    target="container train", address="docker://train", id="1", name="train", state=UNREADABLE, detail="no JSON"
)  # fmt: skip


def test_a_session_that_cannot_be_read_is_said_to_be_missing_from_the_map(monkeypatch, tmp_path, capsys):
    """Without it, the ranks of a job look as if one of the others were behind."""
    monkeypatch.setattr(registry, "sessions", lambda **_: ([BROKEN], {}))
    parser = Parser()
    where.add_options(parser)
    assert where.call(parser.parse_args([]), tmp_path) == 1
    shown = capsys.readouterr()
    assert "container train cannot be queried: no JSON" in shown.err
    assert "no process has answered" in shown.out


def test_one_that_cannot_be_read_beside_another_of_its_target_is_missing_too(monkeypatch, tmp_path):
    live = replace(BROKEN, id="2", state="running", detail="")
    target = SimpleNamespace(sessions=lambda: [BROKEN, live])
    monkeypatch.setattr(registry, "targets_of", lambda *_: [target])
    (asked,), missing = where._wanted(tmp_path, ["docker://train"])
    assert (asked.ids, missing) == (("2",), {"container train": "no JSON"})


@pytest.mark.parametrize(
    ("exit_code", "is_said"), [(EXIT_ENGINE, True), (EXIT_NO_PROGRAM, False)], ids=["silent", "not installed"]
)
def test_an_engine_that_does_not_answer_is_named_where_this_repository_has_a_debug_service(
    exit_code, is_said, script, dkdbg, monkeypatch
):
    def fail():
        raise DkdbgError("no Docker engine answers\n  engine: no such socket", exit_code=exit_code)

    monkeypatch.setattr("dkdbg.targets.docker.containers.of_debug_services", fail)
    monkeypatch.setenv("DKDBG_RUNTIME_DIR", str(script / "none"))
    alone = dkdbg(script, "where").err
    assert alone.startswith("dkdbg: no session is running")
    assert ("docker cannot be queried: no Docker engine answers" in alone) == is_said
    assert dkdbg(script, "init", "--yes").code == 0
    shown = dkdbg(script, "where")
    assert shown.code == 1
    said = "dkdbg: docker cannot be queried: no Docker engine answers\n"
    assert shown.err == said if is_said else "no session is running" in shown.err
    assert "docker cannot be queried: no Docker engine answers" in dkdbg(script, "ps").err


class Fake(Target):
    """A target on which a session runs, unless its name is an error."""

    endpoint = None

    def sessions(self):
        if self.address.rest.startswith("silent"):
            hint = f"ssh {self.address.rest}"
            raise DkdbgError(f"there is no host {self.address.rest}\nssh: no", hint=hint)
        if self.address.rest == "own-name":
            raise DkdbgError(f"{self.address} has ended")
        return [] if self.address.rest == "idle" else [replace(BROKEN, state="running", detail="")]


@pytest.fixture
def ask(script, dkdbg, monkeypatch):
    """Run a verb on fake targets."""
    process = stacks.Process(pid=1, ppid=0, name="train", rank=None, world_size=0)
    session = stacks.Session(id="1", name="train", target="live", address="ssh://live", processes=(process,))
    row = {"pid": 1, "name": "train", "where": "train.py:3", "state": "value", "text": "1", "type": "int"}

    def target_of(name, root):
        return Fake(parse(name)) if name.startswith("ssh:") else registry.target_at(parse(name), root)

    monkeypatch.setattr(registry, "target_of", target_of)
    monkeypatch.setattr(registry, "targets_of", lambda name, root: [target_of(name, root)])
    monkeypatch.setattr(where, "ask", lambda *_, **__: ([session], {}))
    monkeypatch.setattr(ranks, "_ask", lambda *_: [row])

    def run(verb, *names, more=()):
        named = [word for name in names for word in ("--on", name)]
        return dkdbg(script, verb, *named, *(("eval", "x") if verb == "ranks" else ()), *more)

    return run


VERBS = pytest.mark.parametrize("verb", ["ps", "where", "ranks"])


@VERBS
def test_a_target_that_cannot_be_queried_leaves_the_others_shown(verb, ask):
    shown = ask(verb, "ssh://silent", "ssh://live", more=["--json"])
    assert shown.out, shown.err
    answer = json.loads(shown.out)
    assert (shown.code, answer["missing"]) == (1, {"ssh://silent": "there is no host silent"})
    assert [len(answer[key]) for key in ("sessions", "jobs", "rows") if key in answer] == [1]


@VERBS
def test_a_target_that_cannot_be_queried_is_named_once_with_its_hint(verb, ask):
    shown = ask(verb, "ssh://silent", "ssh://own-name", "ssh://live")
    said = shown.err
    assert shown.out, said
    assert "dkdbg: ssh://silent cannot be queried: there is no host silent\n  hint: ssh silent\n" in said
    assert "dkdbg: ssh://own-name has ended\n" in said


@VERBS
def test_where_no_target_can_be_queried_the_first_error_is_raised(verb, ask):
    """Nothing is known then: no answer says that nothing runs."""
    shown = ask(verb, "ssh://silent", "ssh://silent-too", more=["--json"])
    assert (shown.code, shown.out) == (1, "")
    other = "dkdbg: ssh://silent-too cannot be queried: there is no host silent-too\n  hint: ssh silent-too\n"
    assert shown.err == f"{other}dkdbg: there is no host silent\nssh: no\n  hint: ssh silent\n"


@VERBS
def test_an_invalid_target_beside_others_is_an_error_of_usage(verb, ask):
    shown = ask(verb, "ssh://live", "foo://b")
    assert (shown.code, shown.out) == (EXIT_USAGE, "")
    assert shown.err.startswith("dkdbg: foo://b: unknown target scheme foo://\n  hint: ")


def test_a_target_without_a_session_leaves_the_ranks_of_the_others_shown(ask):
    shown = ask("ranks", "ssh://idle", "ssh://live", more=["--json"])
    answer = json.loads(shown.out)
    assert (shown.code, len(answer["rows"])) == (1, 1)
    assert answer["missing"] == {"ssh://idle": "no session is running on idle"}


def test_a_plot_without_all_targets_fails_as_a_table_does(ask, monkeypatch):
    monkeypatch.setattr(ranks, "_plot", lambda *_: 0)
    assert ask("ranks", "ssh://silent", "ssh://live", more=["--plot"]).code == 1
    assert ask("ranks", "ssh://live", more=["--plot"]).code == 0
