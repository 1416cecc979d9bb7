"""`dkdbg why FILE:LINE` on this machine: real processes, with and without an editor."""

import contextlib
import dis
import json
import os
import py_compile
import shutil
import signal
import subprocess
import sys
import time
import types
import zipfile
from pathlib import Path

import pytest

from dkdbg.agent.inprocess import line as line_of_module
from dkdbg.agent.state import procfs
from dkdbg.agent.supervisor import line as line_of_session
from tests.agent import conftest
from tests.agent.dap_probe import Editor, wait_for
from tests.engine.projects import dkdbg
from tests.frameworks import python_with

LOOP = """\
import sys
import time

DEBUG = 0


def never(n):
    return n


def step(n):
    assert n >= 0, n
    loss = n + 1
    if 0:
        loss = 2
    return loss


def main():
    first = 1
    for n in range(10**9):
        step(n)
        time.sleep(0.01)


main()
"""


def line(text, words):
    return next(number for number, each in enumerate(text.splitlines(), 1) if words in each)


def why(running, number, *causes, file="train.py", fact="loaded"):
    """Ask about a line until these are the causes, after the program has loaded it; return what is said."""
    assert running.port  # it has begun
    words = ("why", f"{file}:{number}", "--json", "--on", f"local:{running.name}")

    def look():
        done = dkdbg(Path(running.script).parent, *words, env={"DKDBG_RUNTIME_DIR": str(running.runtime)})
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    return wait_for(
        look,
        lambda said: [each["cause"] for each in said["findings"]] == [*causes] and fact in str(said["facts"]),
    )


def test_a_line_that_runs_has_no_finding_and_each_other_kind_of_line_has_its_own(program):
    running = program(LOOP)
    why(running, line(LOOP, "loss = n + 1"), fact="has run")
    for words, cause in (
        ("return n", "never-reached"), ("DEBUG = 0", "ran-before"), ("first = 1", "ran-before"), ("loss = 2", "optimised-away"),
    ):  # fmt: skip
        why(running, line(LOOP, words), cause)
    said = why(running, 3, "no-code")
    assert "the next line with code is 4" in said["findings"][0]["says"]


WITHOUT_CODE = '''\
import functools
import time


@functools.wraps(print)
def step():
    """First.

    Second."""
    global total
    total = 1
    return total
    total = 2


time.sleep(600)
'''


@pytest.mark.parametrize(
    ("words", "cause", "remedy"),
    [
        ("Second", "no-code", "set the breakpoint in line 11"),
        ("global", "optimised-away", "set the breakpoint in line 11"),
        ("total = 2", "optimised-away", "set it in a line that runs"),
    ],
)
def test_a_line_without_code_at_the_edge_of_a_function_is_of_that_function(program, words, cause, remedy):
    [found] = why(program(WITHOUT_CODE), line(WITHOUT_CODE, words), cause, fact="in step")["findings"]
    assert found["remedy"] == remedy


def test_a_breakpoint_that_has_stopped_is_counted_and_one_in_a_branch_is_perhaps_too_late(program):
    text = LOOP.replace("0.01", "0.5").replace("    if 0:\n", "    if n < 0:\n")  # so that it is rarely held
    running = program(text)
    stopping, branch = line(text, "loss = n + 1"), line(text, "loss = 2")
    with Editor(running.port, {running.script: [stopping, branch]}) as editor:
        editor.wait_stops(3)
        assert not why(running, stopping, fact="the breakpoint has stopped ")["findings"]
        [found] = why(running, branch, "ran-before", fact="has run")["findings"]
    assert found["says"].startswith(f"step has run, but train.py:{branch} may have run only before")
    for each in (found["says"], found["remedy"]):  # Python 3.12 and newer have room for several tracers
        assert ("line_profiler" in each) == ("C++" in each) == (sys.version_info < (3, 12))


def test_the_only_session_of_a_repository_without_dkdbg_is_mapped_to_itself(program, tmp_path, runtime):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert program(LOOP).port  # it has begun
    env = {"DKDBG_RUNTIME_DIR": str(runtime), "DOCKER_HOST": "unix:///nowhere"}
    done = dkdbg(tmp_path, "why", f"train.py:{line(LOOP, 'return loss')}", "--json", env=env)
    assert done.stdout, done.stderr
    said = json.loads(done.stdout)
    assert f"{tmp_path}/train.py (disk), by this machine" in str(said["facts"])
    assert "not-mapped" not in [each["cause"] for each in said["findings"]]


