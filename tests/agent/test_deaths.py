"""A process of the program that dies of a signal: the editor and the log say which one, of what and where."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dkdbg.agent.inprocess import last_stack
from dkdbg.agent.state import deaths, procfs
from tests.agent.dap_probe import wait_for
from tests.pythons import need

LINUX = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))
KERNEL = """\
import ctypes, faulthandler, os, signal, sys, time

def kernel():
    END

while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
print("rank", os.getpid(), flush=True)  # breakpoint
kernel()
"""
#: A parent that reaps its child at once, as multiprocessing and `Popen.wait` do.
WAITING_PARENT = """\
import subprocess, sys
subprocess.Popen([sys.executable, *sys.argv[1:]]).wait()
print("reaped", flush=True)
sys.stdin.read()
"""
#: A parent that reaps its child a moment later, as torchrun does: until then the kernel has its exit status.
PARENT = """\
import subprocess, sys, time
child = subprocess.Popen([sys.executable, *sys.argv[1:]])
while child.poll() is None:
    time.sleep(0.5)
sys.exit(abs(child.returncode) % 100)
"""
FAULTS = {
    "SIGSEGV": "ctypes.string_at(0)",
    "SIGABRT": "os.abort()",
    "SIGBUS": "os.kill(os.getpid(), signal.SIGBUS)",
    "SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
    "SIGSEGV of a forked child": "os.fork() or ctypes.string_at(0); os.wait()",
}


@pytest.fixture
def started(launch, tmp_path):
    """Start a parent with a child that goes on when the file `go` is there."""

    def start(end: str, parent: str = PARENT, wait: str = "60", **more):
        (tmp_path / "kernel.py").write_text(KERNEL.replace("END", end))
        (tmp_path / "parent.py").write_text(parent)
        running = launch(sys.executable, "parent.py", "kernel.py", str(tmp_path / "go"), wait=wait, **more)
        running.script = str(tmp_path / "kernel.py")
        return running, tmp_path / "go"

    return start


@pytest.fixture
def died(started):
    """Let such a child end under an editor, and return what the editor is told, and the log."""

    def run(end):
        running, go = started(end)
        with running.debugged() as debugger:
            debugger.wait_session(lambda session: session.name == "kernel.py", "the child")
            wait_for(lambda: len(running.record()["processes"]) == 2, bool)
            go.touch()
            debugger.wait_ended(300)
            told = "".join(each.text for each in debugger.output)
        return told, running.finish()[2]

    return run


@pytest.mark.parametrize("kind", FAULTS)
def test_a_death_is_told_with_its_signal_and_its_line(kind, died):
    told, log = died(FAULTS[kind])
    name = kind.split()[0]
    where = " in kernel, " if name != "SIGKILL" else "\n"
    for text in (told, log):
        assert f"died of {name}{where}" in text
        assert ("kernel.py:4" in text) == (name != "SIGKILL")
    if kind == name:
        assert "other failures came after it\nthe program exited with code" in told


@pytest.mark.parametrize(("end", "told"), [("sys.exit(0)", 0), ("sys.exit(9)", 1)])
def test_without_an_editor_a_killed_worker_is_told_only_if_the_program_fails(started, end, told):
    parent = PARENT.replace("sys.exit(abs(child.returncode) % 100)", end)
    running, go = started(FAULTS["SIGKILL"], parent, wait="0")
    wait_for(lambda: running.record().get("processes", []), lambda seen: len(seen) == 2)
    go.touch()
    code, _, log = running.finish()
    assert code == int(end[9])
    assert log.count("died of SIGKILL; other failures came after it\n") == log.count("died of") == told


def test_without_an_editor_a_fault_is_told_once(started):
    running, go = started(FAULTS["SIGSEGV"], wait="0")
    wait_for(lambda: running.record().get("processes", []), lambda seen: len(seen) == 2)
    go.touch()
    assert running.finish()[2].count("died of SIGSEGV") == 1


def test_a_program_with_a_handler_of_its_own_keeps_it(died):
    _, log = died("faulthandler.enable() or ctypes.string_at(0)")
    assert "Fatal Python error: Segmentation fault" in log
    assert "died of SIGSEGV\n" in log


@pytest.mark.parametrize("minor", [8, 13])
@pytest.mark.parametrize(("own", "kept"), [("faulthandler.enable()", "True"), ("", "False")])
def test_a_forked_child_keeps_the_handler_that_its_program_enabled_after_the_join(tmp_path, own, kept, minor):
    code = (
        "import faulthandler\nfrom dkdbg.agent.inprocess import last_stack\n"
        f"last_stack.enable('own.fault')\nassert faulthandler.is_enabled()\n{own}\n"
        "last_stack.forget()\nprint(faulthandler.is_enabled())\n"
    )
    environment = {"PYTHONPATH": str(Path(last_stack.__file__).parents[3])}
    done = subprocess.run(
        [need(minor), "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == (kept + "\n", "")


def test_the_program_itself_is_named_with_the_line_at_which_it_was_held(program):
    running = program("import os\nprint(os.getpid(), flush=True)\nos.nice(0)\n", wait="300")
    with running.debugged(3) as debugger:
        debugger.stack(debugger.wait_stopped(300))
        os.kill(running.record()["processes"][0]["pid"], signal.SIGKILL)
        debugger.wait_ended(300)
        told = "".join(each.text for each in debugger.output)
    running.finish()
    assert "died of SIGKILL, while you held it at train.py:3 (breakpoint)" in told


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_held_process_that_its_parent_reaps_at_once_is_named_with_its_line(number, started):
    running, go = started("pass", WAITING_PARENT)
    go.touch()
    with running.debugged(8) as debugger:
        debugger.stack(debugger.wait_stopped(300))
        held = wait_for(lambda: [e for e in running.record()["processes"] if ":8 " in e["stopped"]], bool)
        os.kill(held[0]["pid"], number)
        wait_for(lambda: "".join(e.text for e in debugger.output), lambda told: "while you held it" in told)
    running.process.kill()
    _, _, log = running.finish()
    assert re.search(rf"(died of {number.name},|ended) while you held it at kernel.py:8 ", log)


@pytest.fixture
def reaped():
    """Start a process, and a function that kills it and returns after its parent has reaped it."""
    parent = "import subprocess\na = subprocess.Popen(['sleep', '600'])\nprint(a.pid, flush=True)\na.wait()\n"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as running:
        pid = int(running.stdout.readline())

        def end():
            os.kill(pid, signal.SIGKILL)
            assert running.wait() == 0

        yield pid, end


@pytest.mark.skipif(LINUX < (6, 15), reason="a pidfd knows no status of a reaped process")
@pytest.mark.parametrize("held", ["", "train.py:7 (step)"])
def test_the_pidfd_has_the_signal_of_a_process_that_its_parent_has_reaped(held, reaped, tmp_path):
    pid, end = reaped
    number = os.pidfd_open(pid)
    assert procfs.reaped_status(number) is None
    told = []
    watch = _watch(tmp_path, told, held)
    watch.follow(pid)
    end()
    assert procfs.reaped_status(number) == signal.SIGKILL
    os.close(number)
    wait_for(lambda: told, bool)
    where = f", while you held it at {held}" if held else ""
    assert [line for _, line, *_ in told] == [f"rank {pid} (pid {pid}) died of SIGKILL{where}"]


@pytest.mark.parametrize(
    ("held", "position"), [("train.py:7 (step)", "at train.py:7 (step)"), ("breakpoint", "(breakpoint)")]
)
def test_a_held_process_without_a_known_status_is_named_once(held, position, tmp_path):
    told = []
    watch = _watch(tmp_path, told, held)
    pid = _gone()
    watch.ended(pid)
    watch.ended(pid)
    assert [line for _, line, *_ in told] == [f"rank {pid} (pid {pid}) ended while you held it {position}"]


def test_the_agents_own_held_child_is_named_with_the_signal_that_it_learns_later(tmp_path):
    told = []
    watch = _watch(tmp_path, told, "train.py:7 (step)")
    pid = _gone()
    watch.follow(pid, os.getpid())
    watch.ended(pid)
    assert told == []
    watch.ended(pid, int(signal.SIGKILL))
    assert "died of SIGKILL, while you held it at train.py:7 (step)" in told[0][1]


def _gone():
    """Return the pid of a process that was reaped."""
    with subprocess.Popen(["true"]) as running:
        pass
    return running.pid


def test_a_held_process_that_the_agent_ends_has_not_died(started):
    running, go = started("pass", verb="supervise")
    go.touch()
    with running.debugged(8) as debugger:
        debugger.wait_stopped(300)
        running.process.send_signal(signal.SIGTERM)
        debugger.wait_ended(300)
    _, _, log = running.finish()
    assert "died of" not in log


def test_the_kernels_out_of_memory_killer_is_named(monkeypatch, tmp_path):
    counts = iter([3, 4, 4])
    monkeypatch.setattr(deaths, "_oom_kills", lambda: next(counts))
    monkeypatch.setattr(deaths.procfs, "exit_status", lambda _: int(signal.SIGKILL))
    told = []
    watch = _watch(tmp_path, told)
    watch.ended(7)
    watch.ended(8)
    assert [(line, *more) for _, line, _, *more in told] == [
        (
            "rank 7 (pid 7) died of SIGKILL: the kernel's OOM killer ended it (memory.events: oom_kill 1)",
            True,
            False,
        ),
        ("rank 8 (pid 8) died of SIGKILL", False, True),
    ]


def _watch(folder, told, held=""):
    return deaths.Deaths(
        lambda pid, suffix: str(folder / f"{pid}{suffix}"),
        "rank {}".format,
        lambda _: held,
        lambda *each: told.append(each),
    )


def test_a_record_that_another_user_wrote_is_bounded_and_commands_no_terminal(tmp_path):
    told = []
    watch = _watch(tmp_path, told)
    frame = '  File "\x1b]0;owned\x07/%s.py", line 1 in \x1b[31mf\n'
    (tmp_path / "7.fault").write_text("Fatal Python error: Segmentation fault\n" + frame % "a" * 5000)
    (tmp_path / "8.fault").write_text("Fatal Python error: Aborted\n" + '  File "' * 9000)
    (tmp_path / "9.fault").write_bytes(b"\xff\xfe")
    (tmp_path / "10.fault").symlink_to("/etc/passwd")
    for pid in (7, 8, 9, 10):
        watch.ended(pid)
    assert [pid for pid, *_ in told] == [7, 8]
    assert len(told[0][2]) == deaths.MAX_FRAMES
    assert told[1][2] == []
    for _, line, frames, *_ in told:
        assert all(
            text.isprintable() and len(text) < 2 * deaths.MAX_LINE_CHARACTERS for text in (line, *frames)
        )


def test_a_job_of_many_processes_leaves_the_agent_its_descriptors(tmp_path, monkeypatch):
    monkeypatch.setattr(deaths, "MAX_FOLLOWED", 2)
    watch = _watch(tmp_path, [])
    sleeping = [subprocess.Popen(["sleep", "600"]) for _ in range(4)]
    try:
        for each in sleeping:
            watch.follow(each.pid)
        assert len(watch._pids) == 2
    finally:
        for each in sleeping:
            each.kill()
            each.wait()
    wait_for(lambda: len(watch._pids), lambda left: left == 0)


def test_a_pid_that_is_used_again_is_reported_again(tmp_path, monkeypatch):
    told = []
    watch = _watch(tmp_path, told)
    monkeypatch.setattr(deaths.procfs, "exit_status", lambda _: int(signal.SIGSEGV))
    watch.ended(7)
    watch.forget(7)
    assert len(told) == 1
    watch.ended(7)
    assert len(told) == 2
