"""`--on-crash hold=TIME`: a crash can be looked at, and changes nothing when nobody looks."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dkdbg.errors import DkdbgError
from tests.agent.dap_probe import Editor
from tests.commands import command
from tests.frameworks import python_with

CRASH = "def deep(a, b):\n    secret = a * 10\n    return secret / b\n\ndeep(4, 0)\n"


def own_lines(err: str) -> str:
    return "".join(line for line in err.splitlines(keepends=True) if not line.startswith("dkdbg: "))


def bare(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return command([sys.executable, "train.py", *words], folder, check=False)


#: Crashes in line 4 of a thread, of each kind of child, and of the program.
SEVERAL = """import multiprocessing, subprocess, sys, threading
def deep(a, b):
    secret = a * 10
    return secret / b

if __name__ == "__main__":
    if len(sys.argv) == 1:
        thread = threading.Thread(target=deep, args=(4, 0), name="loader")
        thread.start()
        thread.join()
        print("child", subprocess.call([sys.executable, __file__, "child"]), file=sys.stderr, flush=True)
        for method in ("fork", "spawn", "forkserver"):
            worker = multiprocessing.get_context(method).Process(target=deep, args=(4, 0), name="loader")
            worker.start()
            worker.join()
            print(method, worker.exitcode, file=sys.stderr, flush=True)
    deep(4, 0)
"""
CRASHES = 6


def test_each_crash_is_held_until_an_editor_has_seen_the_failing_frame(program, tmp_path):
    running = program(SEVERAL, options=("--on-crash", "hold=1m"))
    record = running.wait_state("post-mortem")
    assert record["detail"] == "post-mortem: train.py:4: ZeroDivisionError: division by zero"
    with Editor(record["port"], {}, hold=True) as editor:
        for number in range(1, CRASHES + 1):
            stop = editor.wait_stops(number)[-1]
            assert (stop["path"], stop["line"]) == (running.script, 4)
            assert stop["session"].variables(frame=stop["frame"])["secret"]["value"] == "40"
            stop.go_on()
        code, _, err = running.finish()
    plain = bare(tmp_path)
    assert (code, own_lines(err)) == (plain.returncode, plain.stderr)
    said = r"has crashed: train.py:4: ZeroDivisionError: division by zero; it is held for a debugger on 127\S+, for \d+ s\n"
    assert re.search(said, err)


@pytest.mark.parametrize("held", [0, 0.3])
def test_unattended_crashes_of_thread_children_and_program_leave_no_trace_of_dkdbg(launch, tmp_path, held):
    """The program's stderr is a file of its own: each byte of it is compared, and the agent's lines are elsewhere."""
    (tmp_path / "train.py").write_text(SEVERAL)

    def command(name):
        return ["sh", "-c", f"exec {sys.executable} train.py 2>{name}"]

    plain = subprocess.run(command("plain"), cwd=tmp_path, capture_output=True, check=False)
    begin = time.monotonic()
    env = {"DKDBG_ON_CRASH": f"hold={held}s"} if held else {}
    code, out, _ = launch(*command("under"), env=env).finish(300)
    assert time.monotonic() - begin > held * CRASHES
    assert (code, out.encode()) == (plain.returncode, plain.stdout)
    said = (tmp_path / "plain").read_bytes()
    assert (tmp_path / "under").read_bytes() == said
    assert said.count(b"ZeroDivisionError: division by zero") == CRASHES
    assert (b"forkserver 1\n" in said, plain.returncode) == (True, 1)


def test_an_attached_editor_stops_at_once_and_once(program):
    running = program(CRASH, wait="300", options=("--on-crash", "hold=1m"))
    with Editor(running.port, {}) as editor:
        stop = editor.wait_stops(1)[0]
        code, _, _ = running.finish()
    assert (stop["line"], code, len(editor.stops)) == (3, 1, 1)


#: A prompt records the exceptions of its lines where Python records those of the program; pytest does so too.
PROMPT = "import code; code.InteractiveConsole(globals()).push('1 / 0')"


@pytest.mark.parametrize(
    "ending", ["raise SystemExit(7)", "raise KeyboardInterrupt", "print('fine')", PROMPT]
)
def test_other_endings_are_left_alone(program, tmp_path, ending):
    code, out, err = program(ending + "\n", options=("--on-crash", "hold=1m")).finish()
    plain = bare(tmp_path)
    assert (code, out) == (
        plain.returncode if plain.returncode >= 0 else 128 - plain.returncode,
        plain.stdout,
    )
    assert own_lines(err) == plain.stderr


def test_the_programs_own_hook_runs_first(program, tmp_path):
    mine = tmp_path / "sitecustomize.py"
    mine.write_text("import sys\nsys.excepthook = lambda kind, value, trace: print('mine', value)\n")
    environment = {"DKDBG_ON_CRASH": "hold=60", "PYTHONPATH": str(tmp_path)}
    running = program("raise ValueError('x')\n", env=environment)
    record = running.wait_state("post-mortem")
    with Editor(record["port"], {}) as editor:
        editor.wait_stops(1)
        code, out, err = running.finish()
    assert (code, out, own_lines(err)) == (1, "mine x\n", "")


@pytest.mark.parametrize("chained", [False, True])
def test_a_program_that_sets_its_own_hook_later_is_held_once(program, chained):
    call = "former(kind, value, trace)" if chained else "print('mine', value)"
    running = program(
        "import sys\nformer = sys.excepthook\n"
        f"def mine(kind, value, trace):\n    {call}\nsys.excepthook = mine\nraise ValueError('x')\n",
        options=("--on-crash", "hold=1m"),
    )
    record = running.wait_state("post-mortem")
    with Editor(record["port"], {}) as editor:
        assert editor.wait_stops(1)[0]["line"] == 6
        code, out, _ = running.finish()
    assert (code, out, len(editor.stops)) == (1, "" if chained else "mine x\n", 1)


def test_a_program_finds_pythons_own_hook(program):
    """The backport of ExceptionGroup prints no sub-exceptions where it is another one."""
    text = "import sys\nprint(sys.excepthook is sys.__excepthook__)\n"
    program(text, options=("--on-crash", "hold=1m")).ends(0, "True\n")


POOL = """
import threading
from concurrent.futures import ThreadPoolExecutor