BEATING = """\
import threading
import time


def beat():
    while True:
        time.sleep(0.01)


threading.Thread(target=beat, name="heartbeat", daemon=True).start()
while True:
    time.sleep(0.01)
"""


def test_a_line_of_a_thread_that_only_beats(program):
    running = program(BEATING, options=("--beats", "heartbeat"))
    place = line(BEATING, "        time.sleep")
    with Editor(running.port, {running.script: [place]}):
        why(running, place, "beats")


TRACED = """\
import sys
import time


def step():
    time.sleep(0.01)


sys.settrace(lambda *_: None)
while True:
    step()
"""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="there both work side by side")
def test_a_program_that_another_tool_traces(program):
    running = program(TRACED, wait="300")
    place = line(TRACED, "    time.sleep")
    with Editor(running.port, {running.script: [place]}):
        said = why(running, place, "own-tracer", fact="")
    assert said["findings"][0]["says"].startswith("train.py:9 traces the program itself")


def test_the_name_that_a_tool_gives_itself_forges_nothing_on_the_terminal(program, under, tmp_path):
    """It has taken the debugger's tool ID in sys.monitoring; the program may be anyone's."""
    name = "\x1b]0;pwn\x07\nno broken link found" + "x" * 100_000
    takes = f"import sys\nsys.monitoring.use_tool_id(sys.monitoring.DEBUGGER_ID, {name!r})\nopen('taken', 'w').close()\n"
    running = program(takes + LOOP, **under(12))
    wait_for((tmp_path / "taken").exists, bool)
    place = line(takes + LOOP, "loss = n + 1")
    with running.debugged(place) as debugger:
        debugger.wait_session(lambda each: each.pid not in (None, running.process.pid), "the program")
        why(running, place, "own-tracer", fact="")
        words = ("why", f"train.py:{place}", "--on", f"local:{running.name}")
        done = dkdbg(tmp_path, *words, env={"DKDBG_RUNTIME_DIR": str(running.runtime)})
    assert "\x1b" not in done.stdout
    assert "\nno broken link" not in done.stdout
    assert len(done.stdout) < 5000


def test_python_o_leaves_an_assert_out(program):
    why(program(LOOP, before=("-O",)), line(LOOP, "assert"), "optimised-away")


def test_a_program_that_waits_has_loaded_nothing(program):
    why(program(LOOP, wait="300"), 5, "waiting", fact="")


def test_a_python_without_the_hook_is_named(program):
    said = why(program(LOOP, before=("-S",)), 5, "hook-missing", fact="")
    assert "-S" in said["findings"][0]["says"]


def test_children_without_the_hook_of_a_python_with_it_are_named_in_the_console(program, tmp_path):
    pypy = tmp_path / "pypy3"
    pypy.symlink_to(shutil.which("sleep") or "")
    running = program(f"""\
import subprocess, sys
subprocess.Popen([{str(pypy)!r}, "30"])
subprocess.run([sys.executable, "-S", "-c", "import time; time.sleep(30)"])
""", wait="300")  # fmt: skip
    with Editor(running.port, {running.script: [1]}) as editor:
        editor.wait_output("no breakpoint stops it: python -S loads nothing from site folders")
        editor.wait_output("no breakpoint stops it: pypy3 is not CPython 3.8 or newer")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its user")
def test_a_process_that_has_dropped_root_and_its_child_are_named_here_by_where_and_in_the_console(program):
    drops = "import os, signal\nos.setgid(65534)\nos.setuid(65534)\n"
    text = drops + "if os.fork():\n    os.wait()\nwhile True:\n    signal.pause()\n"
    running = program(text, wait="300")
    reason = "it runs as uid 65534, which cannot reach the session"
    with Editor(running.port, {running.script: [7]}) as editor:
        assert f"no breakpoint stops it: {reason}" in editor.wait_output("has not loaded the agent")
        said = why(running, 7, "other-user", fact="")
        assert reason in said["findings"][0]["says"]
    assert reason in wait_for(lambda: running.ask("where")[1], lambda said: "does not answer" in said)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its user")
