"""`dkdbg.breakpoint()` and `breakpoint()` stop at their line, or say why not and go on."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.agent.dap_probe import Editor
from tests.agent.nc import Client
from tests.ports import free_port
from tests.pythons import need

if TYPE_CHECKING:
    from pathlib import Path

CALLS = {
    "dkdbg": "import dkdbg; dkdbg.breakpoint()",
    "built-in": "breakpoint()",
    "settrace": "import dkdbg; dkdbg.settrace()",
    "set_trace with a port": "import dkdbg; dkdbg.set_trace(port=1)",
}


def program(folder: Path, call: str) -> Path:
    script = folder / "train.py"
    script.write_text(
        f"def step(n):\n    {call}\n    doubled = n * 2\n    return doubled\n\nprint(step(21))\n"
    )
    return script


@pytest.mark.parametrize("call", CALLS)
def test_it_stops_with_the_editor_attached(launch, tmp_path: Path, call: str) -> None:
    script = program(tmp_path, CALLS[call])
    running = launch(sys.executable, "train.py", wait="300")
    with Editor(running.port, {}) as editor:
        stop = editor.wait_stops(1)[0]
        code, out, err = running.finish()
    assert (stop["path"], stop["line"]) in [(str(script), 2), (str(script), 3)]
    assert (code, out) == (0, "42\n"), err
    assert len(editor.stops) == 1


def test_it_waits_for_an_editor_that_comes_later(launch, tmp_path: Path) -> None:
    script = program(tmp_path, CALLS["built-in"])
    running = launch(sys.executable, "train.py", env={"DKDBG_BREAKPOINT_WAIT": "300"})
    record = running.wait_state("running")
    assert b"can attach" in running.process.stderr.readline()
    said = running.process.stderr.readline().decode()
    with Editor(record["port"], {}) as editor:
        stop = editor.wait_stops(1)[0]
        code, out, _ = running.finish()
    assert (
        said
        == f"dkdbg: breakpoint at train.py:2: waiting for a debugger on 127.0.0.1:{record['port']}, up to 300 s\n"
    )
    assert stop["path"] == str(script)
    assert (code, out) == (0, "42\n")


def test_nobody_comes_and_it_goes_on_and_waits_no_second_time(program) -> None:
    running = program(
        "for n in range(3):\n    breakpoint()\nprint('on')\n", env={"DKDBG_BREAKPOINT_WAIT": "0.3"}
    )
    code, out, err = running.finish()
    lines = [line for line in err.splitlines() if "breakpoint at" in line]
    assert (code, out) == (0, "on\n")
    assert len(lines) == 2
    assert "waiting for a debugger on 127.0.0.1:" in lines[0]
    assert "no debugger within 0.3 s, going on (attach on 127.0.0.1:" in lines[1]


def test_without_a_wait_it_goes_on_at_once_and_says_where_to_attach(launch, tmp_path: Path) -> None:
    program(tmp_path, CALLS["dkdbg"])
    code, out, err = launch(sys.executable, "train.py").finish()
    assert (code, out) == (0, "42\n")
    assert "dkdbg: breakpoint at train.py:2: no debugger, going on (attach on 127.0.0.1:" in err


def test_it_stops_in_a_thread_and_in_a_forked_child(program) -> None:
    running = program(
        "import os, threading, dkdbg\n"
        "def work(n):\n    dkdbg.breakpoint()\n    n += 1\n    return n\n"
        "thread = threading.Thread(target=work, args=(1,)); thread.start(); thread.join()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n    work(2)\n    os._exit(0)\n"
        "print(os.waitpid(pid, 0)[1])\n",
        wait="300",
    )
    with Editor(running.port, {}) as editor:
        stops = editor.wait_stops(2)
        code, out, err = running.finish()
    assert {(stop["path"], stop["line"]) for stop in stops} <= {(running.script, 3), (running.script, 4)}
    assert stops[0]["session"] is not stops[1]["session"]
    assert (code, out) == (0, "0\n"), err


@pytest.mark.parametrize("choice", ["0", "builtins.print"])
def test_the_users_own_pythonbreakpoint_wins(launch, tmp_path: Path, choice: str) -> None:
    program(tmp_path, CALLS["built-in"])
    code, out, err = launch(sys.executable, "train.py", env={"PYTHONBREAKPOINT": choice}).finish()
    assert (code, out.strip()) == (0, "42")
    assert "breakpoint at" not in err


def test_an_installed_dkdbg_is_not_shadowed(launch, tmp_path: Path) -> None:
    (tmp_path / "dkdbg.py").write_text("mine = True\n")
    (tmp_path / "train.py").write_text("import dkdbg\nprint(dkdbg.mine)\n")
    code, out, _ = launch(sys.executable, "train.py").finish()
    assert (code, out) == (0, "True\n")


def test_nothing_of_it_is_imported_before_the_first_call(launch, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys\nprint([m for m in sys.modules if 'dkdbg' in m])\n")
    code, out, _ = launch(sys.executable, "train.py").finish()
    assert (code, out) == (0, "[]\n")


def test_without_a_session_it_does_nothing(tmp_path: Path) -> None:
    program(tmp_path, CALLS["dkdbg"])
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("42\n", "")
    assert time.monotonic() - begin < 300


WHERE = """
import multiprocessing, os, sys, threading, dkdbg

def work(n):
    CALL
    return n * 2

if __name__ == "__main__":
    if sys.argv[1] == "thread":
        thread = threading.Thread(target=work, args=(21,)); thread.start(); thread.join()
    elif sys.argv[1] == "os.fork":
        pid = os.fork()
        if pid == 0:
            work(21)
            os._exit(0)
        os.waitpid(pid, 0)
    else:
        worker = multiprocessing.get_context(sys.argv[1]).Process(target=work, args=(21,))
        worker.start(); worker.join()
    print("done")
"""


@pytest.mark.parametrize(
    ("where", "minor"),
    [(each, None) for each in ("thread", "os.fork", "fork", "spawn", "forkserver")]
    + [("fork", 8), ("spawn", 8), ("fork", 13), ("fork", 14), ("forkserver", 14)],
)
def test_settrace_with_a_port_reaches_nc_from_everywhere(
    launch, tmp_path: Path, minor: int | None, where: str
) -> None:
    port = free_port()
    (tmp_path / "train.py").write_text(WHERE.replace("CALL", f"dkdbg.settrace(port={port}, timeout=300)"))
    running = launch(need(minor), "train.py", where)
    client = Client(port, running.process)
    assert "work()" in client.until()
    assert client.ask("p n").startswith("21\n")
    client.sock.sendall(b"c\n")
    code, out, err = running.finish()
    assert (code, out) == (0, "done\n"), err


@pytest.mark.parametrize("where", ["fork", "spawn", "forkserver"])
def test_a_worker_stops_for_the_editor(program, where: str) -> None:
    running = program(WHERE.replace("CALL", "dkdbg.breakpoint()"), where, wait="300")
    with Editor(running.port, {}) as editor:
        stop = editor.wait_stops(1)[0]
        code, out, err = running.finish()
    assert (stop["path"], stop["line"] in (5, 6)) == (running.script, True)
    assert (code, out) == (0, "done\n"), err
