"""What runs is what the editor shows: after an edit the next attach starts the program anew, or says what to do."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from dkdbg.agent.supervisor import restarts
from tests.agent.dap_probe import Client, Editor, Session, wait_for
from tests.engine.projects import must
from tests.hints import in_shell

LOOP = """\
import os, time
import model
n = 0
while not os.path.exists("stop"):
    n = model.step(n)
    time.sleep(0.02)
"""
LINE = 5
MODEL = "def step(n):\n    return n + 1\n"


@pytest.fixture
def train(program, tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    yield lambda **env: program(LOOP, env=env)
    (tmp_path / "stop").touch()


def stop_and_leave(running: Any) -> int:
    """Attach, stop in the loop, leave as Shift+F5 does; return the pid of the program once the agent knows it."""
    with Editor(running.port, {running.script: [LINE]}, hold=True) as editor:
        (stop,) = editor.wait_stops(1)
        (pid,) = (pid for pid in editor.sessions if pid)
        stop["session"].request("disconnect", terminateDebuggee=False)
        wait_for(lambda: editor.sessions[0].closed, bool)
    is_free(running)
    return pid


def is_free(running: Any) -> None:
    """Return when the agent knows that the editor has left."""
    wait_for(lambda: running.record()["client"], lambda client: not client)


def test_what_was_edited_since_the_last_stop_runs_at_the_next_attach_a_module_too_and_nothing_else_counts(
    train, tmp_path
):
    running = train(DKDBG_RESTART="auto")
    port, script = running.port, tmp_path / "train.py"
    before = stop_and_leave(running)
    (tmp_path / "unrelated.py").write_text("x = 1\n")
    assert stop_and_leave(running) == before
    script.write_text("# one\n# two\n" + LOOP)
    with Editor(port, {str(script): [LINE + 2]}, hold=True) as editor:
        (stop,) = editor.wait_stops(1)
        assert (stop["line"], stop["path"]) == (LINE + 2, str(script))
        assert before not in editor.sessions
        editor.wait_output("restarting: train.py was changed after the program had been started")
    wait_for(lambda: running.record()["runs"], (2).__eq__)
    is_free(running)
    (tmp_path / "model.py").write_text("def step(n):\n    return n + 10\n")
    with Editor(port, {str(tmp_path / "model.py"): [2]}, hold=True) as editor:
        (stop,) = editor.wait_stops(1)
        assert stop.value("step(0)") == "10"
    wait_for(lambda: running.record()["runs"], (3).__eq__)


@pytest.mark.parametrize("ahead", [-7200.0, 7200.0])
def test_what_comes_with_the_clock_of_another_machine_counts_from_when_it_came(program, tmp_path, ahead):
    """A laptop's clock, from which sync and rsync copy the time of a file; so does `mv` of an earlier version."""

    def replace(path: Path, text: str) -> None:
        (tmp_path / "new").write_text(text)
        os.utime(tmp_path / "new", (time.time() + ahead,) * 2)
        (tmp_path / "new").rename(path)

    replace(tmp_path / "model.py", MODEL)
    running = program(LOOP, env={"DKDBG_RESTART": "auto"})
    before = stop_and_leave(running)
    assert stop_and_leave(running) == before
    replace(tmp_path / "model.py", "def step(n):\n    return n + 10\n")
    with Editor(running.port, {str(tmp_path / "model.py"): [2]}, hold=True) as editor:
        (stop,) = editor.wait_stops(1)
        assert stop.value("step(0)") == "10"
    (tmp_path / "stop").touch()


@pytest.mark.parametrize("saved", ["model.py", "train.py"])
def test_a_file_that_is_edited_while_the_program_is_held_is_named_once_at_a_following_stop(
    train, tmp_path, saved
):
    running = train()
    with Editor(running.port, {running.script: [LINE]}, hold=True) as editor:
        stops = editor.wait_stops(1)
        path = tmp_path / saved
        path.with_suffix(".tmp").write_text("# one\n" + path.read_text())
        path.with_suffix(".tmp").rename(path)
        while f"{saved} was changed after the program had been started" not in "".join(editor.output):
            stops[-1].go_on()
            stops = editor.wait_stops(len(stops) + 1)
        editor.hold = False
        stops[-1].go_on()
        (tmp_path / "stop").touch()
        running.ends()
    assert editor.said("was changed after the program") == {1}


