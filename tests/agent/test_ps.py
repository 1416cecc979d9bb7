"""`dkdbg ps` and `dkdbg pdb` find the sessions of this machine, with or without an engine."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.dap_probe import Editor, wait_for
from tests.engine import projects
from tests.hints import in_shell

CODE = "import time\nn = 0\nwhile True:\n    n += 1\n    if n == 1: print('up', flush=True)\n    time.sleep(0.01)\n"


def dkdbg(runtime: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """`dkdbg ...` where no docker is installed."""
    env = {"DKDBG_RUNTIME_DIR": str(runtime), "PATH": str(runtime)}
    return projects.dkdbg(runtime, *words, env=env, text=stdin)


def test_a_local_session_is_listed_without_an_engine_entered_by_pdb_and_hidden_once_it_has_ended(
    launch, tmp_path
):
    running = launch(sys.executable, "-c", CODE, env={"DKDBG_RUNTIME_DIR": str(tmp_path)})
    record = running.wait_state("running")
    assert running.process.stdout.readline() == b"up\n"
    done = dkdbg(tmp_path, "ps")
    assert done.returncode == 0
    assert done.stderr == "dkdbg: docker cannot be queried: there is no program 'docker' here\n"
    line = next(line for line in done.stdout.splitlines() if running.name in line)
    assert line.split()[:4] == ["local", running.name, "running", f"127.0.0.1:{record['port']}"]
    for _ in range(2):  # the first one leaves; a second one comes
        done = dkdbg(tmp_path, "pdb", running.name, stdin="p n > 0\nq\n")
        assert (done.returncode, done.stderr) == (0, "")
        assert "True\n" in done.stdout
        assert "detached" in done.stdout
    assert running.process.poll() is None
    running.process.terminate()
    running.finish()
    for verb in ("ps", "where"):
        done = dkdbg(tmp_path, verb)
        assert "dkdbg ps --all" in done.stdout + done.stderr
    found = json.loads(dkdbg(tmp_path, "ps", "--all", "--json").stdout)
    assert found["engine"] == "there is no program 'docker' here"
    (ours,) = [each for each in found["sessions"] if each["name"] == running.name]
    assert (ours["state"], ours["endpoint"], ours["client"]) == ("exited", "", False)


def test_the_line_at_which_a_debugger_holds_a_process_is_listed(program, tmp_path):
    running = program("x = 1\nx = 2\n", wait="300", env={"DKDBG_RUNTIME_DIR": str(tmp_path)})
    with Editor(running.port, {running.script: [2]}, hold=True) as editor:
        stop = editor.wait_stops(1)[0]
        held = "train.py: train.py:2 (breakpoint)"
        wait_for(lambda: dkdbg(tmp_path, "ps").stdout, lambda said: f"{running.name}: held: {held}" in said)
        (session,) = json.loads(dkdbg(tmp_path, "ps", "--json").stdout)["sessions"]
        assert (session["held"], session["processes"]) == ([held], ["train.py"])
        stop.go_on()
        running.ends(0)


def test_pdb_says_that_the_program_waits_for_its_editor(launch, tmp_path):
    running = launch(sys.executable, "-c", CODE, env={"DKDBG_RUNTIME_DIR": str(tmp_path)}, wait="900")
    running.wait_state("waiting")
    said = f"the program of {running.name} has not started yet: it is waiting for a debugger, up to 900 s"
    done = dkdbg(tmp_path, "pdb", running.name)
    assert (done.returncode, said in done.stderr) == (1, True), done.stderr
    assert "DKDBG_WAIT=0 dkdbg up" in done.stderr


def test_pdb_says_what_there_is(tmp_path):
    done = dkdbg(tmp_path, "pdb", "nowhere")
    assert done.returncode == 127
    assert done.stderr.startswith("dkdbg: nothing here is called 'nowhere'")
    done = dkdbg(tmp_path, "pdb", "local:")
    assert done.returncode == 2
    assert "no session is running" in done.stderr
    assert "dkdbg run -- " in done.stderr
    for words in (("pdb",), ("ranks", "stack")):
        done = dkdbg(tmp_path, *words)
        assert "hint: dkdbg up" in done.stderr


@pytest.fixture
def twins(launch, tmp_path):
    environment = {"DKDBG_RUNTIME_DIR": str(tmp_path), "DKDBG_NAME": "job"}
    started = [launch(sys.executable, "-c", CODE, env=environment, verb="supervise") for _ in range(2)]
    for each in started:
        each.name = "job"
        assert each.process.stdout.readline() == b"up\n"
    return sorted(f"local:job-{each.process.pid}" for each in started)


def named(done: subprocess.CompletedProcess[str]) -> list[str]:
    return sorted(re.findall(r"local:[^\s,;]+", done.stderr.splitlines()[0]))


def test_of_several_sessions_each_verb_says_the_addresses_that_it_takes(twins, tmp_path):
    """It said `dkdbg ps shows them; name one`, and no name that `dkdbg ps` shows was one; `restart` took the newest."""
    verbs = (("pdb",), ("pdb", "job"), ("pdb", "local:"), ("restart", "job"), ("restart", "local:"))
    for verb, *target in verbs:
        done = dkdbg(tmp_path, verb, *target)
        assert (done.returncode, named(done)) == (2, twins), done.stderr
        assert done.stderr.splitlines()[-1] in {f"  hint: name one: dkdbg {verb} {each}" for each in twins}
    for options in ([], ["--on", "job"]):
        done = dkdbg(tmp_path, "ranks", *options, "eval", "6 * 7")
        assert (done.returncode, named(done)) == (2, twins), done.stderr
        hint = done.stderr.splitlines()[-1].removeprefix("  hint: name one: ")
        assert hint in {f"dkdbg ranks --on {each} eval '6 * 7'" for each in twins}
    assert "42" in in_shell(tmp_path, hint, {"DKDBG_RUNTIME_DIR": str(tmp_path)}).stdout
    for each in twins:
        entered = dkdbg(tmp_path, "pdb", each, stdin="p n > 0\nq\n")
        assert (entered.returncode, entered.stderr, "True\n" in entered.stdout) == (0, "", True)
        done = dkdbg(tmp_path, "restart", each)
        assert (done.returncode, done.stdout) == (0, f"{each.removeprefix('local:')}: restarted, run 2\n")


IGNORES = (
    "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\n"
    "while True:\n    time.sleep(0.01)\n"
)


def test_a_program_that_ends_while_it_is_restarted_says_what_runs_now(launch, tmp_path):
    """Its words were doubled: `was not restarted: not restarted: ...`."""
    running = launch(
        sys.executable, "-c", IGNORES, env={"DKDBG_RUNTIME_DIR": str(tmp_path)}, verb="supervise"
    )
    assert running.process.stdout.readline() == b"up\n"
    restarting = subprocess.Popen(
        [sys.executable, "-m", "dkdbg", "restart", running.name], stderr=subprocess.PIPE, text=True,
        env={**os.environ, "DKDBG_RUNTIME_DIR": str(tmp_path), "PATH": str(tmp_path)},
    )  # fmt: skip
    assert any(b"restarting" in line for line in running.process.stderr)
    running.process.terminate()
    said = restarting.communicate(timeout=300)[1]
    assert said.startswith(f"dkdbg: {running.name} was not restarted: was ended by SIGKILL"), said
    assert "hint: dkdbg ps " in said
    assert "no session is running (1 ended" in dkdbg(tmp_path, "ps").stdout


@pytest.mark.parametrize(
    "words",
    [("run", "--on", "127.0.0.1:5", "--", "true"), ("pdb", "a b"), ("where", "--ranks", "failing")],
    ids=["a port", "no target", "ranks"],
)
def test_a_port_or_no_target_at_all_is_refused(tmp_path, words):
    done = dkdbg(tmp_path, *words)
    assert (done.returncode, "hint: " in done.stderr) == (2, True), done.stderr
