"""The editor is told how the program has ended, and of a failure why, in the session that it shows."""

import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dkdbg.agent.proxy.broker.sessions import MAX_CHARACTERS, MAX_PROCESSES, StderrTail
from dkdbg.agent.state import records
from dkdbg.agent.supervisor import ending, hook_check
from dkdbg.dap import debugger as debuggers
from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.agent.dap_probe import wait_for
from tests.processes import children

PYTHON = sys.executable
#: Arguments of Python or a whole command, what train.py holds, and what the editor's root session is told besides "dkdbg: ".
FAILURES = {
    "a first line that does not parse": (
        ("train.py",), "def train(:\n",
        ("the program exited with code 1; it said last on stderr:", "train.py", "SyntaxError: invalid syntax"),
    ),
    "a file that is not there": (("trian.py",), "", ("exited with code 2;", "can't open file", "trian.py")),
    "a usage text": (
        ("train.py",), "import sys\nsys.exit('usage: train.py DATA')\n", ("exited with code 1;", "  usage: train.py DATA")
    ),
    "an option that argparse does not know": (
        ("train.py", "--epoch", "3"), "import argparse\nargparse.ArgumentParser().parse_args()\n",
        ("exited with code 2;", "error: unrecognized arguments: --epoch 3"),
    ),
    "a traceback": (
        ("train.py",), "def step():\n    raise ValueError('\\x1b[31mbad batch')\nstep()\n",
        ("exited with code 1;", "    raise ValueError", "ValueError: \\x1b[31mbad batch"),
    ),
    "a signal": (
        ("train.py",), "import os\nos.kill(os.getpid(), 9)\n",
        ("the program was ended by SIGKILL (code 137)",),
    ),
    "a command that is not there": (("pyhton", "train.py"), "", ("command not found: pyhton",)),
    "a command that a shell does not find": (
        ("sh", "-c", "pyhton train.py"), "",
        ("the program exited with code 127, as a shell does when it does not find a command",),
    ),
}  # fmt: skip


def attached(running: Any) -> Debugger:
    with running.debugged() as debugger:
        debugger.wait_ended(300)
        return debugger


def wait_until_gone(pid: int) -> None:
    wait_for(Path(f"/proc/{pid}").exists, lambda exists: not exists)


def console(debugger: Debugger, name: str) -> str:
    return "".join(each.text for each in debugger.output if name in each.session.name)


@pytest.mark.parametrize("failure", FAILURES)
def test_why_a_program_failed_stands_in_the_root_session(launch, tmp_path, failure):
    words, text, expected = FAILURES[failure]
    (tmp_path / "train.py").write_text(text)
    running = launch(*([PYTHON] if words[0].endswith(".py") else []), *words, wait="300")
    debugger = attached(running)
    assert running.finish()[0] == debugger.sessions[0].exit_code != 0
    said = console(debugger, "debugger")
    child = running.record()["child"]
    assert (f"dkdbg: started pid {child}: " in said) == bool(child)
    for each in expected:
        assert each in said


def test_an_adapter_that_stands_still_when_the_program_ends_tells_it_later(program, tmp_path):
    """On a machine without time for it: it was ended 1.5 s after the program, and the editor heard nothing."""
    running = program(
        "import os, sys, time\nprint('up')\n"
        "while not os.path.exists('go'): time.sleep(0.02)\nsys.exit('no data')\n",
        wait="300",
    )
    with running.debugged() as debugger:
        debugger.wait_output("up\n")
        (adapter,) = children(running.process.pid, "adapter.py")
        child = wait_for(lambda: running.record()["child"], bool)
        os.kill(adapter, signal.SIGSTOP)
        (tmp_path / "go").touch()
        wait_until_gone(child)
        time.sleep(2)
        os.kill(adapter, signal.SIGCONT)
        debugger.wait_ended(300)
    assert debugger.sessions[0].exit_code == running.finish()[0] == 1
    assert "it said last on stderr:\n  no data" in console(debugger, "debugger")


@pytest.mark.parametrize(("client", "end"), [("vscode", 1), ("vscode", 0), ("neovim", 0)])
def test_what_the_program_prints_and_how_it_ended_is_in_the_console_that_vs_code_shows_and_a_childs_in_its_own(
    program, tmp_path, monkeypatch, client, end
):
    monkeypatch.setitem(debuggers._CLIENT, "clientID", client)
    (tmp_path / "child.py").write_text("print('of the child', flush=True)\n")
    running = program(
        "import subprocess, sys\nprint('loss 0.5', flush=True)\n"
        f"subprocess.run([sys.executable, 'child.py'])\nif {end}: raise ValueError('bad')\n",
        wait="300",
    )
    debugger = attached(running)
    running.ends(end)
    root, own = console(debugger, "debugger"), console(debugger, "train.py")
    assert (root.count("loss 0.5\n"), own.count("loss 0.5\n")) == (client == "vscode", 1)
    assert own.endswith(f"dkdbg: the program exited with code {end}\n") == (client == "vscode")
    assert "of the child" not in root + own
    assert console(debugger, "child.py").count("of the child\n") == 1


