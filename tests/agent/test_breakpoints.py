"""Breakpoints hit in every kind of Python process below the agent, and the program's end ends the session."""

import os
import signal

import pytest

from tests.agent.dap_probe import Editor, wait_for
from tests.frameworks import python_with
from tests.processes import children


def test_a_preexec_fn_neither_registers_nor_hangs(program):
    running = program(
        "import os, subprocess\nx = 1\n"
        "out = subprocess.run(['echo', 'child'], preexec_fn=os.setsid, stdout=subprocess.PIPE).stdout\n"
        "print(out)\n",
        wait="300",
        name="preexec.py",
    )
    with Editor(running.port, {running.script: [2]}) as editor:
        editor.wait_stops(1)
        running.ends(0, "b'child\\n'\n")
    assert len(editor.sessions) == 2


LOOP = """
import threading, time

def step(n):
    value = n + 1
    return value

def spin():
    n = 0
    while True:
        n = step(n)
        time.sleep(0.02)

threading.Thread(target=spin, daemon=True).start()
print("up", flush=True)
n = 0
while True:
    n += 1
    time.sleep(0.02)
"""


def test_a_late_attach_stops_in_the_main_frame_and_in_a_thread_that_run_already(program):
    running = program(LOOP, name="loop.py")
    assert running.process.stdout.readline() == b"up\n"
    with Editor(running.port, {running.script: [5, 18]}) as editor:
        while {stop["line"] for stop in editor.stops} != {5, 18}:
            editor.wait_stops(len(editor.stops) + 1)
        running.wait_state("attached")
        wait_for(lambda: [each["joined"] for each in running.record()["processes"]], [True].__eq__)
    running.wait_state("running")


def test_the_signals_that_a_batch_system_sends_to_every_process_leave_the_adapter_and_a_killed_one_is_replaced(
    program,
):
    """Slurm's `scancel` and `--signal` do."""
    running = program(LOOP, name="loop.py")
    record = running.wait_state("running")
    (adapter,) = children(record["pid"], "adapter.py")
    for number in ("HUP", "INT", "TERM", "USR1", "USR2"):
        os.kill(adapter, getattr(signal, f"SIG{number}"))
    with Editor(record["port"], {running.script: [18]}) as editor:
        editor.wait_stops(1)
        assert children(record["pid"], "adapter.py") == [adapter]
    os.kill(adapter, signal.SIGKILL)
    wait_for(lambda: set(children(record["pid"], "adapter.py")) - {adapter}, bool)
    with Editor(record["port"], {running.script: [18]}) as editor:
        editor.wait_stops(1)


def test_the_editors_stop_button_on_the_last_process_ends_the_root_session_too_and_it_can_end_the_program(
    program,
):
    """VS Code disconnects the child in focus alone; the root's session must not stay behind (seen in VS Code 1.139)."""
    running = program("import time\nn = 0\nwhile True:\n    n += 1\n    time.sleep(0.02)\n", wait="300")
    with running.debugged(4) as debugger:
        stop = debugger.wait_stopped()
        stop.session.send("disconnect", {"terminateDebuggee": False})  # `terminated` comes before its answer
        debugger.wait_ended(session=debugger.sessions[0])
    with running.debugged(4) as again:
        assert again.stack(again.wait_stopped())[0].line == 4
        again.sessions[0].request("disconnect", {"terminateDebuggee": True})
    running.ends(143)


def test_a_breakpoint_in_a_file_that_the_program_does_not_have_says_so_in_its_hover(program, tmp_path):
    """VS Code shows the root session's message where no session has verified a breakpoint."""
    running = program("import os, time\nwhile not os.path.exists('stop'):\n    time.sleep(0.02)\n")
    (tmp_path / "here.py").touch()
    mappings = [
        {"localRoot": "/home/me/code", "remoteRoot": str(tmp_path)},
        {"localRoot": "c:\\Users\\me", "remoteRoot": f"{tmp_path}/"},
    ]
    files = {
        "/home/me/code/here.py": "",
        "C:\\Users\\me\\here.py": "",
        "/home/me/code/gone.py": f"{tmp_path}/gone.py",
        "C:\\users\\me\\sub\\gone.py": f"{tmp_path}/sub/gone.py",
        "/home/me/codec/here.py": "/home/me/codec/here.py",
    }
    with Editor(running.port, {}, more={"pathMappings": mappings}) as editor:
        for path, missing in files.items():
            answer = editor.sessions[0].request(
                "setBreakpoints", source={"path": path}, breakpoints=[{"line": 1}]
            )
            (breakpoint_,) = answer["breakpoints"]
            said = f"{missing} does not exist where the program runs: no mount or path mapping leads there"
            assert breakpoint_["message"] == (said if missing else "set in each Python process")
            assert not breakpoint_["verified"]
    (tmp_path / "stop").touch()
    running.ends()


SHIPPED = """
import joblib

def square(n):
    found = n * n
    return found  # breakpoint

if __name__ == "__main__":
    print(joblib.Parallel(n_jobs=2)(joblib.delayed(square)(n) for n in (3,)))
"""


def test_a_function_of_the_main_script_stops_in_a_worker_of_joblib(program):
    running = program(SHIPPED, python=python_with("launchers"), wait="300")
    line = 1 + SHIPPED.splitlines().index("    return found  # breakpoint")
    with Editor(running.wait_state("waiting")["port"], {running.script: [line]}) as editor:
        (stop,) = editor.wait_stops(1)
        assert running.finish()[:2] == (0, "[9]\n")
    assert stop["path"] == running.script


