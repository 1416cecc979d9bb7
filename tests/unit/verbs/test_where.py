"""`dkdbg where` without a target."""

from dataclasses import replace
from types import SimpleNamespace

from dkdbg.core.sessions import UNREADABLE, SeenSession
from dkdbg.targets import registry
from dkdbg.verbs import where
from dkdbg.verbs.parser import Parser

BROKEN = SeenSession(
    target="container train", address="docker://train", id="1", name="train", state=UNREADABLE, detail="no JSON"
)  # fmt: skip


def test_a_session_that_cannot_be_read_is_said_to_be_missing_from_the_map(monkeypatch, tmp_path, capsys):
    """Without it, the ranks of a job look as if one of the others were behind."""
    monkeypatch.setattr(registry, "sessions", lambda: ([BROKEN], {}))
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