def test_an_editor_that_comes_after_a_process_has_dropped_root_is_told(program):
    text = "import os, time\nos.setgid(65534)\nos.setuid(65534)\n" + LOOP
    running = program(text)
    wait_for(lambda: procfs.owner(running.record().get("child") or 1), lambda uid: uid == 65534)
    with Editor(running.port, {running.script: [line(text, "return n")]}) as editor:
        editor.wait_output("it runs as uid 65534, which cannot reach the session")


def test_a_file_that_was_edited_since(program, tmp_path, runtime):
    running = program(LOOP, verb="supervise")
    why(running, 4, "ran-before")
    time.sleep(1.2)  # what is newer by less may be the start itself
    (tmp_path / "train.py").write_text("# new\n" + LOOP)
    os.utime(tmp_path / "train.py", (1e9, 1e9))  # by the clock of the machine that it was copied from
    remedy = why(running, 14, "edited")["findings"][0]["remedy"]
    restarted = dkdbg(tmp_path, *remedy.split()[1:], env={"DKDBG_RUNTIME_DIR": str(runtime)})
    assert restarted.returncode == 0, restarted.stderr
    wait_for(lambda: running.record()["runs"], lambda runs: runs == 2)
    why(running, 14)


def test_breakpoints_of_an_editor(program):
    running = program(LOOP)
    here = line(LOOP, "loss = n + 1")
    with running.debugged(here, line(LOOP, "return n")) as debugger:
        stop = debugger.wait_stopped(120)
        why(running, here)
        debugger.set_breakpoints(running.script, [line(LOOP, "return n")])
        debugger.continue_(stop)
        why(running, here, "not-set")
        debugger.set_breakpoints(running.script, [])
    left = why(running, here, "not-set", fact="no editor is attached")
    assert left["findings"][0]["says"].startswith("no editor is attached")


@pytest.mark.parametrize(
    ("more", "cause", "says"),
    [
        ({"condition": "n < 0"}, "condition", "only if n < 0"),
        ({"hitCondition": "1000000"}, "condition", "only if its hit count == 1000000"),
        (
            {"condition": "missing < n"},
            "condition",
            "only if missing < n, which raises NameError: name 'missing'",
        ),
        ({"condition": "n = 1"}, "condition", "only if n = 1, which raises SyntaxError: "),
        ({"hitCondition": "5 times"}, "condition", "only if 5 times, which raises SyntaxError: "),
        ({"logMessage": "{loss}"}, "logpoint", "does not stop"),
    ],
)
def test_a_breakpoint_that_is_set_and_does_not_stop(program, more, cause, says):
    running = program(LOOP)
    here = line(LOOP, "loss = n + 1")
    with running.debugged() as debugger:
        child = debugger.wait_session(lambda each: each.pid not in (None, running.process.pid), "the program")
        asked = {"source": {"path": running.script}, "breakpoints": [{"line": here, **more}]}
        child.request("setBreakpoints", asked)
        said = why(running, here, cause)
    assert says in said["findings"][0]["says"]


def test_the_first_error_of_a_condition_is_said_once_in_the_console(program):
    running = program(LOOP)
    with running.debugged() as debugger:
        child = debugger.wait_session(lambda each: each.pid not in (None, running.process.pid), "the program")
        for words, condition in (("loss = n", "missing"), ("loss = n", "missing"), ("assert", "1 / 0")):
            asked = [{"line": line(LOOP, words), "condition": condition}]
            child.request("setBreakpoints", {"source": {"path": running.script}, "breakpoints": asked})
            debugger.wait_output(f"its condition, {condition}, raises")
        said = "".join(each.text for each in debugger.output)
        assert said.count("missing, raises NameError: name 'missing' is not defined") == 1


def test_a_breakpoint_set_before_the_start_in_a_branch_that_is_never_taken_needs_no_restart(program):
    text = LOOP.replace("    if 0:\n", "    if n < 0:\n")
    branch = line(text, "loss = 2")
    running = program(text, wait="300")
    with running.debugged(branch) as debugger:
        debugger.wait_session(lambda each: each.pid not in (None, running.process.pid), "the program")
        debugger.set_breakpoints(running.script, [branch, line(text, "return n")])  # the first one stays
        [found] = why(running, branch, "never-reached", fact="has run")["findings"]
        assert "its branch was not taken" in found["says"]
        assert "restart" not in found["remedy"]
        debugger.set_breakpoints(running.script, [])
        debugger.set_breakpoints(running.script, [branch])
        why(running, branch, "ran-before")