WARNS = """\
import os, time, warnings
def warn():
    warnings.warn("once")
warn()
open("warned", "w").close()
while not os.path.exists("stop"):
    time.sleep(0.01)
x = 1 is 1
warn()
"""


@pytest.mark.parametrize("minor", [8, 11, 14])
def test_breakpoints_before_the_start_and_while_it_runs_print_no_warning_of_the_program_again(
    program, tmp_path, under, minor
):
    running = program(WARNS, wait="300", **under(minor))
    with Editor(running.port, {running.script: [3]}) as editor:
        session = editor.wait_stops(1)[0]["session"]
        wait_for((tmp_path / "warned").exists, bool)
        session.request("setBreakpoints", source={"path": running.script}, breakpoints=[{"line": 9}])
        (tmp_path / "stop").touch()
        err = running.ends(0)
    assert (len(editor.stops), err.count("UserWarning"), err.count("SyntaxWarning")) == (2, 1, 1)


EQUAL = "def step(n):\n    def add(m):\n        return n + m\n    return add(1)\nx = step(1)\n"


@pytest.mark.parametrize(
    ("minor", "imports"), [(8, ""), (11, ""), (12, ""), (13, ""), pytest.param(0, "debugpy, ", id="compiled")]
)
def test_of_equal_functions_in_two_files_the_one_with_the_breakpoint_stops(
    program, tmp_path, under, minor, imports
):
    """The debugpy of this Python is compiled; the agent's is not."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(EQUAL)
    text = f"import {imports}one, two\none.step(1)\ntwo.step(1)\n"
    for name, line, stops in [("one", 4, 2), ("two", 4, 2), ("one", 3, 2), ("two", 3, 2), ("two", 5, 1)]:
        running = program(text, wait="300", **(under(minor) if minor else {}))
        with Editor(running.port, {str(tmp_path / f"{name}.py"): [line]}) as editor:
            running.ends(0)
        expected = [(str(tmp_path / f"{name}.py"), line)] * stops
        assert [(stop["path"], stop["line"]) for stop in editor.stops] == expected


@pytest.mark.parametrize(
    ("minor", "imports"), [(8, ""), (11, ""), (12, ""), pytest.param(0, "debugpy, ", id="compiled")]
)
def test_a_script_with_an_equal_copy_among_the_installed_packages_stops(
    program, tmp_path, under, minor, imports
):
    installed = tmp_path / "lib" / "site-packages" / "ext"
    installed.mkdir(parents=True)
    for folder in (installed, tmp_path):
        (folder / "step.py").write_text(EQUAL)
    (installed / "__init__.py").touch()
    text = f"import sys\nsys.path.append({str(installed.parent)!r})\nimport {imports}ext.step, step\n"
    text += "ext.step.step(1)\nstep.step(1)\n"
    running = program(text, wait="300", **(under(minor) if minor else {}))
    with Editor(running.port, {str(tmp_path / "step.py"): [3, 5]}) as editor:
        running.ends(0)
    here = str(tmp_path / "step.py")
    assert [(stop["path"], stop["line"]) for stop in editor.stops] == [(here, 5), (here, 3), (here, 3)]


@pytest.mark.parametrize("how", ["other lines", "rewritten by pytest"])
def test_of_functions_that_are_compiled_alike_the_one_with_the_breakpoint_stops(
    program, tmp_path, under, how
):
    """Up to Python 3.10 code with other lines is equal; pytest compiles asserts in another way."""
    one = "def test_step():\n    n = 1\n    assert n\n    n += 1\n"
    two = one.replace("    n += 1", "\n\n    n += 1") if how == "other lines" else one
    for name, text in (("test_one", one), ("test_two", two)):
        (tmp_path / f"{name}.py").write_text(text)
    script, line = str(tmp_path / "test_two.py"), two.splitlines().index("    n += 1") + 1
    if how == "other lines":
        text = "import test_one, test_two\ntest_one.test_step()\ntest_two.test_step()\n"
        running = program(text, wait="300", **under(8))
    else:
        running = program(
            "import pytest, sys\nsys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', 'test_one.py', 'test_two.py']))\n",
            wait="300",
        )
    with Editor(running.port, {script: [line]}) as editor:
        running.ends(0)
    assert [(stop["path"], stop["line"]) for stop in editor.stops] == [(script, line)]


SUSPENDED = """\
import asyncio, os

def counts():
    n = 0
    while True:
        n += 1
        yield n

async def polls(event):
    open("up", "w").close()
    while not os.path.exists("go"):
        await asyncio.sleep(0.02)
    event.set()

async def main():
    numbers, event = counts(), asyncio.Event()
    next(numbers)
    polling = asyncio.create_task(polls(event))
    await event.wait()
    n = next(numbers)

asyncio.run(main())
"""


@pytest.mark.parametrize("minor", [11, 12, 13])
def test_generators_and_coroutines_that_are_suspended_at_the_attach_stop(program, tmp_path, under, minor):
    running = program(SUSPENDED, **under(minor))
    wait_for((tmp_path / "up").exists, bool)
    with Editor(running.port, {running.script: [6, 20]}) as editor:
        editor.wait_attached(2)
        (tmp_path / "go").touch()
        running.ends(0)
    assert [stop["line"] for stop in editor.stops] == [20, 6]
