"""Save, restart, still attached: one editor attaches once, and the program is started again under it."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from dkdbg.agent.supervisor import reload, restarts
from tests.agent.dap_probe import wait_for
from tests.processes import members

#: Saves in a row.
SAVES = 30 if os.environ.get("DKDBG_TEST_FULL") else 8
LOOP = """\
import threading
import time
version = {version}
print("ready", flush=True)
for n in range(100000):
    here = version * 2
    time.sleep(0.02)
"""


def save(path: Path | str, text: str) -> None:
    """As careful editors do: a new file over the old one."""
    draft = Path(f"{path}.new")
    draft.write_text(text)
    draft.replace(path)


@pytest.fixture
def supervise(launch):
    """Start `supervise`, with --reload unless told otherwise."""

    def start(*command, options=("--reload",), **settings):
        return launch(*command, options=options, verb="supervise", **settings)

    return start


@pytest.fixture
def watched(program):
    """Launch this text under `supervise --reload`, which waits for an editor."""
    return lambda text, options=("--reload",): program(text, wait="300", verb="supervise", options=options)


def test_each_of_many_saves_stops_for_one_attach(watched):
    running = watched(LOOP.format(version=0))
    with running.debugged(5) as debugger:
        debugger.wait_stopped(300)
        for version in range(1, SAVES + 1):
            save(running.script, LOOP.format(version=version))
            top = debugger.stack(debugger.wait_stopped(300))[0]
            assert (top.line, debugger.local_values(top)["version"]) == (5, str(version))
        wait_for(lambda: running.record()["runs"] == SAVES + 1, bool)
        record = running.record()
        assert (record["last_exit_code"], record["client"]) == (143, True)
        alive = lambda: [one for one in debugger.sessions if not one.is_ended]
        wait_for(lambda: len(alive()) == 2, bool)
    running.process.terminate()
    running.ends(143)
    assert members(record) == []


def test_a_syntax_error_keeps_the_old_process_and_is_shown(watched):
    running = watched(LOOP.format(version=1))
    with running.debugged() as debugger:
        assert running.process.stdout.readline() == b"ready\n"  # it has read its file
        wait_for(lambda: running.record()["child"], bool)
        child = running.record()["child"]
        save(running.script, "x = 1\nif x\n    pass\n")
        debugger.wait_output(f"{running.script}:2: SyntaxError: ")
        debugger.wait_output("the running program is kept")
        assert [each.category for each in debugger.output if "SyntaxError" in each.text] == ["important"]
        assert running.record()["child"] == child
        assert running.record()["runs"] == 1
        debugger.set_breakpoints(running.script, [5])
        assert debugger.wait_stopped().session.name != "debugger"  # the old process goes on
        save(running.script, LOOP.format(version=2))
        wait_for(lambda: running.record()["runs"] == 2, bool)
        stop = debugger.wait_stopped()
        assert debugger.local_values(debugger.stack(stop)[0])["version"] == "2"
    running.process.terminate()
    assert f"dkdbg: {running.script}:2: SyntaxError: " in running.finish()[2]


def test_after_a_crash_the_mended_file_runs_and_stops(watched):
    running = watched("raise SystemExit(3)\n")
    with running.debugged() as debugger:
        record = running.wait_state("idle")
        assert (record["last_exit_code"], record["exit_code"], record["detail"]) == (
            3,
            None,
            "exited with code 3",
        )
        debugger.wait_output("the program exited with code 3; waiting for a changed file")
        debugger.set_breakpoints(running.script, [5])
        save(running.script, LOOP.format(version=5))
        stop = debugger.wait_stopped()
        assert debugger.local_values(debugger.stack(stop)[0])["version"] == "5"
        running.wait_state("attached")
    running.process.terminate()
    running.finish()


HANDLER = """\
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
""" + LOOP.format(version=1)


def test_a_request_restarts_a_program_that_is_paused_and_one_that_ignores_sigterm_is_killed(watched):
    running = watched(HANDLER.replace("lambda *_: sys.exit(0)", "signal.SIG_IGN"), options=())
    with running.debugged(7) as debugger:
        first = debugger.wait_stopped()
        assert running.ask("restart")[:2] == (0, "dkdbg: restarted, run 2\n")
        assert debugger.wait_stopped().session is not first.session
        assert running.record()["last_exit_code"] == 137
        os.kill(running.process.pid, signal.SIGHUP)
        debugger.wait_stopped()
        assert running.record()["runs"] == 3


def test_sigterm_passes_through_and_the_exit_code_is_kept(supervise, tmp_path):
    (tmp_path / "t.py").write_text(HANDLER.replace("sys.exit(0)", "sys.exit(7)"))
    running = supervise(sys.executable, "t.py")
    assert running.process.stdout.readline() == b"ready\n"
    running.process.terminate()
    running.ends(7)
    assert running.record()["exit_code"] == 7


@pytest.mark.parametrize(
    ("command", "options", "code"),
    [
        ("exit 4", ("--reload",), 4),
        ("exit 0", ("--on-crash", "exit"), 0),
        ("exit 5", ("--on-crash", "exit"), 5),
    ],
)
def test_it_ends_with_the_programs_code_at_once_or_at_sigterm(supervise, command, options, code):
    running = supervise("sh", "-c", command, options=options)
    if "exit" not in options:
        running.wait_state("idle")
        running.process.terminate()
    running.ends(code)


def test_a_crash_starts_it_again_so_often_and_no_more(supervise):
    running = supervise("sh", "-c", "exit 6", options=("--on-crash", "restart", "--max-restarts", "1"))
    wait_for(lambda: running.record().get("runs") == 2, bool)
    assert running.wait_state("idle")["last_exit_code"] == 6
    running.process.terminate()
    err = running.ends(6)
    assert "dkdbg: the program exited with code 6; starting again in 1 s\n" in err
    assert "dkdbg: crashed 2 times in a row: not started again\n" in err


def test_a_command_that_does_not_exist_ends_it_at_once(supervise):
    supervise("no-such-command").ends(127)


def test_launch_supervises_when_the_environment_says_so(launch):
    running = launch("sh", "-c", "exit 3", env={"DKDBG_RELOAD": "1"})
    assert running.wait_state("idle")["last_exit_code"] == 3
    running.process.terminate()
    running.ends(3)
    launch("sh", "-c", "exit 3", env={"DKDBG_RELOAD": "0"}).ends(3)


def test_a_launch_restarts_when_asked_to_and_ends_with_its_program(launch):
    running = launch("sh", "-c", "echo run; exec sleep 600")
    running.wait_state("running")
    assert running.process.stdout.readline() == b"run\n"
    assert running.ask("restart")[:2] == (0, "dkdbg: restarted, run 2\n")
    assert running.process.stdout.readline() == b"run\n"
    assert running.ask("stop")[:2] == (0, "dkdbg: asked to end\n")
    running.ends(143, "")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_a_signal_that_comes_while_a_launch_restarts_its_program_ends_it(program, tmp_path, number):
    running = program(
        "import os, signal, sys, time\n"
        "def end(*_):\n"
        "    while not os.path.exists('go'): time.sleep(0.01)\n"
        "    sys.exit(3)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('run', flush=True)\n"
        "time.sleep(600)\n"
    )
    assert running.process.stdout.readline() == b"run\n"
    asks = threading.Thread(target=running.ask, args=("restart",))
    asks.start()
    running.wait_state("restarting")
    running.process.send_signal(number)
    status = Path(f"/proc/{running.process.pid}/status")
    pending = 1 << (number - 1)
    wait_for(
        lambda: int(status.read_text().split("ShdPnd:")[1].split()[0], 16), lambda bits: not bits & pending
    )
    (tmp_path / "go").touch()
    assert running.finish(60)[1] == ""
    asks.join()


def test_a_restart_of_a_launch_whose_end_is_kept_is_answered_at_once(launch):
    running = launch("sleep", "0.5", env={"DKDBG_LINGER": "600"})
    child = running.wait_state("running")["child"]
    wait_for(lambda: Path(f"/proc/{child}").exists(), lambda there: not there)
    asks = threading.Thread(target=running.ask, args=("restart",))
    asks.start()
    asks.join(20)
    assert not asks.is_alive()


@pytest.mark.parametrize("is_up", [True, False])
def test_a_restart_that_cannot_be_started_is_answered_at_once(is_up):
    def fail():
        asked.take()
        for end in ["exited with code 143"] * is_up + ["no such file: train.py"]:
            asked.ended(end)

    asked, answers = restarts.Restarts(fail), []
    asked.started()
    if not is_up:
        asked.ended("exited with code 0")
    asks = threading.Thread(target=lambda: answers.append(asked.ask()))
    asks.start()
    asks.join(10)
    assert answers == ["not restarted: no such file: train.py"]


def test_an_editor_that_attaches_after_the_end_starts_it_again_and_its_stop_button_ends_it(watched):
    running = watched(LOOP.format(version=1))
    with running.debugged() as debugger:
        wait_for(lambda: running.record()["runs"] == 1, bool)
        debugger.disconnect(terminate=True)
    assert running.wait_state("idle")["child"] is None
    with running.debugged(5) as debugger:
        assert debugger.stack(debugger.wait_stopped())[0].line == 5
        assert running.record()["runs"] == 2
        debugger.disconnect(terminate=True)
    running.wait_state("idle")
    save(running.script, LOOP.format(version=2))
    wait_for(lambda: running.record()["runs"] == 3, bool)
    running.process.terminate()
    running.finish()


FAMILY = """\
import multiprocessing, os, subprocess, sys, time