CANCELLED = """\
import asyncio


async def child():
    first = 1
    second = 2


async def main():
    while True:
        asyncio.create_task(child()).cancel()
        await asyncio.sleep(0.05)


asyncio.run(main())
"""


def test_a_task_that_is_cancelled_before_its_first_step_is_not_said_to_have_run(program, under):
    running = program(CANCELLED, wait="300", **under(12))
    with running.debugged(5):
        why(running, 5, "never-reached", fact="in child, which may have run")


PLACES = '''\
import functools
import queue
import threading
import time


class Settings:
    rate = 3


@functools.lru_cache(None)
def cached(
    n=max(
        1,
        2,
    ),
):
    return n


def replaced():
    return 1


def replaced():
    return 2


def quiet():
    query = """
    SELECT 1
    """
    return len(query)


def wrapped(inner):
    return lambda: (inner, 4)


@wrapped
def hidden():
    return time.time() + 5


def waits():
    work = queue.Queue().get()
    return work


threading.Thread(target=waits, daemon=True).start()
quiet()
while True:
    time.sleep(
        0.01,
    )
'''


PLUGIN = "def f(n):\n    return n\n\n\ndef never(n):\n    return n + 1\n"
#: Files that `LOADS` loads, each in a way of its own; what lies below `lib` and `a` comes before what has the same name here.
FILES = {
    **dict.fromkeys(
        ("compiled.py", "copied.py", "lib/copied.py", "executed.py", "wheel.py", "egg.py"), PLUGIN
    ),
    **dict.fromkeys(("folder.py", "folder.zip/folder.py", "a/space/plugin.py"), PLUGIN),
    **dict.fromkeys(("written.py", "reloaded.py"), "def f(n):\n    return 2 * n\n"),
    "b/space/plugin.py": "# other\n" + PLUGIN,
    "branch.py": "x = 1\nif __name__ == '__main__':\n    x = 2\n",
    "run.py": "import time\nif not time:\n    x = 1\nwhile True:\n    time.sleep(0.02)\n",
    "other/train.py": "x = 1\n",
    "fast.pyx": "def f(int n):\n    return n\n",
}
LOADS = f"""\
import importlib, os, runpy, sys, threading, time
sys.path[:0] = ["lib", "a", "b", "wheel.whl", "egg.egg", "folder.zip"]
import branch, compiled, copied, egg, folder, wheel
from space import plugin
exec(compile(open("executed.py").read(), os.path.abspath("executed.py"), "exec"))
time.sleep(1.2)  # what is newer by less may be the start itself
for name in ("written", "reloaded"):
    with open(name + ".py", "w") as file:
        file.write({PLUGIN!r})
import written, reloaded
importlib.reload(reloaded)

def calls():
    while True:
        for each in (f, compiled.f, copied.f, plugin.f, written.f, reloaded.f):
            each(1)
        time.sleep(0.02)

threading.Thread(target=calls, daemon=True).start()
threading.Thread(target=runpy.run_path, args=("run.py",), daemon=True).start()
"""
SCRIPT = LOADS + PLACES


def in_script(words):
    return f"train.py:{line(SCRIPT, words)}"


@pytest.fixture(scope="module")
def project(layout, runtime, tmp_path_factory):
    """A program that has loaded files in many ways."""
    folder = tmp_path_factory.mktemp("project")
    for name, text in {**FILES, "train.py": SCRIPT, "lib/compiled.py": PLUGIN}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    py_compile.compile(str(folder / "lib/compiled.py"), str(folder / "lib/compiled.pyc"))
    (folder / "lib/compiled.py").unlink()
    for archive, name in (("wheel.whl", "wheel.py"), ("egg.egg", "egg.py")):
        with zipfile.ZipFile(folder / archive, "w") as file:
            file.write(folder / name, name)
    starting = conftest.launch.__wrapped__(layout, runtime, folder)
    running = next(starting)(sys.executable, "train.py")
    running.script = str(folder / "train.py")
    yield running
    for _ in starting:
        pass