ThreadPoolExecutor().submit(threading.Event().wait, 3600)
raise ValueError("x")
"""


@pytest.mark.parametrize("minor", [8, 11, 13])
def test_a_crash_is_held_while_a_thread_of_a_pool_still_works(program, under, minor):
    running = program(POOL, options=("--on-crash", "hold=1m"), **under(minor))
    assert running.wait_state("post-mortem")["detail"] == "post-mortem: train.py:6: ValueError: x"


def test_only_the_arming_is_imported_before_a_crash(program):
    text = "import sys\nprint(sorted(m for m in sys.modules if 'dkdbg' in m or m == 'traceback'))\n"
    out = "['_dkdbg', '_dkdbg.crash_watch', '_dkdbg.standard', '_dkdbg_standard']\n"
    program(text, options=("--on-crash", "hold=1m")).ends(0, out)


DATA_LOADER = """
import torch
from torch.utils.data import DataLoader, Dataset

class Items(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        secret = i * 10
        return torch.tensor(1 / (2 - i))

for batch in DataLoader(Items(), num_workers=1):
    pass
"""


def test_the_crash_of_a_data_loaders_worker_is_held_in_the_worker(program):
    running = program(DATA_LOADER, python=python_with("torch"), options=("--on-crash", "hold=1m"))
    record = running.wait_state("post-mortem", timeout=300)
    assert record["detail"] == "post-mortem: train.py:10: ZeroDivisionError: division by zero"
    with Editor(record["port"], {}, hold=True) as editor:
        stop = editor.wait_stops(1)[0]
        assert stop["session"].variables(frame=stop["frame"])["secret"]["value"] == "20"
        stop.go_on()


UNCAUGHT = """
import sys

def step(divisor):
    return 1 / divisor

for divisor in (1, 0):
    step(divisor)
"""


@pytest.mark.parametrize("on_crash", [(), ("--on-crash", "hold=1m")])
def test_an_editors_filter_for_uncaught_exceptions_stops_a_program_that_waited_for_it(
    program, tmp_path, on_crash
):
    running = program(UNCAUGHT, options=("--wait", "300", *on_crash))
    with running.debugged(5, filters=["uncaught"]) as debugger:
        reasons = []
        while len(reasons) < 3:
            stop = debugger.wait_stopped()
            reasons.append((stop.reason, debugger.stack(stop)[0].line))
            if reasons == [("breakpoint", 5)]:
                debugger.set_breakpoints(running.script, [8])  # pydevd traces its frames anew
            elif stop.reason == "exception":
                assert debugger.local_values(debugger.stack(stop)[0])["divisor"] == "0"
            debugger.continue_(stop)
        with pytest.raises(DkdbgError, match="all programs ended"):  # it stops once
            debugger.wait_stopped()
    assert reasons == [("breakpoint", 5), ("breakpoint", 8), ("exception", 5)]
    code, _, err = running.finish()
    plain = bare(tmp_path)
    assert (code, own_lines(err)) == (plain.returncode, plain.stderr)
