"""A program that traces itself while an editor is attached: up to Python 3.11 it takes the debugger's place."""

import sys

import pytest

from tests.agent.conftest import Launch
from tests.agent.dap_probe import Editor, wait_for
from tests.pythons import EDGES, need

#: Line 4 has the breakpoint: before, under a tracer of the program's own, and after it.
OWN = """import sys

def step(n):
    return n + 1

def own(frame, event, argument):
    return None

step(1)
sys.settrace(own)
step(2)
sys.settrace(None)
step(3)
print("end")
"""
PAUSES = OWN.replace("sys.settrace(own)", "former = sys.gettrace()\nsys.settrace(None)").replace(
    "\nsys.settrace(None)\nstep(3)", "\nsys.settrace(former)\nstep(3)"
)
STEPS = "def step(n):\n    return n + 1\n\nfor n in range(3):\n    step(n)\n"
LOOPS = """import os, time

def step():
    time.sleep(0.01)
    return 1

open("began", "w").close()
while not os.path.exists("end"):
    step()
"""
NOTE = "traces the program itself: up to Python 3.11 only one tool at a time can"


def stops(running: Launch, line: int) -> tuple[list[int], Editor, str]:
    """Run to the end: (lines of the stops, the editor, the program's stderr)."""
    with Editor(running.port, {running.script: [line]}) as editor:
        err = running.ends()
    # What the editor was told last has been read when its sessions are closed.
    return [stop["line"] for stop in editor.stops], editor, err


@pytest.mark.parametrize("minor", EDGES)
def test_the_tracer_of_a_program_is_said_and_the_debugger_comes_back_after_it(program, under, minor):
    lines, editor, err = stops(program(OWN, wait="300", **under(minor)), 4)
    if minor < 12:
        assert lines == [4, 4]
        assert (editor.said(f"train.py:10 {NOTE}"), err.count(f"train.py:10 {NOTE}")) == ({1}, 1)
    else:
        assert (lines, NOTE in err) == ([4, 4, 4], False)
    assert "PYDEV" not in err


def test_a_program_that_asks_for_a_pause_gets_it_without_a_word(program):
    lines, _, err = stops(program(PAUSES, wait="300", python=need(11)), 4)
    assert (lines, NOTE in err) == ([4, 4], False)


@pytest.fixture
def under_coverage(program, tmp_path):
    """Launch a program that consists of this text under coverage."""
    if sys.version_info >= (3, 12):
        pytest.skip("from 3.12 on coverage and the debugger trace side by side")
    pytest.importorskip("coverage")

    def start(text, wait="0", concurrency="thread"):
        (tmp_path / ".coveragerc").write_text(f"[run]\nconcurrency = {concurrency}\ndata_file = measured\n")
        return program(text, before=("-m", "coverage", "run"), wait=wait)

    return start


@pytest.mark.parametrize("concurrency", ["thread", "multiprocessing"])
def test_coverage_is_named_with_what_to_do_where_no_breakpoint_stops(under_coverage, concurrency):
    lines, editor, _ = stops(under_coverage(STEPS, wait="300", concurrency=concurrency), 2)
    assert lines == []
    assert f"coverage {NOTE}" in "".join(editor.output)
    assert "(pytest: --no-cov)" in "".join(editor.output)


def test_coverage_that_has_taken_the_debuggers_place_measures_on_when_the_editor_has_left(
    under_coverage, tmp_path
):
    running = under_coverage(LOOPS + "print('after')\n", wait="300")
    with Editor(running.port, {running.script: [5]}):
        wait_for((tmp_path / "began").exists, bool)
    wait_for(running.record, lambda record: record["state"] == "running")
    (tmp_path / "end").touch()
    assert "Trace function changed" not in running.ends(0, "after\n")


@pytest.mark.parametrize("concurrency", ["thread", "multiprocessing"])
def test_coverage_that_began_before_the_editor_came_is_replaced_which_is_reported(
    under_coverage, tmp_path, concurrency
):
    running = under_coverage(LOOPS, concurrency=concurrency)
    wait_for((tmp_path / "began").exists, bool)
    with Editor(running.port, {running.script: [5]}) as editor:
        editor.wait_stops(1)
        said = editor.wait_output(
            "coverage traced the program: up to Python 3.11 only one tool at a time can"
        )
        (tmp_path / "end").touch()
        err = running.ends()
    assert (NOTE in err, NOTE in said) == (False, False)


def test_a_tracer_that_was_there_before_the_editor_is_replaced_which_is_reported(program, tmp_path):
    text = "import sys\n\ndef own(frame, event, argument):\n    return own\n\nsys.settrace(own)\n"
    lines = LOOPS.splitlines()
    main = "\n".join([*lines[:6], "def main():", *(f"    {line}" for line in lines[6:]), "", "main()"])
    running = program(text + main, python=need(11))
    wait_for((tmp_path / "began").exists, bool)
    with Editor(running.port, {running.script: [10]}) as editor:
        editor.wait_output("a trace function of its own traced the program: up to Python 3.11")
        (tmp_path / "end").touch()
        running.ends()