#: A place in a file of `project`, the cause, and parts of what is said of it and of the remedy.
CASES = {
    "a module without its source": ("compiled.py:2", "compiled-file"),
    "another copy on this machine, which is not blamed on an image": (
        "copied.py:2", "two-copies", "", "set the breakpoint in that file, or remove it",
    ),
    "a branch of an imported module": ("branch.py:3", "ran-before", "or its branch was not taken", "a branch that is never taken"),
    "a module in a wheel": ("wheel.py:2", "zipped"),
    "a module in an egg": ("egg.py:2", "zipped"),
    "a module in a folder that is named like an archive": ("folder.py:2", "two-copies"),
    "a file that runpy has run by a relative name": ("run.py:5", "", "run.py: code on line 5"),
    "a branch of a program that runs": ("run.py:3", "ran-before", "or its branch was not taken", "a branch that is never taken"),
    "a file that was written before it was loaded": ("written.py:2", ""),
    "a file that was written before it was reloaded": ("reloaded.py:2", ""),
    "a module of another checkout": ("b/space/plugin.py:3", "not-loaded", "a/space/plugin.py", "first on PYTHONPATH"),
    "another file of the script's name": ("other/train.py:1", "not-loaded", "another file of that name is loaded: "),
    "code under the name of a file without a module": ("executed.py:2", ""),
    "code under the name of a file that does not run": ("executed.py:6", "never-reached"),
    "a file that is not Python": ("fast.pyx:2", "not-python"),
    "a line within a statement": (in_script("SELECT"), "no-code", "", f"set the breakpoint in line {line(SCRIPT, 'query =')},"),
    "the body of a class": (in_script("rate = 3"), "ran-before", "", "dkdbg restart local:"),
    "a decorator": (in_script("@functools"), "ran-before"),
    "a default": (in_script("        1,"), "ran-before"),
    "a replaced function": (in_script("return 1"), "never-reached", "another has replaced it"),
}  # fmt: skip
if sys.version_info >= (3, 11):
    CASES["a function behind a wrapper"] = (in_script("time.time()"), "never-reached")
if sys.version_info[:2] != (3, 11):
    CASES["a function that has run once"] = (in_script("return len"), "")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.xdist_group("agent-why")  # one program for all of them
def test_the_cause_of_a_line_of_a_program_that_has_loaded_files_in_many_ways(project, case):
    place, cause, says, remedy = (*CASES[case], "", "")[:4]
    file, _, number = place.rpartition(":")
    said = why(project, number, *[cause] * bool(cause), file=file, fact="")
    assert says in str(said["findings"] or said["facts"])
    assert not remedy or remedy in said["findings"][0]["remedy"]


def test_a_line_that_the_program_waits_before_and_one_of_a_program_that_is_stopped(program):
    running = program(PLACES)
    place, loop = line(PLACES, "return work"), line(PLACES, "        0.01")
    with running.debugged(place) as debugger:
        said = why(running, place, "never-reached", fact="which has run")
        assert f"waits is in line {place - 1} in train.py" in said["findings"][0]["says"]
        debugger.set_breakpoints(running.script, [place, loop])
        debugger.wait_stopped(120)
        said = why(running, place, "stopped", "never-reached")
        assert "train.py is stopped (" in said["findings"][0]["says"]
        debugger.set_breakpoints(running.script, [])


SUSPENDED = {
    "a task": "import asyncio\n\n\nasync def waits(n):\n    await asyncio.sleep(n)\n    return n\n\n\nasyncio.run(waits(600))\n",
    "an async generator": "import asyncio\n\n\nasync def waits(n):\n    yield n\n    return\n\n\nasync def main():\n    kept = waits(1)\n    await kept.asend(None)\n    await asyncio.sleep(600)\n\n\nasyncio.run(main())\n",
    "a generator": "import time\n\n\ndef waits(n):\n    yield n\n    return n\n\n\nkept = waits(1)\nnext(kept)\ntime.sleep(600)\n",
}


@pytest.mark.parametrize("kind", SUSPENDED)
def test_a_line_that_is_waited_before_outside_of_the_threads_stacks(program, kind):
    running = program(SUSPENDED[kind])
    with running.debugged() as debugger:
        debugger.wait_session(lambda each: each.pid not in (None, running.process.pid), "the program")
        debugger.set_breakpoints(running.script, [6])
        said = why(running, 6, "never-reached", fact="which has run")
        assert "waits is in line 5 in train.py" in said["findings"][0]["says"]


