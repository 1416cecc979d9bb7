"""A program that lets eventlet replace the threads and locks that a debugger needs: it runs on undebugged, and ends."""

import pytest

from tests.agent.dap_probe import Editor, wait_for
from tests.frameworks import python_with

PROGRAM = """import os
import eventlet
eventlet.monkey_patch({})
import threading, time

def work():
    print("in a thread", flush=True)

open("runs", "w").close()
while os.path.exists("wait"):
    time.sleep(0.02)
for pid in (os.fork(), 1):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if not pid:
        os._exit(0)
    pid > 1 and os.waitpid(pid, 0)
print([eventlet.spawn(len, "abc").wait()])
"""
OUT = "in a thread\n" * 3 + "[3]\n"


@pytest.fixture
def start(program):
    env = {"PYTHONWARNINGS": "ignore"}
    return lambda patches="", wait="0": program(
        PROGRAM.format(patches), wait=wait, python=python_with("greenlets"), env=env
    )


def test_the_debugger_leaves_before_threads_are_replaced_and_says_so(start):
    running = start(wait="300")
    with Editor(running.port, {running.script: [2, 7]}) as editor:
        err = running.ends(0, OUT)
        told = "".join(editor.output)
    assert {stop["line"] for stop in editor.stops} == {2}
    for text in (told, err):
        assert "the debugger leaves pid" in text
        assert "eventlet.monkey_patch(thread=False)" in text
    assert "Traceback" not in err


def test_a_running_program_cannot_be_attached_to_and_the_reason_is_told(start, tmp_path):
    (tmp_path / "wait").touch()
    running = start()
    wait_for((tmp_path / "runs").exists, bool)
    with Editor(running.port, {running.script: [7]}) as editor:
        editor.wait_output("cannot be debugged: not joined: eventlet")
        (tmp_path / "wait").unlink()
        err = running.ends(0, OUT)
    assert editor.stops == []
    assert "Traceback" not in err


@pytest.mark.parametrize("patches", ["thread=False", "socket=True"])
def test_a_program_that_keeps_its_threads_stops(start, patches):
    running = start(patches, "300")
    with Editor(running.port, {running.script: [7]}) as editor:
        running.ends(0, OUT)
    assert {stop["line"] for stop in editor.stops} == {7}
