"""`dkdbg where` without a target."""

from dkdbg.core.sessions import UNREADABLE, SeenSession
from dkdbg.targets import registry
from dkdbg.verbs import where
from dkdbg.verbs.parser import Parser


def test_a_session_that_cannot_be_read_is_said_to_be_missing_from_the_map(monkeypatch, tmp_path, capsys):
    """Without it, the ranks of a job look as if one of the others were behind."""
    broken = SeenSession(
        target="container train", address="docker://train", id="1", name="train", state=UNREADABLE, detail="no JSON"
    )  # fmt: skip
    monkeypatch.setattr(registry, "sessions", lambda: ([broken], {}))
    parser = Parser()
    where.add_options(parser)
    assert where.call(parser.parse_args([]), tmp_path) == 1
    shown = capsys.readouterr()
    assert "container train cannot be queried: no JSON" in shown.err
    assert "no process has answered" in shown.out