def test_a_line_that_a_thread_in_a_loop_waits_before(program):
    text = "import queue\n\n\ndef waits(q):\n    while True:\n        q.get()\n        n = 1\n\n\nq = queue.Queue()\nq.put(1)\nwaits(q)\n"
    running = program(text)
    with running.debugged() as debugger:
        debugger.wait_session(lambda each: each.pid not in (None, running.process.pid), "the program")
        debugger.set_breakpoints(running.script, [7])
        [found] = why(running, 7, "never-reached", fact="which has run")["findings"]
        assert ("waits is in line 6 in train.py" in found["says"], "restart" in found["remedy"]) == (
            True,
            False,
        )


def test_a_line_that_a_thread_waits_before_without_an_editor(program):
    text = "import time\n\n\ndef waits(n):\n    time.sleep(n)\n    return n\n\n\nwaits(600)\n"
    said = why(program(text), 6, "never-reached", fact="which has run")
    assert said["findings"][0]["says"].startswith("waits is in line 5 in train.py, and has not reached ")


@pytest.mark.parametrize(
    ("compiler", "decorator", "framework"),
    [
        ("torch.compile", "torch.compile(backend='eager')", "torch"),
        ("torch.jit", "torch.jit.script", "torch"),
        ("jax", "jax.jit", "jax"),
    ],
    ids=["torch.compile", "torch.jit", "jax"],
)
def test_a_function_that_is_compiled(program, compiler, decorator, framework):
    text = f"""import time, {framework}
{"import jax.numpy as np" if framework == "jax" else "import torch as np; np.set_num_threads(1)"}
@{decorator}
def step(x):
    y = np.sin(x) + 1
    return (y * 2).sum()
while True:
    step(np.ones(8))
    time.sleep(0.02)
"""
    running = program(text, python=python_with(framework))
    said = why(running, 5, "compiled")
    assert said["findings"][0]["says"].startswith(f"{compiler} has compiled step")
    why(running, 8)


@pytest.mark.parametrize(("wait", "causes"), [("300", ["compiled"]), ("0", [])], ids=["seen", "unseen"])
def test_a_function_that_torch_compile_has_inlined_into_another_is_not_said_not_to_run(program, wait, causes):
    text = """import time, torch
torch.set_num_threads(1)
def scaled(x):
    y = x * 2
    return y
@torch.compile(backend="eager")
def step(x):
    return scaled(x) + 1
while True:
    step(torch.ones(8))
    time.sleep(0.02)
"""
    running = program(text, wait=wait, python=python_with("torch"))
    with Editor(running.port, {running.script: [4]}) if causes else contextlib.nullcontext():
        why(running, 8, "compiled")
        why(running, 4, *causes)


class Unbound:
    """Fails as flask's `request` does outside of a request."""

    def __getattr__(self, name):
        raise RuntimeError(name)


class Nameless(type):
    @property
    def __module__(cls):
        raise RuntimeError("no module")


def nested_in_itself():
    code = types.SimpleNamespace(co_name="step", co_firstlineno=1, co_code=b"")
    code.co_consts = (code,)
    return type("Nested", (), {"__code__": code})()


def wraps_itself():
    found = types.SimpleNamespace()
    found.fn = found.__wrapped__ = found
    return found


def described(folder, monkeypatch, value):
    """What is said about a module with this value, which is looked at before the module's function."""
    path = folder / "odd_module.py"
    path.write_text("def step(n):\n    return n\n")
    module = types.ModuleType(path.stem)
    module.__file__, module.value = str(path), value
    exec(compile(path.read_text(), str(path), "exec"), vars(module))
    monkeypatch.setitem(sys.modules, path.stem, module)
    return line_of_module.describe(str(path), 2, is_asked=True)


@pytest.mark.parametrize(
    "value",
    [
        Unbound(), Nameless("Class", (), {}), Nameless("Class", (), {})(), nested_in_itself(), wraps_itself(),
        type("Dispatcher", (Unbound,), {"__module__": "numba.core", "__slots__": ()})(),
    ],
    ids=["proxy", "class", "object", "code", "cycle", "compiler"],
)  # fmt: skip
def test_an_odd_object_in_a_module_does_not_hide_its_functions(tmp_path, monkeypatch, value):
    (found,) = described(tmp_path, monkeypatch, value)["files"]
    assert (found["function"], found["code"], found["compiled"]) == ("step", True, "")


MAKES_TUPLES = """
import threading
from dkdbg.agent.inprocess import line

def look():
    for _ in range(300):
        line._functions("train.py")
        line._suspended(look.__code__)

thread = threading.Thread(target=look)
thread.start()
while thread.is_alive():
    tuple(n for n in range(300))
print("end")
"""


