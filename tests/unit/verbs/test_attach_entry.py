"""Which folders the launch entry of `dkdbg attach` maps."""

from types import SimpleNamespace

from dkdbg.attach.upstream import Seen
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
