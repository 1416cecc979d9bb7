"""`dkdbg where` on ranks that hang, each in its own way: real PyTorch, real gloo, three processes, nobody attached."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.conftest import Launch
from tests.agent.dap_probe import wait_for
from tests.commands import command as run
from tests.engine.projects import dkdbg
from tests.frameworks import python_with
from tests.pages import Page, environment
from tests.ports import free_port

SCRIPT = Path(__file__).with_name("hanging.py")


def line_of(mark: str) -> int:
    return next(n for n, line in enumerate(SCRIPT.read_text().splitlines(), 1) if line.endswith(f"# {mark}"))


def where(running: Launch) -> str:
    """What `dkdbg where` says of the session, without an engine."""
    env = {"DKDBG_RUNTIME_DIR": str(running.runtime), "PATH": str(running.runtime)}
    return dkdbg(running.runtime, "where", running.name, env=env).stdout


@pytest.fixture
def hang(launch, tmp_path):
    """Start the ranks in one way to hang."""
    python = python_with("torch")
    shutil.copy(SCRIPT, tmp_path)

    def start(mode, ranks=3):
        running = launch(python, SCRIPT.name, mode, env={"OMP_NUM_THREADS": "1", "RANKS": str(ranks)})
        running.wait_state("running")
        return running

    return start


def count(folder: Path, rank: int) -> int:
    try:
        return int((folder / f"progress-{rank}").read_text())
    except (OSError, ValueError):
        return 0


def all_go_on(folder: Path, ranks: tuple[int, ...]) -> None:
    before = {rank: count(folder, rank) for rank in ranks}
    wait_for(lambda: [count(folder, rank) > before[rank] for rank in ranks], all)


def test_the_odd_rank_is_named_with_its_line_before_the_others(hang, tmp_path):
    """A rank that is elsewhere for another reason is in the page's example below."""
    odd = f"rank 2 in take at hanging.py:{line_of('lock')}"
    others = f"2 ranks (0, 1) in all_reduce, from step at hanging.py:{line_of('collective')}"
    late = "rank 2 has not reached all_reduce #6 of all ranks: ranks 0, 1 arrived "
    thread = f"thread writer in take at hanging.py:{line_of('lock')}"
    said = shows(hang("lock"), odd, others, late, "3 ranks, 1 other process", thread)
    assert said.index(odd) < said.index(others)
    all_go_on(tmp_path, (0, 1, 2))


def test_the_rank_that_calls_a_collective_with_another_shape_is_named(hang, tmp_path):
    """Of three ranks gloo ends one."""
    alike = "collective #6 of all ranks differs between ranks"
    called = "rank 2: all_reduce of Float [7]", "ranks 0, 1, 3: all_reduce of Float [4]"
    shows(hang("shapes", ranks=4), alike, *called)
    all_go_on(tmp_path, (0, 1, 2, 3))


def test_a_rank_that_does_not_answer_is_seen_from_outside_and_once_it_is_dead_it_is_named(hang, tmp_path):
    running = hang("frozen")
    shows(running, "rank 2", "it is stopped by a signal (SIGCONT continues it)", "2 ranks (0, 1)")
    all_go_on(tmp_path, (0, 1))
    os.kill(next(p["pid"] for p in running.record()["processes"] if p["rank"] == 2), signal.SIGKILL)
    line = f"at hanging.py:{line_of('meet')}"
    shows(running, "rank 2 is missing", line, "2 ranks (0, 1) in ")  # once all have come there
    all_go_on(tmp_path, (0, 1))


def shows(running, *words: str) -> str:
    """Return what `dkdbg where` says once these words are in it; a process that answers late is not shown with its frames."""

    def shown():
        assert running.process.poll() is None, running.process.communicate()
        return where(running)

    return wait_for(shown, lambda said: all(each in said for each in words))