def test_a_look_at_all_functions_or_coroutines_breaks_no_tuple_that_the_program_is_making():
    """Python resizes a tuple that only its maker holds; else it raises SystemError, in the program."""
    done = subprocess.run([sys.executable, "-c", MAKES_TUPLES], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("end\n", "")


def test_an_object_that_is_evaluated_when_used_is_not_evaluated(tmp_path, monkeypatch):
    evaluated = []

    class Lazy:
        def __getattr__(self, name):
            evaluated.append(name)
            raise AttributeError(name)

        @property
        def __class__(self):
            evaluated.append("__class__")
            return Lazy

    described(tmp_path, monkeypatch, Lazy())
    assert not evaluated


def test_a_script_that_is_imported_too(program):
    text = "import sys, time\n\n\ndef f(n):\n    return n\n\n\nif __name__ == '__main__':\n    sys.path[:0] = ['.']\n    import train\n\n    while True:\n        train.f(1)\n        time.sleep(0.02)\n"
    why(program(text), 5)


def test_a_function_that_a_loop_calls_is_not_said_to_be_past(program):
    text = "import time\n\n\ndef work(n):\n    a = n\n    time.sleep(0.5)\n    return a\n\n\n"
    running = program(f"{text}while True:\n    work(1)\n")
    assert why(running, 5)["findings"] == []
    why(program(f"{text}work(1)\ntime.sleep(600)\n"), 10, "ran-before")


def test_a_function_of_which_a_cache_returns_the_result(program, tmp_path):
    running = program(
        "import functools, time\n\n\n@functools.cache\ndef f(n):\n    return n\n\n\nf(1)\nopen('kept', 'w').close()\nwhile True:\n    f(1)\n    time.sleep(0.02)\n"
    )
    with running.debugged() as debugger:
        debugger.wait_session(lambda each: each.pid not in (None, running.process.pid), "the program")
        wait_for((tmp_path / "kept").exists, bool)  # a breakpoint before that stops the first call
        debugger.set_breakpoints(running.script, [6])
        why(running, 6, "cached")


def test_a_test_that_pytest_has_not_run(program, tmp_path):
    text = "import time\n\n\ndef test_now():\n    while True:\n        time.sleep(0.02)\n\n\ndef test_later():\n    x = 1\n    assert x\n"
    (tmp_path / "test_it.py").write_text(text)
    running = program("import pytest\npytest.main(['-q', '-p', 'no:cacheprovider', 'test_it.py'])\n")
    why(running, 10, "never-reached", file="test_it.py")


def test_a_deep_recursion_is_read_once_for_each_of_its_functions(tmp_path, monkeypatch):
    path, read, true = tmp_path / "deep.py", [], dis.get_instructions
    path.write_text("def walk(n, do):\n    x = n\n    return walk(n - 1, do) if n else do()\n")
    space = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    monkeypatch.setattr(dis, "get_instructions", lambda code: read.append(code) or true(code))
    space["walk"](300, lambda: line_of_module.describe(str(path), 2, is_asked=True))
    assert len(read) == len({id(code) for code in read})


def test_a_process_that_a_signal_has_stopped_is_told_with_what_continues_it(program):
    running = program(LOOP)
    running.wait_state("running")
    pid = wait_for(lambda: running.record()["processes"], bool)[0]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        [found] = why(running, line(LOOP, "loss = n + 1"), "silent", fact="session")["findings"]
    finally:
        os.kill(pid, signal.SIGCONT)
    assert ("SIGSTOP" in found["says"], found["remedy"].startswith(f"kill -CONT {pid}")) == (True, True)


def test_a_process_that_has_ended_before_its_answer_is_told_apart_from_a_silent_one():
    with subprocess.Popen(["sleep", "600"]) as child:
        assert not line_of_session._process({"pid": child.pid}, "", ())["ended"]
        child.kill()
        wait_for(lambda: line_of_session._process({"pid": child.pid}, "", ())["ended"], bool)


def test_a_program_that_has_become_another_one_or_has_ended(program):
    why(program("import os\n\nos.execv('/bin/sleep', ['sleep', '600'])\n"), 1, "no-process", fact="")
    why(program("print(1)\n", env={"DKDBG_LINGER": "600"}), 1, "program-ended", fact="")
