"""Which folders the launch entry of `dkdbg attach` maps, and what it says of its targets."""

from types import SimpleNamespace

from dkdbg.attach.upstream import Seen, Upstream
from dkdbg.errors import DkdbgError
from dkdbg.targets.registry import target_of
from dkdbg.verbs import attach

NOTHING_YET = Seen(endpoint=None, agent="", why="slow", record=None)


def test_a_session_that_is_slow_to_answer_adds_no_folder_to_that_of_an_entered_process(tmp_path, monkeypatch):
    node = target_of("ssh://node1", tmp_path)
    monkeypatch.setattr(
        type(node), "planned_workdir", lambda _, name: SimpleNamespace(local="here", remote=f"~/{name}")
    )
    assert attach._code_of(tmp_path, node, NOTHING_YET, guess=True)[0][1].startswith(f"~/{tmp_path.name}")
    assert attach._code_of(tmp_path, node, NOTHING_YET, guess=False) == ()


def test_the_hint_of_a_target_that_refuses_the_connection_is_shown(tmp_path, monkeypatch, capsys):
    node = target_of("ssh://node1", tmp_path)

    def refuse(**_):
        raise DkdbgError("node1 accepts none of the keys that ssh offers", hint="ssh-add -l shows your keys")

    monkeypatch.setattr(node, "_probe_again", refuse)
    reporter = attach._Reporter(as_json=False)
    attach._welcome(reporter, tmp_path, None, [Upstream(node, "node1")], 5677, entered=[("a", "b")])
    reporter.end()
    shown = capsys.readouterr().out
    assert "node1: waiting: node1 accepts none of the keys that ssh offers\n" in shown
    assert "hint: ssh-add -l shows your keys\n" in shown
