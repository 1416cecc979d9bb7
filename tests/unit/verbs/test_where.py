"""`dkdbg where` without a target, and the verbs that show several targets."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dkdbg.core import stacks
from dkdbg.core.address import parse
from dkdbg.core.sessions import UNREADABLE, SeenSession
from dkdbg.core.target import Target
from dkdbg.errors import EXIT_ENGINE, EXIT_NO_PROGRAM, DkdbgError
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


@pytest.mark.parametrize("verb", ["ps", "where", "ranks"])
def test_a_target_that_cannot_be_queried_leaves_the_others_shown(verb, script, dkdbg, monkeypatch):
    class Fake(Target):
        endpoint = None

        def sessions(self):
            if self.address.rest == "silent":
                raise DkdbgError("there is no host silent\nssh: no")
            return [replace(BROKEN, state="running", detail="")]

    process = stacks.Process(pid=1, ppid=0, name="train", rank=None, world_size=0)
    session = stacks.Session(id="1", name="train", target="live", address="ssh://live", processes=(process,))
    row = {"pid": 1, "name": "train", "state": "value", "text": "1", "type": "int"}
    monkeypatch.setattr(registry, "target_of", lambda name, _root: Fake(parse(name)))
    monkeypatch.setattr(registry, "targets_of", lambda name, _root: [Fake(parse(name))])
    monkeypatch.setattr(where, "ask", lambda *_, **__: ([session], {}))
    monkeypatch.setattr(ranks, "_ask", lambda *_: [row])
    names = ("ssh://silent", "ssh://live")
    words = (
        ("--json", "--on", names[0], "--on", names[1], "eval", "x") if verb == "ranks" else (*names, "--json")
    )
    shown = dkdbg(script, verb, *words)
    assert shown.out, shown.err
    answer = json.loads(shown.out)
    assert (shown.code, answer["missing"]) == (1, {"ssh://silent": "there is no host silent"})
    assert [len(answer[key]) for key in ("sessions", "jobs", "rows") if key in answer] == [1]
