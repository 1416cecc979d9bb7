"""`dkdbg.breakpoint()` and `breakpoint()` stop at their line, or say why not and go on."""

import subprocess
import sys

import pytest

from tests.agent.dap_probe import Editor
from tests.agent.nc import Client
from tests.ports import free_port
from tests.pythons import need

BUILT_IN = "def step(n):\n    breakpoint()\n    doubled = n * 2\n    return doubled\n\nprint(step(21))\n"
OURS = BUILT_IN.replace("breakpoint()", "import dkdbg; dkdbg.breakpoint()")


def test_each_of_the_calls_stops_with_the_editor_attached(program):
    running = program(
        "import dkdbg\ndef step(n):\n    return n * 2\n"
        "dkdbg.breakpoint(); n = 4\nbreakpoint(); n = 5\ndkdbg.settrace(); n = 6\ndkdbg.set_trace(port=1); n = 7\n"
        "print(step(21))\n",
        wait="300",
    )
    with Editor(running.port, {}) as editor:
        stops = editor.wait_stops(4)
        code, out, err = running.finish()
    assert [stop["path"] for stop in stops] == [running.script] * 4
    # A call is shown in its own line, or in the next one that runs.
    assert all(stop["line"] in (line, line + 1) for stop, line in zip(stops, (4, 5, 6, 7), strict=True)), (
        stops
    )
    assert (code, out, len(editor.stops)) == (0, "42\n", 4), err


def test_it_waits_for_an_editor_that_comes_later(program):
    running = program(BUILT_IN, env={"DKDBG_BREAKPOINT_WAIT": "300"})
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
    assert (stop["path"], code, out) == (running.script, 0, "42\n")


def test_nobody_comes_and_it_goes_on_and_waits_no_second_time(program):
    running = program(
        "for n in range(3):\n    breakpoint()\nprint('on')\n", env={"DKDBG_BREAKPOINT_WAIT": "0.3"}
    )
    code, out, err = running.finish()
    lines = [line for line in err.splitlines() if "breakpoint at" in line]
    assert (code, out) == (0, "on\n")
    assert len(lines) == 2
    assert "waiting for a debugger on 127.0.0.1:" in lines[0]
    assert "no debugger within 0.3 s, going on (attach on 127.0.0.1:" in lines[1]


def test_without_a_wait_or_a_session_it_goes_on_at_once_and_the_session_says_where_to_attach(
    program, tmp_path
):
    err = program(OURS).ends(0, "42\n")
    assert "dkdbg: breakpoint at train.py:2: no debugger, going on (attach on 127.0.0.1:" in err
    command = [sys.executable, "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300)
    assert (done.stdout, done.stderr) == ("42\n", "")


@pytest.mark.parametrize("choice", ["0", "builtins.print"])
def test_the_users_own_pythonbreakpoint_wins(program, choice):
    code, out, err = program(BUILT_IN, env={"PYTHONBREAKPOINT": choice}).finish()
    assert (code, out.strip()) == (0, "42")
    assert "breakpoint at" not in err


def test_nothing_of_it_is_imported_before_and_an_installed_dkdbg_is_not_shadowed(program, tmp_path):
    (tmp_path / "dkdbg.py").write_text("mine = True\n")
    text = "import sys\nprint([m for m in sys.modules if 'dkdbg' in m])\nimport dkdbg\nprint(dkdbg.mine)\n"
    program(text).ends(0, "[]\nTrue\n")


WHERE = """
import multiprocessing, os, sys, threading, dkdbg

def work(n):
    CALL
    return n * 2

if __name__ == "__main__":
    pid = os.fork()
    if pid == 0:
        work(21)
        os._exit(0)
    os.waitpid(pid, 0)
    for method in ("fork", "spawn", "forkserver"):
        worker = multiprocessing.get_context(method).Process(target=work, args=(21,))
        worker.start(); worker.join()
    thread = threading.Thread(target=work, args=(21,)); thread.start(); thread.join()
    print("done")
"""


@pytest.mark.parametrize("minor", [8, 14])
def test_settrace_with_a_port_reaches_nc_from_threads_forks_and_workers(launch, tmp_path, minor):
    port = free_port()
    (tmp_path / "train.py").write_text(WHERE.replace("CALL", f"dkdbg.settrace(port={port}, timeout=300)"))
    running = launch(need(minor), "train.py")
    for where in ("os.fork", "fork", "spawn", "forkserver", "thread"):
        client = Client(port, running.process)
        assert "work()" in client.until(), where
        assert client.ask("p n").startswith("21\n"), where
        client.sock.sendall(b"c\n")
    running.ends(0, "done\n")


def test_it_stops_in_threads_forks_and_workers(program):
    running = program(WHERE.replace("CALL", "dkdbg.breakpoint()"), wait="300")
    with Editor(running.port, {}) as editor:
        stops = editor.wait_stops(5)
        code, out, err = running.finish()
    assert {(stop["path"], stop["line"] in (5, 6)) for stop in stops} == {(running.script, True)}
    assert len({id(stop["session"]) for stop in stops}) == 5
    assert (code, out) == (0, "done\n"), err