def test_input_without_a_terminal_is_answered_with_what_has_one(program):
    debugger = attached(program("input('name? ')\n", wait="300"))
    assert "dkdbg run -- COMMAND" in console(debugger, "train.py")


def test_what_the_agent_says_stands_in_every_console_of_vs_code_and_once_elsewhere(
    launch, tmp_path, monkeypatch
):
    for client, times in (("vscode", 1), ("neovim", 0)):
        monkeypatch.setitem(debuggers._CLIENT, "clientID", client)
        script = tmp_path / "train.py"
        script.write_text("import time\nopen('runs', 'w').close()\nwhile True: time.sleep(0.02)\n")
        (tmp_path / "runs").unlink(missing_ok=True)
        running = launch(PYTHON, "train.py", wait="300", verb="supervise", options=("--reload",))
        with running.debugged() as debugger:
            debugger.wait_session(lambda session: "train.py" in session.name, "the program")
            wait_for((tmp_path / "runs").exists, bool)  # it has read the file
            draft = tmp_path / "new"
            draft.write_text("def broken(:\n")
            draft.replace(script)
            for name in ("debugger", "train.py") if times else ("debugger",):
                debugger.wait(lambda: "is kept" in console(debugger, name), f"the note in {name}")  # noqa: B023
            assert console(debugger, "debugger").count("is kept") == 1
            assert console(debugger, "train.py").count("is kept") == times
        running.process.terminate()
        running.finish()


def test_the_stderr_tail_of_a_launcher_yields_to_the_first_traceback():
    words = StderrTail(lambda pid: f"rank {pid}")
    words.add(7, "ChildFailedError\n")
    words.add(9, "Traceback (most recent call last):\nValueError\n")
    words.add(8, "Traceback (most recent call last):\nBrokenPipeError\n")
    assert words.of_a_failure(7)[0] == "rank 9"
    words.add(7, "Traceback (most recent call last):\nKeyError\n")
    assert words.of_a_failure(7) == ("", "ChildFailedError\nTraceback (most recent call last):\nKeyError\n")
    words.forget()
    assert words.of_a_failure(7) == ("", "")


def test_of_much_that_was_said_the_end_is_kept():
    words = StderrTail(lambda pid: f"rank {pid}")
    for pid in range(MAX_PROCESSES * 2):
        words.add(pid, "x" * MAX_CHARACTERS * 2 + str(pid))
    assert (
        words.of_a_failure(MAX_PROCESSES * 2 - 1)[1]
        == ("x" * MAX_CHARACTERS + str(MAX_PROCESSES * 2 - 1))[-MAX_CHARACTERS:]
    )
    assert words.of_a_failure(1)[0] == f"rank {MAX_PROCESSES * 2 - 1}"
    note = ending.end_text(
        1, "exited with code 1", "\n".join(f"line {i}" for i in range(100)) + "\rbar 9\x1b[2K\n"
    )
    assert note.splitlines()[1:] == [*(f"  line {i}" for i in range(88, 99)), "  bar 9\\x1b[2K"]


@pytest.mark.parametrize(("path", "is_said"), [("/opt/dkdbg-image/conf/run.txt", True), ("/w/conf", False)])
def test_a_path_of_the_images_files_in_an_error_is_explained(path, is_said):
    note = ending.end_text(1, "exited with code 1", f"FileNotFoundError: No such file: '{path}'\n")
    assert ("create the linked file in the checkout too" in note) == is_said


@pytest.mark.parametrize("code", [0, 3])
def test_an_editor_that_comes_after_a_short_program_hears_how_it_ended_and_one_that_failed_is_not_healthy(
    program, code
):
    """Compose may have seen it healthy in the moment before."""
    running = program(f"raise SystemExit({code})\n", env={"DKDBG_LINGER": "600"})
    if code:
        running.wait_state("exited")
        assert "has ended with code 3" in records.trouble(str(running.runtime))
    else:
        assert running.wait_state("idle")["last_exit_code"] == 0
        assert not records.trouble(str(running.runtime))
    assert running.process.poll() is None
    with Debugger(AttachOptions(port=running.record()["port"])) as debugger:
        debugger.attach()
        debugger.wait_ended(300)
    said = console(debugger, "debugger")
    assert "the program ended before the editor attached; with DKDBG_WAIT=60 it waits for one" in said
    assert ("the program exited with code 3" in said) == bool(code)
    running.ends(code)