@pytest.mark.parametrize("setting", ["", "ask", "never"])
def test_a_program_that_is_not_to_be_restarted_is_left_running_with_a_message(train, tmp_path, setting):
    """Where it is forbidden editors restart nothing either, and the command does."""
    running = train(DKDBG_RESTART=setting)
    before = stop_and_leave(running)
    (tmp_path / "train.py").write_text("# one\n" + LOOP)
    with Client(running.port).attach() as client:
        said = client.event("output", text="train.py was changed after the program had been started")
        assert said["category"] == "important"
        assert ("Ctrl+Shift+F5" in said["output"]) == (setting != "never")
        assert "`dkdbg restart`" in said["output"]
        assert client.event("debugpyAttach")["subProcessId"] == before
        assert may_restart(client.session) == (setting != "never")
        if setting == "never":
            assert "`dkdbg restart`" in client.refusal("restart")["message"]
    assert running.record()["runs"] == 1
    restart = f"dkdbg restart {running.name}"
    must(in_shell(tmp_path, restart, {"DKDBG_RUNTIME_DIR": str(running.runtime)}))
    wait_for(lambda: running.record()["runs"], (2).__eq__)


def may_restart(session: Session) -> bool:
    initialize = next(answer for answer in session.answers.values() if answer["command"] == "initialize")
    return bool(initialize["body"].get("supportsRestartRequest"))


def test_a_crash_that_is_held_for_an_editor_is_not_thrown_away(program, tmp_path):
    env = {"DKDBG_RESTART": "auto", "DKDBG_ON_CRASH": "hold=5m"}
    running = program("x = 41\nraise SystemError(x)\n", env=env)
    port = running.wait_state("post-mortem")["port"]
    (tmp_path / "train.py").write_text("x = 42\nraise SystemError(x)\n")
    with Editor(port, {}, hold=True) as editor:
        (stop,) = editor.wait_stops(1)
        assert stop.value("x") == "41"


@pytest.mark.parametrize("focus", ["root", "process"])
def test_restart_in_the_editor_restarts_the_program_and_it_stands_in_the_new_one(train, tmp_path, focus):
    running = train()
    port, script = running.wait_state("running")["port"], tmp_path / "train.py"
    with Editor(port, {str(script): [LINE]}, hold=True) as editor:
        (first,) = editor.wait_stops(1)
        root = editor.sessions[0]
        assert may_restart(root)
        assert (root if focus == "root" else first["session"]).request("restart") == {}
        second = editor.wait_stops(2)[1]
        assert second["session"] is not first["session"]
        wait_for(lambda: first["session"].closed, bool)
        assert not root.closed
        assert second.value("n") == "0"
    wait_for(lambda: running.record()["runs"], (2).__eq__)


def test_a_program_that_answers_nothing_delays_an_attach_by_a_second_at_most(program):
    running = program("import time\nprint(1, flush=True)\ntime.sleep(600)\n", env={"DKDBG_RESTART": "auto"})
    assert running.process.stdout.readline() == b"1\n"
    record = running.wait_state("running")
    wait_for(lambda: running.record()["processes"], bool)
    os.kill(record["child"], signal.SIGSTOP)
    try:
        with Client(record["port"]).attach():
            wait_for(lambda: running.record()["client"], bool)
    finally:
        os.kill(record["child"], signal.SIGCONT)


def test_an_old_run_is_not_thrown_away_by_an_attach():
    assert restarts.should_restart(["/w/train.py"], "auto", restarts.MAX_RESTART_AGE_S - 1, is_held=False)
    assert not restarts.should_restart(["/w/train.py"], "auto", restarts.MAX_RESTART_AGE_S + 1, is_held=False)
    assert not restarts.should_restart([], "auto", 1.0, is_held=False)


def test_only_mapped_files_and_those_below_the_mapped_folders_count(tmp_path):
    record: Any = {"mappings": [{"remoteRoot": str(tmp_path / "w"), "exists": True}], "cwd": "/"}
    mine, cache = str(tmp_path / "w" / "a.py"), str(tmp_path / "cache" / "b.py")
    hook = str(tmp_path / "w" / "run" / "h.py")
    assert restarts.own_files([mine, cache, hook], record, str(tmp_path / "w" / "run")) == [mine]
    assert restarts.own_files([mine], {**record, "mappings": []}, "/run") == []
    assert restarts.own_files([mine], {**record, "mappings": [], "cwd": str(tmp_path)}, "/run") == [mine]
    file = {"mappings": [{"remoteRoot": mine, "exists": True}], "cwd": "/"}
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "a.py").touch()
    assert restarts.own_files([mine, f"{mine}.orig"], file, "/run") == [mine]