MEASURED = """import json, queue, subprocess, sys, threading

found = queue.Queue()
thread = threading.Thread(target=found.put, args=(1,))
thread.start()
found.get(timeout=5)
thread.join(timeout=5)
subprocess.run([sys.executable, "-c", ""])
"""


@pytest.mark.parametrize("attached", [False, True])
def test_coverage_measures_the_programs_files_alone(program, tmp_path, attached):
    coverage = pytest.importorskip("coverage")
    measure = ("-m", "coverage", "run", "--data-file", str(tmp_path / "measured"))
    running = program(MEASURED, before=measure, wait="300" if attached else "0")
    if attached:
        with Editor(running.port, {running.script: [1]}):
            running.ends()
    else:
        running.ends()
    data = coverage.CoverageData(str(tmp_path / "measured"))
    data.read()
    assert data.measured_files() == {running.script}


#: Looking at its tracer raises.
ODD = """import sys

class Tracer:
    @property
    def __module__(self):
        raise RuntimeError("looked at")
    def __call__(self, frame, event, argument):
        return None

sys.settrace(Tracer())
sys.settrace(None)
print("end")
"""


@pytest.mark.parametrize("minor", EDGES)
def test_a_tracer_that_cannot_be_looked_at_is_set_without_a_word(program, under, minor):
    _, _, err = stops(program(ODD, wait="300", **under(minor)), 12)
    assert ("own tracer" in err, "Traceback" in err) == (False, False), err


def test_a_program_with_such_a_tracer_is_joined_by_a_late_attach(program, tmp_path):
    odd = ODD.replace(
        'sys.settrace(Tracer())\nsys.settrace(None)\nprint("end")\n',
        "import threading\nthreading.settrace(Tracer())\n",
    )
    running = program(odd + LOOPS, python=need(11))
    wait_for((tmp_path / "began").exists, bool)
    with Editor(running.port, {running.script: [16]}) as editor:
        editor.wait_stops(1)
        (tmp_path / "end").touch()
        running.ends()


#: Prints dkdbg's modules that a tracer of all threads has seen, but those that take the tracer away.
ALL_THREADS = """
import threading

seen = set()

def own(frame, event, argument):
    seen.add(frame.f_code.co_filename)
    return own

threading.settrace(own)
"""
PRINTS = "print([each for each in seen if '/dkdbg/agent/' in each and not each.endswith(('/session.py', '/own_tracer.py'))])\n"


@pytest.mark.parametrize("minor", [11, 13])
def test_a_tracer_of_all_threads_does_not_see_those_of_dkdbg(program, under, minor, tmp_path):
    running = program(f"{ALL_THREADS}{LOOPS}{PRINTS}", **under(minor))
    wait_for((tmp_path / "began").exists, bool)
    with Editor(running.port, {running.script: [15]}) as editor:
        editor.wait_stops(3)
        (tmp_path / "end").touch()
        running.ends(0, "[]\n")


PDB = """import pdb

def step(n):
    pdb.set_trace()
    n += 1
    return n + 1

print(step(1))
print(step(2))
"""


@pytest.fixture
def typed_into(program, under, tmp_path):
    """Run a program of this text to its end, with lines for its pdb and an editor: what it prints, and the editor."""

    def run(text, minor, lines, breakpoint_line):
        (tmp_path / "typed").write_text(lines)
        with (tmp_path / "typed").open() as typed:
            running = program(text, wait="300", stdin=typed, **under(minor))
        with Editor(running.port, {running.script: [breakpoint_line]}) as editor:
            code, out, err = running.finish()
        assert code == 0, err
        return out, editor

    return run


@pytest.mark.parametrize("minor", [8, 11, 12, 14])
def test_pdb_stops_in_the_program_while_an_editor_is_attached(typed_into, minor):
    out, editor = typed_into(PDB, minor, "p n\nn\nn\np n\nc\nc\n", 6)
    assert ("(Pdb) 1\n" in out, "(Pdb) 2\n" in out, "own_tracer" in out) == (True, True, False), out
    assert out.split()[-1] == "4"
    assert len(editor.stops) >= (2 if minor > 11 else 0)


TAKES = """import sys, time

sys.monitoring.use_tool_id(sys.monitoring.DEBUGGER_ID, "mine")
print("up", flush=True)
while True:
    time.sleep(0.01)
"""


def test_a_tool_with_the_debuggers_number_is_reported(program, under):
    running = program(TAKES, **under(12))
    assert running.process.stdout.readline() == b"up\n"
    with Editor(running.port, {running.script: [6]}) as editor:
        editor.wait_output(
            "mine has taken the debugger's tool ID in sys.monitoring: no breakpoint stops while it does"
        )


TYPES = """import pdb

def step(n):
    return n + 1

pdb.set_trace()
print(step(1))
print(step(2))
"""


@pytest.mark.parametrize("minor", [8, 11, 12, 14])
def test_pdb_steps_into_the_programs_functions_alone(typed_into, minor):
    out, _ = typed_into(TYPES, minor, "s\n" * 7 + "c\n", 4)
    assert ("step()->2" in out, "print(step(2))" in out, "write_and_take" in out) == (True, True, False), out
