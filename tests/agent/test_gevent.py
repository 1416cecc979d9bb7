"""A program that lets gevent replace what threads wait on: it stops, and ends."""

import sys

import pytest

from tests.agent.dap_probe import Editor, wait_for
from tests.frameworks import python_with

PROGRAM = """import patches
import gevent, os
#

def work(n):
    gevent.sleep(0.01)
    return n + 1

gevent.joinall([gevent.spawn(work, n) for n in range(3)])
print("end", os.environ.get("GEVENT_SUPPORT"))
"""


@pytest.fixture
def start(program):
    return lambda text, wait="0", **env: program(text, wait=wait, python=python_with("greenlets"), env=env)


def test_each_greenlet_stops_and_the_program_ends(start, tmp_path):
    # In an import: gevent takes care of its lock only while it sees no second thread.
    (tmp_path / "patches.py").write_text("from gevent import monkey\nmonkey.patch_all()\n")
    running = start(PROGRAM, "300")
    with Editor(running.port, {running.script: [7]}) as editor:
        code, out, err = running.finish()
        assert [stop["line"] for stop in editor.wait_stops(3)] == [7, 7, 7]
    assert (code, out) == (0, "end None\n")
    assert "GEVENT_SUPPORT" not in err


SERVES = """from gevent import monkey
monkey.patch_all()
import gevent, os

def work(n):
    gevent.sleep(0.01)
    return n + 1

open("runs", "w").close()
while not os.path.exists("stop"):
    gevent.spawn(work, 1).join()
print("end")
"""


def test_a_running_program_is_attached_to_stops_and_ends(start, tmp_path):
    running = start(SERVES)
    wait_for((tmp_path / "runs").exists, bool)
    for _ in range(3):
        with Editor(running.port, {running.script: [7]}) as editor:
            assert editor.wait_stops(2)[1]["line"] == 7
    (tmp_path / "stop").touch()
    err = running.ends(0, "end\n")
    assert "Traceback" not in err


ENDS_MEANWHILE = """import _thread, sys, threading, time
text = '''
import gevent
'''
real, copies = threading, []
made, ending = _thread.allocate_lock(), _thread.allocate_lock()
made.acquire(), ending.acquire()

class Finder:
    def find_spec(self, name, path, target=None):
        copy = sys.modules.get("threading", real)
        if copy is not real and not copies and not copy.__spec__._initializing:
            copies.append(copy)
            copy._register_atexit(end)
            made.release()
            ending.acquire()  # the copy is in sys.modules for a moment only

def end():
    ending.release()
    while not any(thread.name.startswith("pydevd.") for thread in list(copies[0]._active.values())):
        time.sleep(0.01)

sys.meta_path.insert(0, Finder())
open("runs", "w").close()
made.acquire()
print("end")
"""


def test_a_program_that_ends_while_pydevd_copies_threading_ends(start, tmp_path):
    """Its main thread joined the copy's threads, which wait for it; seen in 1 of 20 late attaches on a busy machine."""
    running = start(ENDS_MEANWHILE)
    wait_for((tmp_path / "runs").exists, bool)
    with Editor(running.port, {}):
        running.ends(0, "end\n")


THREADS = """# Threads, or gevent.
import sys, threading
if "gevent" in sys.argv: import gevent
def work(x):
    y = x * 2
    return y
thread = threading.Thread(target=work, args=(1,))
thread.start()
thread.join()
print("end")
"""


PATCHES = """import time
def work(n):
    doubled = n * 2
    time.sleep(0.01)
    return doubled
def main():
    import gevent.monkey
    gevent.monkey.patch_all()
    gevent.joinall([gevent.spawn(work, n) for n in range(3)])
    print("end")
main()
"""


def test_a_program_whose_function_patches_stops_and_ends(start):
    running = start(PATCHES, "300")
    with Editor(running.port, {running.script: [3]}) as editor:
        editor.wait_stops(3)
        err = running.ends(0, "end\n")
    assert "GEVENT_SUPPORT" not in err


def test_a_breakpoint_stops_in_threads_of_a_program_that_only_mentions_gevent(start):
    running = start(THREADS, "300")
    with Editor(running.port, {running.script: [5]}) as editor:
        editor.wait_stops(1)
        running.ends(0, "end\n")


@pytest.mark.parametrize(
    ("name", "env"), [("'gevent'", {"GEVENT_SUPPORT": "False"}), ("'g' 'event'", {})],
    ids=["the user has said no", "a program that does not name it"],
)  # fmt: skip
def test_gevent_is_not_imported_for(start, tmp_path, name, env):
    running = start(
        f"import os, sys; print(os.environ.get('GEVENT_SUPPORT'), [m for m in sys.modules if {name} in m])",
        "300",
        **env,
    )
    with Editor(running.port, {str(tmp_path / "other.py"): [1]}):
        assert running.finish()[1] == f"{env.get('GEVENT_SUPPORT')} []\n"


def test_a_program_that_comes_through_a_pipe_is_not_read_before_python_does(launch, tmp_path):
    """To see whether it names gevent."""
    (tmp_path / "train.py").write_text("# no gevent\n" * 20_000 + "print('end')\n")
    (tmp_path / "pipe").symlink_to("/dev/stdin")
    lines = ("cat train.py | {} /dev/stdin", "{} /dev/stdin < train.py", "cat train.py | {} pipe")
    running = launch("sh", "-c", " && ".join(line.format(sys.executable) for line in lines), wait="300")
    with Editor(running.port, {}):
        running.ends(0, "end\n" * len(lines))
