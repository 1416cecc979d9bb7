"""A program that traces itself while an editor is attached: up to Python 3.11 it takes the debugger's place."""

import sys
from pathlib import Path
from typing import Any

import pytest

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


def stops(launch: Any, script: Path, line: int, *command: str, **more: Any) -> tuple[list[int], Editor, str]:
    """Run to the end: (lines of the stops, the editor, the program's stderr)."""
    running = launch(*command, wait="300", **more)
    with Editor(running.wait_state("waiting")["port"], {str(script): [line]}) as editor:
        code, _, err = running.finish(300)
        assert code == 0, err
    # What the editor was told last has been read when its sessions are closed.
    return [stop["line"] for stop in editor.stops], editor, err


@pytest.mark.parametrize("minor", EDGES)
def test_the_tracer_of_a_program_is_said_and_the_debugger_comes_back_after_it(launch, under, tmp_path, minor):
    script = tmp_path / "train.py"
    script.write_text(OWN)
    options = under(minor)
    lines, editor, err = stops(launch, script, 4, options["python"], "train.py", **options)
    if minor < 12:
        assert lines == [4, 4]
        assert (editor.said(f"train.py:10 {NOTE}"), err.count(f"train.py:10 {NOTE}")) == ({1}, 1)
    else:
        assert (lines, NOTE in err) == ([4, 4, 4], False)
    assert "PYDEV" not in err


def test_a_program_that_asks_for_a_pause_gets_it_without_a_word(launch, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(PAUSES)
    python = need(11)
    lines, _, err = stops(launch, script, 4, python, "train.py", python=python)
    assert (lines, NOTE in err) == ([4, 4], False)


def test_coverage_is_named_with_what_to_do_where_no_breakpoint_stops(launch, tmp_path):
    if sys.version_info >= (3, 12):
        pytest.skip("from 3.12 on coverage and the debugger trace side by side")
    pytest.importorskip("coverage")
    script = tmp_path / "train.py"
    script.write_text(STEPS)
    lines, editor, _ = stops(launch, script, 2, sys.executable, "-m", "coverage", "run", "train.py")
    assert lines == []
    assert f"coverage {NOTE}" in "".join(editor.output)
    assert "(pytest: --no-cov)" in "".join(editor.output)


def test_coverage_that_began_before_the_editor_came_is_replaced_and_not_reported(launch, tmp_path):
    if sys.version_info >= (3, 12):
        pytest.skip("from 3.12 on coverage and the debugger trace side by side")
    pytest.importorskip("coverage")
    script = tmp_path / "train.py"
    script.write_text(LOOPS)
    running = launch(sys.executable, "-m", "coverage", "run", "train.py")
    wait_for((tmp_path / "began").exists, bool)
    with Editor(running.wait_state("running")["port"], {str(script): [5]}) as editor:
        editor.wait_stops(1)
        (tmp_path / "end").touch()
        code, _, err = running.finish(300)
    assert (code, NOTE in err, NOTE in "".join(editor.output)) == (0, False, False)


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
def test_a_tracer_that_cannot_be_looked_at_is_set_without_a_word(launch, under, tmp_path, minor):
    script = tmp_path / "train.py"
    script.write_text(ODD)
    options = under(minor)
    _, _, err = stops(launch, script, 12, options["python"], "train.py", **options)
    assert ("own tracer" in err, "Traceback" in err) == (False, False), err


PDB = """import pdb

def step(n):
    pdb.set_trace()
    n += 1
    return n + 1

print(step(1))
print(step(2))
"""


@pytest.mark.parametrize("minor", [8, 11, 12, 14])
def test_pdb_stops_in_the_program_while_an_editor_is_attached(launch, under, tmp_path, minor):
    (tmp_path / "train.py").write_text(PDB)
    (tmp_path / "typed").write_text("p n\nn\nn\np n\nc\nc\n")
    options = under(minor)
    with (tmp_path / "typed").open() as typed:
        running = launch(options["python"], "train.py", wait="300", stdin=typed, **options)
    script = str(tmp_path / "train.py")
    with Editor(running.wait_state("waiting")["port"], {script: [6]}) as editor:
        code, out, err = running.finish(300)
    assert code == 0, err
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
        text = "mine has the debugger's number in sys.monitoring: no breakpoint stops while it does"
        wait_for(lambda: "".join(editor.output), lambda said: text in said)


TYPES = """import pdb

def step(n):
    return n + 1

pdb.set_trace()
print(step(1))
print(step(2))
"""


@pytest.mark.parametrize("minor", [8, 11, 12, 14])
def test_pdb_steps_into_the_programs_functions_alone(launch, under, tmp_path, minor):
    (tmp_path / "train.py").write_text(TYPES)
    (tmp_path / "typed").write_text("s\n" * 7 + "c\n")
    options = under(minor)
    with (tmp_path / "typed").open() as typed:
        running = launch(options["python"], "train.py", wait="300", stdin=typed, **options)
    with Editor(running.wait_state("waiting")["port"], {str(tmp_path / "train.py"): [4]}):
        code, out, err = running.finish(300)
    assert code == 0, err
    assert ("step()->2" in out, "print(step(2))" in out, "write_and_take" in out) == (True, True, False), out
