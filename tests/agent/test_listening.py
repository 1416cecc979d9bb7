"""A program that calls `debugpy.listen()` itself: with an editor attached, and before one comes."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

from dkdbg.agent.state import procfs
from tests.agent.dap_probe import Client, Editor, wait_for
from tests.ports import free_port

ATTACHED = """import debugpy, sys
print(debugpy.is_client_connected())
print(debugpy.listen(('0.0.0.0', int(sys.argv[1]))))
try:
    debugpy.listen(int(sys.argv[1]))
except RuntimeError as error:
    print(error)
debugpy.wait_for_client()
debugpy.breakpoint()
print('on')
open('arrived', 'w').close()
import os, time
while not os.path.exists('stop'):
    time.sleep(0.01)
"""

BEFORE = """import debugpy, os, sys, time
debugpy.listen(('127.0.0.1', int(sys.argv[1])))
print('up', flush=True)
while not os.path.exists('stop'):
    time.sleep(0.01)
"""


def adapters(port: int) -> list[int]:
    wanted, found = b"--port\0%d\0" % port, []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended while we looked
            if wanted in entry.read_bytes():
                found.append(int(entry.parent.name))
    return found


@pytest.mark.parametrize("minor", [8, 13])
def test_a_program_that_listens_while_it_is_debugged_gets_the_agents_endpoint(
    program, under, tmp_path, minor
):
    own = free_port()
    running = program(ATTACHED, str(own), wait="300", **under(minor))
    port = running.port
    with Editor(port, {}) as editor:
        stop = editor.wait_stops(1)[0]
        wait_for((tmp_path / "arrived").exists, bool)
        assert own not in (procfs.listening_ports() or set())
        assert adapters(own) == []
        (tmp_path / "stop").touch()
        code, out, err = running.finish()
    assert stop["line"] == 10
    words = f"('127.0.0.1', {port})\ndebugpy.listen() has already been called on this process"
    assert (code, out) == (0, f"True\n{words}\non\n")
    said = f"debugpy.listen(('0.0.0.0', {own})) opens no port: dkdbg debugs this process, attach on 127.0.0.1:{port}"
    assert f"dkdbg: {said}\n" in err


def test_who_holds_a_program_that_listened_before_the_editor_came_is_said(program, tmp_path):
    own = free_port()
    running = program(BEFORE, str(own))
    script = running.script
    assert running.process.stdout.readline() == b"up\n"
    try:
        with Editor(running.port, {script: [5]}):
            said = wait_for(
                running.process.stderr.readline, lambda line: b"cannot be debugged" in line
            ).decode()
            assert (
                f"not joined: the program called debugpy.listen() on 127.0.0.1:{own}: attach there, "
                "or remove that call" in said
            )
            found = wait_for(lambda: running.record()["processes"], bool)
            assert [each["joined"] for each in found] == [False]
            with Client(own) as beside:  # as the line says
                beside.session.send("attach", justMyCode=True)
                beside.event("initialized")
                beside.session.request("setBreakpoints", source={"path": script}, breakpoints=[{"line": 5}])
                beside.session.request("configurationDone")
                assert beside.event("stopped")["reason"] == "breakpoint"
        (tmp_path / "stop").touch()
        running.ends()
    finally:
        for pid in adapters(own):
            with contextlib.suppress(ProcessLookupError):  # it ends with its program
                os.kill(pid, signal.SIGKILL)