def test_a_process_that_keeps_the_gil_in_c_is_seen_from_outside(program):
    running = program("import ctypes\nctypes.PyDLL(None).sleep(600)\n", name="keeps.py")
    running.wait_state("running")
    shows(running, "keeps.py (", "it does not answer: it sleeps, most likely in C code that holds the GIL")


def test_where_of_a_program_without_the_hook_says_what_enters_it(launch):
    """It said that no Python process was running there."""
    running = launch(sys.executable, "-S", "-c", "import time; print('up', flush=True); time.sleep(600)")
    running.wait_state("running")
    said = where(running)
    assert "no process on the target has dkdbg's hook" in said
    assert "dkdbg attach TARGET --pid PID" in said


def test_a_program_that_waits_for_an_editor_is_named_with_the_command_that_starts_it(program):
    """It was told to run py-spy."""
    running = program("pass\n", wait="300")
    running.wait_state("waiting")
    said = where(running)
    assert "(local): not started yet: it waits for an editor (dkdbg attach local:" in said
    assert "py-spy" not in said


def test_a_process_that_a_debugger_holds_is_where_it_is_held(program):
    """It was shown in the debugger's own frames, as if they were the program's."""
    running = program("def step():\n    return 1\n\nwhile True:\n    step()\n", wait="300")
    with running.debugged(2) as debugger:
        debugger.wait_stopped(300)
        assert "pydevd" not in shows(running, "in step at train.py:2\n    a debugger has stopped it: ")


def test_a_wait_that_dkdbg_has_lengthened_is_shown_without_its_frames(program):
    text = "import threading\nwhile True:\n    n = 1\n    threading.Event().wait(5)\n"
    running = program(text)
    with running.debugged(3) as debugger:
        stop = debugger.wait_stopped(300)
        debugger.set_breakpoints(running.script, [])
        debugger.continue_(stop)
        assert "lengthened" not in shows(running, "at train.py:4")


def test_what_the_page_says_is_so(tmp_path):
    page = Page.of("hang.md")
    python = Path(python_with("torch"))
    shutil.copy(SCRIPT, tmp_path / "train.py")
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    env = {"DKDBG_RUNTIME_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    path = os.pathsep.join([str(Path(sys.executable).parent), str(python.parent), os.environ["PATH"]])
    with page.all_run(), (tmp_path / "log").open("w") as log:
        words = [
            each.replace("dkdbg run --", f"dkdbg run --port {free_port()} --")
            for each in page.words("dkdbg run -- torchrun")
        ]
        job = subprocess.Popen(
            words, cwd=tmp_path, env=environment(env) | {"PATH": path}, stdout=log, stderr=log,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            late = "rank 2 has not reached all_reduce #6 of all ranks"

            def comes(command, fits):
                """Type a command of the page until it shows that; a rank that answers late is not in a look."""
                words = page.words(command)

                def looks():
                    assert job.poll() is None, (tmp_path / "log").read_text()
                    return run(words, tmp_path, env=environment(env), check=False)

                wait_for(looks, fits)

            def told(done):
                found, *others = json.loads(done.stdout)["jobs"]
                groups = [each["ranks"] for each in found["ranks"]]
                return (
                    not others
                    and groups == [[2], [0, 1, 3]]
                    and found["findings"][0]["text"].startswith(late)
                )

            odd = f"rank 2 in load_batch at train.py:{line_of('load')}"
            comes("dkdbg where", lambda done: late in done.stdout and odd in done.stdout)
            watching = subprocess.Popen(
                page.words("dkdbg where --watch --ranks 2"), cwd=tmp_path, env=environment(env), stdout=subprocess.PIPE, text=True
            )  # fmt: skip
            looks = 0
            while looks < 2:
                looks += "nothing was stopped" in watching.stdout.readline()
            watching.send_signal(signal.SIGINT)
            assert watching.wait(300) == 0
            watching.stdout.close()
            comes(
                "dkdbg where --html",
                lambda done: not done.returncode and late in (tmp_path / "hang.html").read_text(),
            )
            comes("dkdbg where --json", told)
        finally:
            job.terminate()
            job.wait(300)
