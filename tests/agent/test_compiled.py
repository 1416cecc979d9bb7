"""A breakpoint that torch.compile would swallow is said, and `--no-compile` lets it stop."""

import re

from tests.agent.dap_probe import Editor
from tests.frameworks import python_with

CODE = """import os, sys, time, torch
torch.set_num_threads(1)
@torch.compile(backend="eager")
def step(x):
    y = torch.sin(x) + 1
    return (y * 2).sum()
def plain(x):
    return x + 1
for i in range(3):
    r = step(torch.ones(8)); plain(1)
    if len(sys.argv) > 1 and not i:
        print("up", flush=True)
        while not os.path.exists(sys.argv[1]): time.sleep(0.02)
print("end", flush=True)
"""

INLINED = """import sys, torch
torch.set_num_threads(1)
def scaled(x):
    def nested(x):
        # inlined too
        return x * 3
    y = nested(x)
    return y + 1
@torch.compiler.disable
def plain(x):
    return x + 1
class Block(torch.nn.Module):
    def forward(self, x):
        y = scaled(torch.sin(x))
        y = plain(y)
        return y * 2
model = torch.compile(torch.nn.Sequential(Block(), Block()), backend="eager")
for i in range(3):
    model(torch.ones(8))
scaled(torch.ones(8))
print("end", flush=True)
"""


def test_a_swallowed_breakpoint_is_said_once_in_the_console_and_on_stderr(program, launch):
    running = program(CODE, wait="300", python=python_with("torch"))
    with Editor(running.port, {running.script: [5, 8]}) as editor:
        err = running.ends(0, "end\n")
    text = "torch.compile has compiled step: the breakpoint at train.py:5 does not stop there. Start the program with `"
    assert [stop["line"] for stop in editor.stops] == [8, 8, 8]
    assert err.count(text) == 1
    assert editor.said(text) == {1}
    script = running.script
    (advised,) = re.findall("`(.*) COMMAND`", err)
    running = launch(*advised.split(), python_with("torch"), script, wait="300")
    with Editor(running.port, {script: [5]}) as editor:
        running.ends(0, "end\n")
    assert [stop["line"] for stop in editor.stops] == [5, 5, 5]


def test_so_is_one_in_a_function_that_is_inlined_into_a_compiled_one_and_none_in_a_function_that_is_not(
    program,
):
    running = program(INLINED, wait="300", python=python_with("torch"))
    with Editor(running.port, {running.script: [6, 8, 11, 14]}) as editor:
        err = running.ends(0, "end\n")
    assert [stop["line"] for stop in editor.stops] == [*[11, 11] * 3, 6, 8]
    assert err.count("torch.compile has compiled forward: the breakpoint at train.py:14 does not") == 1
    for function, line in (("scaled", 8), ("nested", 6)):
        text = f"the breakpoint at train.py:{line} does not stop where torch.compile has inlined {function} into "
        assert err.count(text) == 1
    assert err.count("torch.compile has") == 3


def test_it_is_said_too_when_the_function_was_compiled_before_the_editor_came(program, tmp_path):
    gate = tmp_path / "gate"
    running = program(CODE, str(gate), python=python_with("torch"))
    assert running.process.stdout.readline() == b"up\n"
    with Editor(running.port, {running.script: [5]}) as editor:
        editor.wait_output("has compiled step")
        gate.touch()
        code, _, err = running.finish(300)
    assert (code, err.count("torch.compile has compiled step")) == (0, 1)


def test_without_compiling_it_stops_and_the_variable_says_so_too(program):
    running = program(CODE, wait="300", options=("--no-compile",), python=python_with("torch"))
    with Editor(running.port, {running.script: [5]}) as editor:
        err = running.ends()
    assert [stop["line"] for stop in editor.stops] == [5, 5, 5]
    assert "torch.compile has compiled" not in err
    for env, told in (({"DKDBG_NO_COMPILE": "1"}, "1\n"), ({}, "None\n")):
        told_to = program("import os; print(os.environ.get('TORCH_COMPILE_DISABLE'))", env=env)
        assert told_to.finish()[1] == told


def test_an_equal_function_without_a_breakpoint_that_is_compiled_is_not_named(program, tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text("def step(x):\n    y = x + 1\n    return y\n")
    text = "import one, torch, two\ntorch.set_num_threads(1)\nx = torch.ones(2)\n"
    text += 'one.step(x)\ntorch.compile(one.step, backend="eager")(x)\ntwo.step(x)\n'
    running = program(text, wait="300", python=python_with("torch"))
    with Editor(running.port, {str(tmp_path / "two.py"): [2]}) as editor:
        err = running.ends(0)
    assert [stop["path"] for stop in editor.stops] == [str(tmp_path / "two.py")]
    assert "has compiled" not in err + "".join(editor.output)
