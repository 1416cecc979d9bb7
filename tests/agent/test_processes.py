"""Asking processes to join: one that cannot is named with the reason, once, and runs on."""

import json
import os
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from dkdbg.agent.state import announced, processes, procfs
from dkdbg.agent.state.processes import ProcessTable
from tests.agent.dap_probe import Editor, wait_for

#: The program has a module of its own called debugpy: joining fails in earnest.
PROGRAM = """
import os, subprocess, sys, time, types

if len(sys.argv) == 1:
    children = [subprocess.Popen([sys.executable, __file__, "rank"], env=dict(os.environ, RANK=str(r))) for r in (0, 1)]
    raise SystemExit(max(child.wait() for child in children))
sys.modules["debugpy"] = types.ModuleType("debugpy")
open("ready" + os.environ["RANK"], "w").close()
while not os.path.exists("stop"):
    time.sleep(0.02)
"""
REASON = (
    "cannot be debugged: not joined: ModuleNotFoundError: "
    "No module named 'debugpy.server'; 'debugpy' is not a package"
)


def test_why_a_process_cannot_be_debugged_is_said_once_on_stderr_and_in_the_editors_console(
    program, tmp_path
):
    running = program(PROGRAM)
    wait_for(lambda: sorted(tmp_path.glob("ready?")), lambda found: len(found) == 2)
    for turn in range(2):
        with Editor(running.port, {}) as editor:
            wait_for(lambda: [one for one in running.record()["processes"] if one["joined"]], bool)
            if turn == 0:
                said = wait_for(lambda: [line for line in editor.output if REASON in line], bool)
                assert said[0].startswith("dkdbg: rank ")
        wait_for(lambda: running.record()["client"], lambda client: not client)
    (tmp_path / "stop").touch()
    err = running.ends()
    lines = [line for line in err.splitlines() if "cannot be debugged" in line]
    assert lines in (["dkdbg: rank 0 " + REASON], ["dkdbg: rank 1 " + REASON])


def test_processes_that_join_say_nothing(program, tmp_path):
    running = program("import os, time\nwhile not os.path.exists('stop'):\n    time.sleep(0.02)\n")
    for _ in range(3):  # "already joined" and "no editor is attached" come about
        with Editor(running.port, {}):
            wait_for(lambda: [one["joined"] for one in running.record()["processes"]], any)
    (tmp_path / "stop").touch()
    code, _, err = running.finish()
    assert (code, "cannot be debugged" in err) == (0, False)


def test_debugpy_describes_the_machine_for_a_log_that_is_asked_for_only(program, tmp_path):
    """It starts a process and reads what pip knows of every package, in each process that joins."""
    text = "import sys\nprint(sys.modules['debugpy.server.api'].ensure_logging.ensured)\n"
    for env, described in (({}, "False\n"), ({"DEBUGPY_LOG_DIR": str(tmp_path)}, "True\n")):
        running = program(text, wait="300", env=env)
        with Editor(running.port, {running.script: [2]}) as editor:
            assert editor.wait_stops(1)[0]["line"] == 2
            running.ends(0, described)


def table_of(folder: Path, **more: Any) -> ProcessTable:
    usual = {"attached": bool, "on_change": list, "on_refusal": list}
    return ProcessTable(announced.Folders(str(folder), {}), **{**usual, **more})


@pytest.mark.parametrize("gone", [True, False])
def test_a_process_that_tried_to_join_an_adapter_that_is_gone_is_asked_again(tmp_path, *, gone):
    """The refusal comes after the agent has noticed that the adapter died, or the adapter is there and the refusal stays."""
    joined: list[int] = []
    refusals: list[str] = []
    answers = ["not joined: ConnectionRefusedError", "joined"]
    table = table_of(
        tmp_path,
        attached=lambda: True,
        on_change=lambda found: joined.extend(each["pid"] for each in found if each["joined"]),
        on_refusal=refusals.append,
    )
    pid = os.getpid()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as process:
        process.bind(str(tmp_path / f"{pid}.sock"))
        process.settimeout(300)
        (tmp_path / f"{pid}.json").write_text(
            json.dumps({"pid": pid, "ppid": 1, "argv": ["x"], "started": 1.0, "env": {}, "origin": "fork"})
        )
        table.start()
        for number, answer in enumerate(answers[: 2 if gone else 1]):
            command = b""
            while command != b"join":
                command, (descriptor, *_), _, _ = socket.recv_fds(process, 64, 1)
                asked = socket.socket(fileno=descriptor)
            if gone and not number:
                table.adapter_died()
            asked.sendall(answer.encode() + b"\n")
            asked.close()
        wait_for(lambda: joined or refusals, bool)
        table.stop()
    assert (joined[-1:], [text.split(": ")[-1] for text in refusals]) == (
        ([pid], []) if gone else ([], ["ConnectionRefusedError"])
    )


@pytest.mark.parametrize("answer", ["raised 3", "raised", "raised x y"])
def test_an_answer_about_timeouts_that_is_cut_off_raises_nothing(tmp_path, monkeypatch, answer):
    raised, ended = [], threading.Event()
    monkeypatch.setattr(threading, "excepthook", raised.append)
    monkeypatch.setattr(processes, "ask", lambda *_: answer)
    table_of(tmp_path, on_clocks=lambda *_: ended.set()).ask_timeouts(1)
    assert ended.wait(300)
    wait_for(lambda: [each.name for each in threading.enumerate()], lambda names: "dkdbg ask" not in names)
    assert raised == []


def test_a_process_that_answers_about_its_timeouts_late_is_heard(tmp_path, monkeypatch):
    """The same thread of the process joins the adapter, which takes seconds on a busy machine."""
    monkeypatch.setattr(processes, "CHANGED_TIMEOUT_S", 0.01)
    raised: list[float] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as process:
        process.bind(str(tmp_path / "1.sock"))
        process.settimeout(300)
        table_of(tmp_path, on_raised=raised.append).ask_timeouts(1)
        _, (descriptor, *_), _, _ = socket.recv_fds(process, 64, 1)
        with socket.socket(fileno=descriptor) as asked:
            assert not select.select([asked], [], [], 0.1)[0]  # the asking side has not given up
            asked.sendall(b"raised 2 77\n")
    wait_for(lambda: raised, lambda found: found == [77.0])


def test_a_debugger_that_leaves_a_process_in_its_exit_has_not_resumed_it(tmp_path):
    """The kernel frees the memory, closes the debugger's socket, and only then makes it a zombie."""
    table = table_of(tmp_path)
    hold = "x = b'x' * (1 << 28); print(flush=True); input()"

    def is_kept() -> bool | None:
        """Whether a killed process stays stopped; None when it is a zombie too early."""
        with subprocess.Popen(
            [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as child:
            assert child.stdout is not None
            child.stdout.readline()
            table.set_stopped(child.pid, "train.py:6")
            child.kill()
            while not procfs.is_ending(child.pid):
                pass
            table.set_stopped(child.pid, "")
            return (
                None if procfs.state(child.pid) == "Z" else table.deaths._held_at(child.pid) == "train.py:6"
            )

    assert next(filter(lambda found: found is not None, (is_kept() for _ in range(100))))
