"""A program with subinterpreters, in which no debugger is: the editor and `dkdbg why` say so."""

import pytest

from tests.agent.dap_probe import Editor
from tests.agent.test_why import why

RAW = """
import sys, time
import work
try:
    import _interpreters as made
except ImportError:
    import _xxsubinterpreters as made
inner = made.create()
getattr(made, "run_string", made.create)(inner, "import sys; sys.path[:] = %r; import work; work.add(1)" % sys.path)
time.sleep(600)
"""
POOL = """
import time
import work
from concurrent.futures import InterpreterPoolExecutor
pool = InterpreterPoolExecutor(1)
pool.submit(work.add, 1).result()
time.sleep(600)
"""


@pytest.mark.parametrize("wait", ["300", ""])
@pytest.mark.parametrize(("minor", "text"), [(11, RAW), (14, POOL)])
def test_code_in_a_subinterpreter_is_said_not_to_stop(program, under, tmp_path, *, minor, text, wait):
    (tmp_path / "work.py").write_text("def add(a):\n    return a * 2\n")
    running = program(text, **under(minor), **({"wait": wait} if wait else {}))
    if not wait:
        why(running, 2, "subinterpreter", file="work.py")
    with Editor(running.port, {str(tmp_path / "work.py"): [2]}) as editor:
        editor.wait_output("no breakpoint stops in a subinterpreter")
        why(running, 2, "subinterpreter", file="work.py")
    assert editor.stops == []
