"""A process of the program that dies of a signal: the editor and the log say which one, of what and where."""

import signal
import sys

import pytest

from dkdbg.agent.state import deaths
from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions

KERNEL = """\
import ctypes, faulthandler, os, signal, sys, time

def kernel():
    END

while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
print("rank", os.getpid(), flush=True)  # breakpoint
kernel()
"""
#: A parent that reaps its child a moment later, as torchrun does.
PARENT = """\
import subprocess, sys, time
child = subprocess.Popen([sys.executable, *sys.argv[1:]])
while child.poll() is None:
    time.sleep(0.1)
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

    def start(end: str, **more):
        (tmp_path / "kernel.py").write_text(KERNEL.replace("END", end))
        (tmp_path / "parent.py").write_text(PARENT)
        running = launch(sys.executable, "parent.py", "kernel.py", str(tmp_path / "go"), wait="60", **more)
        return running, tmp_path / "go"

    return start


@pytest.mark.parametrize("kind", FAULTS)
def test_a_death_is_told_with_its_signal_and_its_line(kind, started):
    running, go = started(FAULTS[kind])
    name = kind.split()[0]
    with running.debugged() as debugger:
        debugger.wait_session(lambda session: session.name == "kernel.py", "the child")
        go.touch()
        debugger.wait_ended(300)
        told = "".join(each.text for each in debugger.output)
    _, _, log = running.finish()
    where = " in kernel, " if name != "SIGKILL" else "\n"
    for text in (told, log):
        assert f"died of {name}{where}" in text
        assert ("kernel.py:4" in text) == (name != "SIGKILL")
    if kind == name:
        assert "other failures came after it\nthe program exited with code" in told


def test_a_program_with_a_handler_of_its_own_keeps_it(started):
    running, go = started("faulthandler.enable() or ctypes.string_at(0)")
    with running.debugged() as debugger:
        debugger.wait_session(lambda session: session.name == "kernel.py", "the child")
        go.touch()
        debugger.wait_ended(300)
    _, _, log = running.finish()
    assert "Fatal Python error: Segmentation fault" in log
    assert "died of SIGSEGV\n" in log


def test_a_held_process_that_the_agent_ends_has_not_died(started):
    running, go = started("pass", verb="supervise")
    go.touch()
    with Debugger(AttachOptions(port=running.port)) as debugger:
        debugger.set_breakpoints(str(go.parent / "kernel.py"), [8])
        debugger.attach()
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
    watch = deaths.Deaths(
        lambda pid, suffix: str(tmp_path / f"{pid}{suffix}"),
        "rank {}".format,
        lambda _: "",
        lambda *each: told.append(each),
    )
    watch.ended(7)
    watch.ended(8)
    assert [line for _, line, _ in told] == [
        "rank 7 (pid 7) died of SIGKILL: the kernel's OOM killer ended it (memory.events: oom_kill 1)",
        "rank 8 (pid 8) died of SIGKILL",
    ]
