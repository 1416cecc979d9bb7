"""The debugger against the real debugpy."""

import json
import os
import select
import subprocess
import sys

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

    def __init__(self, folder):
        self.folder = folder
        self.started = []

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def listen(self, script):
        """Start `script`, which waits for a client; return the port of its adapter, which is never connected to only to look."""
        # The adapter writes its ports when it listens. A FIFO lets us wait for that without asking again and again.
        endpoints = self.folder / f"endpoints-{len(self.started)}"
        os.mkfifo(endpoints)
        descriptor = os.open(endpoints, os.O_RDONLY | os.O_NONBLOCK)
        options = ["--listen", "127.0.0.1:0", "--wait-for-client"]
        self.started.append(
            subprocess.Popen(
                [sys.executable, "-Xfrozen_modules=off", "-m", "debugpy", *options, script],
                env={**os.environ, "DEBUGPY_ADAPTER_ENDPOINTS": str(endpoints)},
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )
        )  # fmt: skip
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            assert poll.poll(300_000), "debugpy's adapter did not come up"
            return json.loads(os.read(descriptor, 4096))["client"]["port"]
        finally:
            os.close(descriptor)

    def debugger(self, name="loop.py", text=LOOP, **options):
        """A debugger that may attach to a program of this text, and the program's script."""
        script = self.write(name, text)
        return script, Debugger(AttachOptions(port=self.listen(script), **options))


@pytest.fixture
def programs(tmp_path):
    started = Programs(tmp_path)
    yield started
    for program in started.started:
        program.kill()
        program.communicate()


def test_it_stops_shows_variables_evaluates_steps_and_collects_the_output_of_a_program_with_mapped_paths(
    programs, tmp_path
):
    here = "/my/checkout/loop.py"
    mapped = {"path_mappings": (("/my/checkout", str(tmp_path)),)}
    _, debugger = programs.debugger(redirect_output=True, **mapped)
    with debugger:
        debugger.set_breakpoints(here, [Breakpoint(line=2, condition="step == 2")])
        root = debugger.attach()
        stop = debugger.wait_stopped()
        assert (stop.session, stop.reason) == (root, "breakpoint")
        frames = debugger.stack(stop)
        assert [(frame.name, frame.line, frame.path) for frame in frames[:2]] == [
            ("work", 2, here),
            ("<module>", 7, here),
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
        debugger.set_breakpoints(here, [7])
        debugger.continue_(stop)
        debugger.step_in(debugger.wait_stopped())
        stop = debugger.wait_stopped()
        assert debugger.stack(stop)[0].name == "work"
        results = debugger.set_breakpoints(here, [8])
        assert [(each.line, each.is_verified) for each in results] == [(8, True)]
        debugger.continue_(stop)
        stop = debugger.wait_stopped()
        assert debugger.stack(stop)[0].line == 8
        assert debugger.evaluate("total", debugger.stack(stop)[0]) == "60"
        debugger.continue_(stop)
        debugger.wait_output("total 60\n")
        assert any(each.category == "stdout" for each in debugger.output)
        debugger.wait_ended()
        assert root.exit_code in (0, None)
        debugger.wait(lambda: root._sock.fileno() < 0, "the end of the connection")
        assert "terminated" in root._seen


@pytest.mark.parametrize("start_debugging", [True, False])
def test_a_child_process_joins_and_stops_at_its_breakpoint(programs, start_debugging):
    child = programs.write("child.py", CHILD)
    _, debugger = programs.debugger("parent.py", PARENT.format(child=child), start_debugging=start_debugging)
    with debugger:
        debugger.set_breakpoints(child, [3])
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


def test_an_uncaught_exception_stops_and_the_end_of_the_program_ends_the_wait_for_a_stop(programs):
    _, debugger = programs.debugger("fail.py", "def f():\n    return 1 / 0\nf()\n")
    with debugger:
        debugger.set_exception_filters(["uncaught"])
        debugger.attach()
        stop = debugger.wait_stopped()
        assert (stop.reason, debugger.stack(stop)[0].line) == ("exception", 2)
        assert "ZeroDivisionError" in stop.text
        debugger.continue_(stop)
        with pytest.raises(DkdbgError, match="all programs ended while waiting for a stop"):
            debugger.wait_stopped()


@pytest.mark.parametrize("terminate", [False, True])
def test_a_second_debugger_is_refused_a_late_stop_is_a_time_out_disconnect_lets_go_and_terminate_ends(
    programs, terminate
):
    script, first = programs.debugger()
    first.set_breakpoints(script, [2])
    first.attach()
    first.wait_stopped()
    with Debugger(first.options) as second, pytest.raises(DkdbgError, match="refused attach"):
        second.attach(timeout=5)
    with pytest.raises(DkdbgError, match=r"waited 0\.05 s for a stop; attached: debugger") as caught:
        first.wait_stopped(0.05)
    assert caught.value.exit_code == EXIT_TIMEOUT
    first.disconnect(terminate=terminate)
    out, _ = programs.started[0].communicate(timeout=300)
    assert (b"total 60" in out, b"total" in out) == (not terminate, not terminate)
