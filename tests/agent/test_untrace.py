"""Once the editor has left, no thread is traced any more; the next editor stops in them all the same."""

import time

import pytest

from tests.agent.dap_probe import Client, Editor
from tests.pythons import need

PROGRAM = """import sys, threading, time

def work(name):
    while True:
        traced = sys.gettrace() is not None
        seen[name] = traced
        time.sleep(0.005)

def work_later(name):
    while True:
        seen[name] = sys.gettrace() is not None
        time.sleep(0.005)

seen = {}
for name in "ab":
    threading.Thread(target=work, args=(name,), daemon=True).start()
late = None
while True:
    seen["main"] = sys.gettrace() is not None
    if late is None and len(sys.argv) > 1 and __import__("os").path.exists(sys.argv[1]):
        late = threading.Thread(target=work_later, args=("late",), daemon=True)
        late.start()
    print(sorted(seen.items()), flush=True)
    time.sleep(0.005)
"""


def until(running, wanted: list[tuple[str, bool]]) -> None:
    end = time.monotonic() + 300
    line = b""
    while time.monotonic() < end:
        line = running.process.stdout.readline()
        if line.decode().strip() == str(wanted):
            return
    pytest.fail(f"{line.decode()!r}, not {wanted}")


@pytest.mark.parametrize("minor", [10, 14])
def test_every_thread_is_bare_after_the_detach_and_stops_for_the_next_editor(program, tmp_path, minor):
    mark = tmp_path / "mark"
    running = program(PROGRAM, str(mark), python=need(minor))
    threads = ["a", "b", "main"]
    for _ in range(2):
        with Editor(running.port, {running.script: [6, 20]}, hold=True) as editor:
            assert {stop["line"] for stop in editor.wait_stops(1)} <= {6, 20}
        until(running, [(name, False) for name in threads])
    mark.write_text("")  # a thread that starts while nobody is attached
    until(running, [(name, False) for name in sorted(["late", *threads])])
    with Editor(running.port, {running.script: [11]}, hold=True) as editor:
        assert editor.wait_stops(1)[0]["line"] == 11


ENTERING = """import os, sys, time

def work():
    n = 0
    print("in", flush=True)
    while True:
        n += 1
        time.sleep(0.005)

former = None
while not os.path.exists("enter"):
    traced = sys.gettrace() is not None
    if traced is not former:
        former = traced
        print("traced" if traced else "bare", flush=True)
    time.sleep(0.005)
work()
"""


@pytest.mark.parametrize("minor", [None, 10])
def test_a_function_entered_while_an_editor_comes_back_stops_too(program, tmp_path, minor):
    running = program(ENTERING, python=need(minor))
    port, source = running.port, {"path": running.script}
    assert running.process.stdout.readline() == b"bare\n"
    with Client(port).attach() as root:
        with root.child() as child:
            # In a line that does not run now.
            child.session.request("setBreakpoints", source=source, breakpoints=[{"line": 7}])
            assert running.process.stdout.readline() == b"traced\n"
        # The client may have left before the process has joined in full.
        assert running.process.stdout.readline() == b"bare\n"
        root.session.request("disconnect")
    running.wait_state("running")
    with Client(port).attach() as root, Client(port) as child:
        attach = child.session.send("attach", **root.child_arguments())
        child.event("initialized")
        child.session.request("setBreakpoints", source=source, breakpoints=[{"line": 7}])
        (tmp_path / "enter").touch()
        assert running.process.stdout.readline() == b"in\n"
        child.session.request("configurationDone")
        child.session.wait(attach)
        child.event("stopped")
