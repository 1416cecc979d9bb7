"""The debugger against the real debugpy."""

import json
import os
import select
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions, Breakpoint
from dkdbg.errors import EXIT_TIMEOUT, DkdbgError

LOOP = """\
def work(step, scale):
    value = step * scale
    return value

total = 0
for step in range(4):
    total += work(step, 10)
print("total", total, flush=True)
"""

PARENT = """\
import subprocess, sys
code = subprocess.call([sys.executable, {child!r}, "7"])
print("child said", code, flush=True)
"""

CHILD = """\
import sys
number = int(sys.argv[1])
sys.exit(number)
"""


class Programs:
    """Starts scripts under `python -m debugpy --listen`, and ends them after the test."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.started: list[subprocess.Popen] = []

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def listen(self, script, *, wait=True):
        """Start `script` and return the port of its adapter, which is never connected to only to look."""
        # The adapter writes its ports when it listens. A FIFO lets us wait for that without asking again and again.
        endpoints = self.folder / f"endpoints-{len(self.started)}"
        os.mkfifo(endpoints)
        descriptor = os.open(endpoints, os.O_RDONLY | os.O_NONBLOCK)
        wait_option = ["--wait-for-client"] if wait else []
        self.started.append(
            subprocess.Popen(
                [
                    sys.executable,
                    "-Xfrozen_modules=off",
                    "-m",
                    "debugpy",
                    "--listen",
                    "127.0.0.1:0",
                    *wait_option,
                    script,
                ],
                env={**os.environ, "DEBUGPY_ADAPTER_ENDPOINTS": str(endpoints)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        )
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            assert poll.poll(20_000), "debugpy's adapter did not come up"
            return json.loads(os.read(descriptor, 4096))["client"]["port"]
        finally:
            os.close(descriptor)

    def end(self):
        for program in self.started:
            program.kill()
            program.communicate()


@pytest.fixture
def programs(tmp_path):
    started = Programs(tmp_path)
    yield started
    started.end()


@contextmanager
def debugging(programs, name="loop.py", text=LOOP, **options):
    """A program that waits for a client, and a debugger that may attach to it."""
    script = programs.write(name, text)
    with Debugger(AttachOptions(port=programs.listen(script), **options)) as debugger:
        yield script, debugger


def test_it_stops_shows_variables_evaluates_and_steps(programs):
    with debugging(programs) as (script, debugger):
        debugger.set_breakpoints(str(script), [Breakpoint(line=2, condition="step == 2")])
        root = debugger.attach()
        stop = debugger.wait_stopped()
        assert (stop.session, stop.reason) == (root, "breakpoint")
        frames = debugger.stack(stop)
        assert [(frame.name, frame.line, frame.path) for frame in frames[:2]] == [
            ("work", 2, str(script)),
            ("<module>", 7, str(script)),
        ]
        assert debugger.local_values(frames[0]) == {"step": "2", "scale": "10"}
        assert debugger.evaluate("step + scale", frames[0]) == "12"
        with pytest.raises(DkdbgError, match="NameError"):
            debugger.evaluate("nothing", frames[0])
        debugger.next(stop)
        stop = debugger.wait_stopped()
        assert (stop.reason, debugger.stack(stop)[0].line) == ("step", 3)
        debugger.step_out(stop)
        stop = debugger.wait_stopped()
        assert debugger.stack(stop)[0].name == "<module>"
        debugger.continue_(stop)
        debugger.wait_ended()
        assert root.exit_code in (0, None)


def test_a_session_that_has_ended_is_closed(programs):
    with debugging(programs) as (_, debugger):
        root = debugger.attach()
        debugger.wait_ended()
        debugger.wait(lambda: root._sock.fileno() < 0, "the end of the connection")
        assert "terminated" in root._seen


def test_step_in_goes_into_the_call(programs):
    with debugging(programs) as (script, debugger):
        debugger.set_breakpoints(str(script), [7])
        debugger.attach()
        stop = debugger.wait_stopped()
        debugger.step_in(stop)
        assert debugger.stack(debugger.wait_stopped())[0].name == "work"


@pytest.mark.parametrize("start_debugging", [True, False])
def test_a_child_process_joins_and_stops_at_its_breakpoint(programs, start_debugging):
    child = programs.write("child.py", CHILD)
    script = programs.write("parent.py", PARENT.format(child=str(child)))
    options = AttachOptions(port=programs.listen(script), start_debugging=start_debugging)
    with Debugger(options) as debugger:
        debugger.set_breakpoints(str(child), [3])
        root = debugger.attach()
        stop = debugger.wait_stopped()
        assert stop.session is not root
        assert debugger.local_values(debugger.stack(stop)[0])["number"] == "7"
        assert stop.session is debugger.wait_session(
            lambda session: session.pid not in (None, root.pid), "the child"
        )
        debugger.continue_(stop)
        debugger.wait_ended(session=stop.session)
        debugger.wait_ended()


def test_breakpoints_set_later_reach_every_session_and_say_where_they_are(programs):
    with debugging(programs) as (script, debugger):
        debugger.set_breakpoints(str(script), [2])
        debugger.attach()
        stop = debugger.wait_stopped()
        results = debugger.set_breakpoints(str(script), [8])
        assert [(each.line, each.is_verified) for each in results] == [(8, True)]
        debugger.continue_(stop)
        stop = debugger.wait_stopped()
        assert debugger.stack(stop)[0].line == 8
        assert debugger.evaluate("total", debugger.stack(stop)[0]) == "60"


def test_local_paths_are_mapped_to_the_programs_own(programs, tmp_path):
    with debugging(programs, path_mappings=(("/my/checkout", str(tmp_path)),)) as (_, debugger):
        debugger.set_breakpoints("/my/checkout/loop.py", [2])
        debugger.attach()
        assert debugger.stack(debugger.wait_stopped())[0].path == "/my/checkout/loop.py"


def test_output_is_collected(programs):
    with debugging(programs, redirect_output=True) as (_, debugger):
        debugger.attach()
        debugger.wait_output("total 60\n")
        assert any(each.category == "stdout" for each in debugger.output)


def test_an_uncaught_exception_stops(programs):
    with debugging(programs, "fail.py", "def f():\n    return 1 / 0\nf()\n") as (_, debugger):
        debugger.set_exception_filters(["uncaught"])
        debugger.attach()
        stop = debugger.wait_stopped()
        assert (stop.reason, debugger.stack(stop)[0].line) == ("exception", 2)
        assert "ZeroDivisionError" in stop.text


def test_a_stop_that_does_not_come_is_a_time_out_that_names_who_is_attached(programs):
    with debugging(programs, "wait.py", "import threading; threading.Event().wait()") as (_, debugger):
        debugger.attach()
        with pytest.raises(DkdbgError, match=r"waited 0\.05 s for a stop; attached: debugger") as caught:
            debugger.wait_stopped(0.05)
        assert caught.value.exit_code == EXIT_TIMEOUT


def test_the_end_of_the_program_ends_the_wait_for_a_stop(programs):
    with debugging(programs, "pass.py", "pass") as (_, debugger):
        debugger.attach()
        with pytest.raises(DkdbgError, match="no program is left while waiting for a stop"):
            debugger.wait_stopped()


@pytest.mark.parametrize("terminate", [False, True])
def test_disconnect_lets_the_program_run_on_and_terminate_ends_it(programs, terminate):
    script = programs.write("loop.py", LOOP)
    debugger = Debugger(AttachOptions(port=programs.listen(script)))
    debugger.set_breakpoints(str(script), [2])
    debugger.attach()
    debugger.wait_stopped()
    debugger.disconnect(terminate=terminate)
    out, _ = programs.started[0].communicate(timeout=300)
    assert (b"total 60" in out, b"total" in out) == (not terminate, not terminate)


def test_a_second_debugger_is_refused_and_told_why(programs):
    script = programs.write("loop.py", LOOP)
    options = AttachOptions(port=programs.listen(script))
    with Debugger(options) as first, Debugger(options) as second:
        first.set_breakpoints(str(script), [2])
        first.attach()
        first.wait_stopped()
        with pytest.raises(DkdbgError, match="refused attach"):
            second.attach(timeout=5)
