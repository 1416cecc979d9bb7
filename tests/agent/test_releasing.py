"""Objects of a function that the debugger stopped in end with the function, as without it."""

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.agent.dap_probe import Editor, wait_for
from tests.pythons import EDGES

#: Objects end by their reference counts alone; line 8 has the breakpoint.
CODE = """import gc, time, weakref
gc.collect()
gc.disable()
class Batch: pass
def step(n):
    batch = Batch()
    left.append(weakref.ref(batch))
    return n

left = []
for n in range(4):
    step(n)
    end = time.monotonic() + 100
    while any(each() is not None for each in left) and time.monotonic() < end:
        time.sleep(0.01)  # a thread of the debugger may look at the frame just now
    print(sum(each() is not None for each in left))
"""


@pytest.mark.parametrize("minor", EDGES)
def test_the_objects_of_a_stopped_function_end_with_it(program, under, minor):
    running = program(CODE, wait="300", **under(minor))
    with Editor(running.port, {running.script: [8]}) as editor:
        running.ends(0, "0\n0\n0\n0\n")
    assert [stop["line"] for stop in editor.stops] == [8] * 4


def test_breakpoints_that_change_while_a_function_runs_keep_none_of_its_objects(program, tmp_path):
    loop = "    open('in', 'w').close()\n    while not os.path.exists('go'):\n        time.sleep(0.01)"
    code = CODE.replace("    return n", loop).replace("import gc", "import os, gc")
    running = program(code, wait="300")
    with Debugger(AttachOptions(port=running.port)) as debugger:
        debugger.attach()
        wait_for((tmp_path / "in").exists, bool)
        for line in (5, 6, 5):
            debugger.set_breakpoints(running.script, [line])
        debugger.set_breakpoints(running.script, [])
        (tmp_path / "go").touch()
        running.ends(0, "0\n0\n0\n0\n")