def test_who_ends_the_agent_does_not_wait_for_a_latecomer(launch):
    running = launch(PYTHON, "-c", "pass", env={"DKDBG_LINGER": "forever"})
    running.wait_state("idle")
    running.process.terminate()
    running.ends()


REASONS = {
    "a Python without the hook": (
        (PYTHON, "-Ic", "print('done')"),
        "if one has started: python -S keeps the agent out",
    ),
    "one below a shell": (
        ("sh", "-c", f"{PYTHON} -Ic 0"),
        "if one has started: python -S keeps the agent out",
    ),
    "one below a script": (("./run",), "if one has started: python -S keeps the agent out"),
    "a binary": (
        ("env", "X=1", "./frozen", "0"),
        "; if frozen is a frozen or embedded Python, run the program from its source",
    ),
    "a Python below another binary": (
        ("setsid", "-w", PYTHON, "-Ic", "0"),
        "if one has started: python -S keeps the agent out",
    ),
    "a script below another binary": (
        ("setsid", "-w", "./run.py"),
        "if one has started: python -S keeps the agent out",
    ),
    "a command line for another binary": (
        ("script", "-qc", f"{PYTHON} -Ic 0", "/dev/null"),
        "if one has started: python -S keeps the agent out",
    ),
}


@pytest.mark.parametrize("kind", REASONS)
def test_a_program_that_leaves_the_agent_out_is_told_to_the_editor_with_the_reason(launch, tmp_path, kind):
    shutil.copy(shutil.which("sleep") or "", tmp_path / "frozen")
    (tmp_path / "run").write_text(f"#!/bin/sh\n{PYTHON} -Ic 0\n")
    (tmp_path / "run").chmod(0o755)
    shutil.copy(tmp_path / "run", tmp_path / "run.py")
    command, reason = REASONS[kind]
    said = console(attached(launch(*command, wait="300")), "debugger")
    (line,) = [line for line in said.splitlines() if hook_check.NOT_LOADED in line]
    assert reason in line


def test_a_program_that_runs_on_without_the_agent_is_told_once_and_another_not_at_all(launch):
    for command, times in ((("sleep", "600"), 1), ((PYTHON, "-c", "import time; time.sleep(600)"), 0)):
        running = launch(*command, wait="300")
        with running.debugged() as debugger:
            running.wait_state("attached")
            if times:
                debugger.wait_output(hook_check.NOT_LOADED, timeout=300)
            else:
                debugger.wait(lambda: len(debugger.sessions) == 2, "the session of the program", timeout=300)
            running.process.terminate()
            debugger.wait_ended(300)
        assert console(debugger, "debugger").count(hook_check.NOT_LOADED) == times


DAEMON = """import os, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.closerange(0, 3)
while not os.path.exists("go"): time.sleep(0.02)
"""
OUTLIVED = {
    "a daemon": ((PYTHON, "daemon.py"), ["daemon.py"]),
    "a job of a shell": (("sh", "-c", f"{PYTHON} job.py >/dev/null 2>&1 & {PYTHON} -S job.py >/dev/null 2>&1 &"), ["job.py", "job.py"]),
    "none": ((PYTHON, "short.py"), []),
}  # fmt: skip


@pytest.mark.parametrize("kind", OUTLIVED)
def test_pythons_that_outlive_the_program_are_named_at_its_end(launch, tmp_path, kind):
    words, names = OUTLIVED[kind]
    (tmp_path / "daemon.py").write_text(DAEMON)
    (tmp_path / "job.py").write_text('import os, time\nwhile not os.path.exists("go"): time.sleep(0.02)\n')
    (tmp_path / "short.py").write_text(
        "import multiprocessing, subprocess, time\nmultiprocessing.get_context('spawn').Semaphore()\n"
        "subprocess.Popen(['sleep', '5'], stdin=-3, stdout=-3, stderr=-3)\n"
    )
    running = launch(*words, wait="300")
    said = console(attached(running), "debugger")
    running.finish()
    (tmp_path / "go").touch()
    note = re.search(
        r"the program exited with code 0(?:; (\d) of its processes are still running, without the debugger: (.*))?\n",
        said,
    )
    assert note, said
    assert [note[1], re.findall(r"(\S+) \(pid \d+\)", note[2] or "")] == [
        str(len(names)) if names else None,
        names,
    ]
    assert hook_check.NOT_LOADED not in said


