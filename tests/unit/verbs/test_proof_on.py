"""`dkdbg verify --on`: which session there is the run's."""

import contextlib
import subprocess
import sys

import pytest

from dkdbg import process
from dkdbg.core.sessions import SeenSession
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.main import main
from dkdbg.verbs.parts import proof_on


def session(id_, state, started=1.0):
    return SeenSession(target="local", address="local:", id=id_, name=id_, state=state, started=started)


def started(tmp_path, monkeypatch, looks):
    """Start a run on a target with these sessions: at the start, and from then on."""
    left = list(looks)
    monkeypatch.setattr(proof_on, "_sessions", lambda *_: left.pop(0) if left[1:] else left[0])
    running = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True)
    monkeypatch.setattr(process, "start", lambda *_args, **_options: running)
    with contextlib.ExitStack() as opened:
        opened.callback(running.stdin.close)
        trial = proof_on._start(
            tmp_path, "local:", ["python", "a.py"], is_local=False, sync=False, report=str, at_end=opened.callback
        )  # fmt: skip
        assert trial.ready(5)
    return trial


def test_a_session_that_an_editor_has_left_meanwhile_is_not_ours(tmp_path, monkeypatch):
    looks = [[session("old", "attached")], [session("old", "running"), session("ours", "waiting", 2.0)]]
    assert started(tmp_path, monkeypatch, looks).session() == "ours"


def test_the_newest_of_several_sessions_is_ours(tmp_path, monkeypatch):
    looks = [[], [session("ours", "waiting", 3.0), session("other", "running", 2.0)]]
    assert started(tmp_path, monkeypatch, looks).session() == "ours"


def test_without_the_sessions_before_nothing_is_started(tmp_path, monkeypatch):
    def unreachable(*_):
        raise DkdbgError("no connection")

    monkeypatch.setattr(proof_on, "_sessions", unreachable)
    monkeypatch.setattr(process, "start", lambda *_args, **_options: pytest.fail("started"))
    with pytest.raises(DkdbgError, match="no connection"):
        proof_on._start(
            tmp_path, "local:", ["python", "a.py"], is_local=False, sync=False, report=str, at_end=pytest.fail
        )  # fmt: skip


def test_a_remedy_for_another_target_names_no_file_of_this_repositorys_image(tmp_path):
    subject = proof_on.subject(tmp_path, "local:", ["python", "train.py"], sync=False, timeout=1)
    assert subject.around.installs_from is None


@pytest.mark.parametrize("words", [["--", "python", "a b.py"], ["--sync"]])
def test_what_only_a_run_on_a_target_takes_is_refused_without_one(words, tmp_path, capsys):
    assert main(["-C", str(tmp_path), "verify", *words]) == EXIT_USAGE
    assert "dkdbg verify --on local: -- " in capsys.readouterr().err