def work():
    time.sleep(600)

if __name__ == "__main__":
    for method in ("fork", "spawn"):
        multiprocessing.get_context(method).Process(target=work).start()
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    subprocess.Popen(["setsid", "sh", "-c", "trap '' TERM; while :; do sleep 1; done"])
    subprocess.Popen("sleep 600 & exit", shell=True)
    print("ready", os.getpid(), flush=True)
    if not os.path.exists("end"):
        time.sleep(600)
    os._exit(0)
"""


def test_children_in_their_own_sessions_are_gone_after_a_restart_and_at_the_end(supervise, tmp_path):
    (tmp_path / "t.py").write_text(FAMILY)
    running = supervise(sys.executable, "t.py", options=())
    assert running.process.stdout.readline().startswith(b"ready")
    wait_for(lambda: len(members(running.record())) >= 7, bool)
    before = set(members(running.record()))
    assert running.ask("restart")[0] == 0
    assert running.process.stdout.readline().startswith(b"ready")
    assert before & set(members(running.record())) == set()
    (tmp_path / "end").touch()
    assert running.ask("restart")[0] == 0
    assert members(running.wait_state("idle")) == []
    running.process.terminate()
    running.finish()


#: Says `ready` at each start, and not in a traceback.
READY = "import time\nprint('re' + 'ady', flush=True)\ntime.sleep(600)\n"


def test_one_ctrl_c_restarts_and_two_quit(in_terminal):
    terminal = in_terminal(READY, "supervise")
    terminal.until("ready")
    terminal.type("\x03")
    assert "dkdbg: Ctrl-C: restarting; once more within 2 s quits" in terminal.until("ready")
    time.sleep(2.1)  # two single ones, not a double one
    terminal.type("\x03")
    alive = True
    while alive:  # on a slow machine the second one may come too late for the first: it restarts once more
        terminal.until("once more within")
        terminal.type("\x03")
        while alive and "once more within" not in terminal.shown:
            alive = terminal.read()
    assert terminal.end() == 130


def test_a_closed_terminal_ends_it(in_terminal):
    terminal = in_terminal(READY, "supervise")
    terminal.until("ready")
    terminal.hang_up()
    assert terminal.process.wait(300) != 0


class Seen:
    def __init__(self, root: Path, without: tuple[str, ...] = ()) -> None:
        self.root = root
        self.watcher = reload.Watcher(
            [str(root)], (".py",), without=without, on_change=lambda _: None, log=print
        )
        self.before = self.watcher.scan()

    def change(self) -> list[str]:
        now = self.watcher.scan()
        found = reload._difference(self.before, now)
        self.before = now
        return [os.path.relpath(path, self.root) for path in found]


def test_the_watcher_sees_new_changed_renamed_and_removed_sources_alone_and_not_the_agents_own(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to("run")
    for folder in ("pkg/sub", ".git", "venv", "__pycache__", "other"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.py").write_text("1")
    (tmp_path / "other/pyvenv.cfg").write_text("")
    seen = Seen(tmp_path, without=(str(tmp_path / "link"),))
    assert sorted(os.path.relpath(path, tmp_path) for path in seen.before) == ["pkg/sub/a.py"]
    (tmp_path / "pkg/new.py").write_text("2")
    assert seen.change() == ["pkg/new.py"]
    (tmp_path / "pkg/sub/a.py").write_text("3")
    assert seen.change() == ["pkg/sub/a.py"]
    save(tmp_path / "pkg/new.py", "4")
    assert seen.change() == ["pkg/new.py"]
    for ignored in ("run/hook.py", "venv/a.py", ".git/a.py", "other/a.py", "pkg/data.csv", "pkg/conf.yaml"):
        (tmp_path / ignored).write_text("9")
    assert seen.change() == []
    (tmp_path / "pkg/new.py").unlink()
    assert seen.change() == ["pkg/new.py"]
    (tmp_path / "pkg").rename(tmp_path / "lib")
    assert seen.change() == ["lib/sub/a.py", "pkg/sub/a.py"]


def test_a_change_that_took_long_to_handle_does_not_postpone_the_next_look(tmp_path, monkeypatch):
    """A branch switch of 3,000 files took 4 s to settle and compile, and the next change was seen after 36 s."""
    clock, waits = [0.0], list[float]()

    class Rounds(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0.0)
            if len(waits) == 1:
                (tmp_path / "train.py").write_text("x = 1\n")
            elif len(waits) == 3:
                self.set()
            return self.is_set()

    def handle(_changed: list[str]) -> None:
        clock[0] += 100.0

    monkeypatch.setattr(reload, "time", SimpleNamespace(monotonic=lambda: clock[0], time_ns=time.time_ns))
    watcher = reload.Watcher([str(tmp_path)], (".py",), on_change=handle, log=print)
    watcher._stop = Rounds()
    watcher._watch()
    assert (clock, waits) == ([100.0], [reload.INTERVAL_S, reload.QUIET_S, reload.INTERVAL_S])


REAPER = """
import os, sys, threading, time
from dkdbg.agent.supervisor import reload

def reap():
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            time.sleep(0.0001)

threading.Thread(target=reap, daemon=True).start()
print(reload.syntax_error(sys.argv[1], sys.executable))
"""


def test_a_syntax_error_is_seen_by_a_first_process_that_reaps_all_children(tmp_path):
    (tmp_path / "train.py").write_text("def broken(:\n")
    words = [sys.executable, "-c", REAPER, str(tmp_path / "train.py")]
    told = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, timeout=300).stdout
    assert "SyntaxError" in told


def test_a_newer_grammar_is_left_to_the_programs_python(tmp_path):
    file = tmp_path / "new.py"
    file.write_text("x = = 1\n")
    assert reload.syntax_error(str(file), sys.executable) == f"{file}:1: SyntaxError: invalid syntax"
    newer = tmp_path / "python"
    newer.write_text("#!/bin/sh\necho ok\n")
    newer.chmod(0o755)
    assert reload.syntax_error(str(file), str(newer)) == ""