def test_of_many_pythons_that_end_with_the_container_the_first_are_named():
    note = ending.left_text([f"job.py (pid {pid})" for pid in range(6)], ends_too=True)
    assert note.startswith("; 6 of its processes end with the container: job.py (pid 0), job.py (pid 1), ")
    assert note.endswith("job.py (pid 4), ...")


LEFT = {
    "path.py": ("PYTHONPATH=lib {} path.py", "its PYTHONPATH is lib"),
    "emptied.py": ("env -i {} emptied.py", "its environment has been emptied"),
    "bare.py": ("{} -uS bare.py", "python -S"),
    "ignores.py": ("{} -E ignores.py", "python -E ignores PYTHONPATH"),
}


def test_each_of_a_programs_pythons_that_is_not_debugged_is_named_with_the_reason(launch, tmp_path):
    for name in ("train.py", *LEFT):
        (tmp_path / name).write_text("import time\ntime.sleep(100)\n")
    lines = ["{} train.py", *(line for line, _ in LEFT.values())]
    running = launch("sh", "-c", " & ".join(line.format(PYTHON) for line in lines), wait="300")
    with running.debugged() as debugger:
        for name, (_, reason) in LEFT.items():
            debugger.wait_output(f"{name} (pid ", timeout=300)
            (said,) = [line for line in console(debugger, "debugger").splitlines() if f"{name} (pid " in line]
            assert reason in said
        assert "train.py (pid " not in console(debugger, "debugger")
        running.process.terminate()
        debugger.wait_ended(300)


#: A seccomp filter under which socket() is not permitted: load the number, compare it, EPERM or allow (linux/seccomp.h).
SANDBOX = """import ctypes, os, platform, struct, subprocess, sys, time
number = 41 if platform.machine() == "x86_64" else 198
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
rules = ctypes.create_string_buffer(struct.pack("HP", len(steps), ctypes.addressof(code)))
prctl = ctypes.CDLL(None, use_errno=True).prctl
assert prctl(38, 1, 0, 0, 0) == prctl(22, 2, ctypes.c_void_p(ctypes.addressof(rules)), 0, 0) == 0
subprocess.run([sys.executable, "kid.py"]) if sys.argv[1:] else os.fork()
while not os.path.exists("go"): time.sleep(0.02)
"""


@pytest.mark.parametrize("starts", [(), ("exec",)], ids=["fork", "exec"])
def test_a_process_whose_sandbox_permits_no_socket_is_named_once(launch, tmp_path, starts):
    (tmp_path / "train.py").write_text(SANDBOX)
    (tmp_path / "kid.py").write_text('import os, time\nwhile not os.path.exists("go"): time.sleep(0.02)\n')
    running = launch(PYTHON, "train.py", *starts, wait="300")
    name = "kid.py" if starts else "train.py"
    with running.debugged() as debugger:
        debugger.wait_output("cannot open a socket for the agent: Operation not permitted", timeout=300)
        (tmp_path / "go").touch()
        debugger.wait_ended(300)
    said = [line for line in console(debugger, "debugger").splitlines() if "cannot open a socket" in line]
    assert len(said) == 1
    assert f"{name} (pid " in said[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_program_that_was_asked_to_end_is_kept_for_nobody(program, tmp_path, number):
    running = program(
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(7))\n"
        "open('ready', 'w').close()\n"
        "time.sleep(600)\n",
        env={"DKDBG_LINGER": "forever"},
    )
    wait_for((tmp_path / "ready").exists, bool)
    running.process.send_signal(number)
    running.ends(7)


def test_a_program_begins_when_the_hooks_thread_runs(program, tmp_path):
    """CPython 3.11.2 crashed when a program had ended before that thread ran at all, on a busy machine."""
    folder = tmp_path / "late"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import _thread, sys, time\nsys.begun = []\nstart = _thread.start_new_thread\n\n"
        "def late(function, args):\n    def run():\n        time.sleep(0.3)\n        sys.begun.append(1)\n"
        "        function(*args)\n    return start(run, ())\n\n_thread.start_new_thread = late\n"
    )
    running = program("import sys\nprint(sys.begun)\n", env={"PYTHONPATH": str(folder)})
    running.ends(0, "[1]\n")


def test_a_program_runs_where_no_thread_can_be_started(program, tmp_path):
    """As under a limit of processes (`ulimit -u`): it is not waited for a thread that never runs."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import _thread, sys\n\ndef refuse(*_):\n    raise RuntimeError('cannot start new thread')\n\n"
        "if sys.orig_argv[1:] == ['train.py']:\n    _thread.start_new_thread = refuse\n"
    )
    running = program(
        "import _thread\nprint(_thread.start_new_thread.__name__)\n", env={"PYTHONPATH": str(folder)}
    )
    running.ends(0, "refuse\n")
