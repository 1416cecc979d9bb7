"""The debugger against a real agent: what it shows, evaluates and steps through, and what it says of an attach or a wait that fails."""

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


@pytest.mark.parametrize("start_debugging", [True, False])
def test_it_stops_shows_variables_evaluates_steps_and_collects_the_output_of_a_program_with_mapped_paths(
    program, tmp_path, start_debugging
):
    here = "/my/checkout/train.py"
    options = AttachOptions(
        port=program(LOOP, wait="300").port, path_mappings=(("/my/checkout", str(tmp_path)),), start_debugging=start_debugging,
        extra={"redirectOutput": True},
    )  # fmt: skip
    with Debugger(options) as debugger:
        debugger.set_breakpoints(here, [Breakpoint(line=2, condition="step == 2")])
        root = debugger.attach()
        stop = debugger.wait_stopped()
        assert (stop.session.name, stop.reason) == ("train.py", "breakpoint")
        frames = debugger.stack(stop)
        assert [(frame.name, frame.line, frame.path) for frame in frames[:2]] == [
            ("work", 2, here),
            ("<module>", 7, here),
        ]
        assert debugger.local_values(frames[0]) == {"step": "2", "scale": "10"}
        assert debugger.evaluate("step + scale", frames[0]) == "12"
        with pytest.raises(DkdbgError, match="NameError"):
            debugger.evaluate("nothing", frames[0])
        stop.session.request("next", {"threadId": stop.thread_id})
        stop = debugger.wait_stopped()
        assert (stop.reason, debugger.stack(stop)[0].line) == ("step", 3)
        stop.session.request("stepOut", {"threadId": stop.thread_id})
        stop = debugger.wait_stopped()
        assert debugger.stack(stop)[0].name == "<module>"
        debugger.set_breakpoints(here, [7])
        debugger.continue_(stop)
        stop = debugger.wait_stopped()
        stop.session.request("stepIn", {"threadId": stop.thread_id})
        stop = debugger.wait_stopped()
        assert debugger.stack(stop)[0].name == "work"
        results = debugger.set_breakpoints(here, [8])
        assert (8, True) in [(each.line, each.is_verified) for each in results]
        debugger.continue_(stop)
        stop = debugger.wait_stopped()
        assert debugger.stack(stop)[0].line == 8
        assert debugger.evaluate("total", debugger.stack(stop)[0]) == "60"
        debugger.continue_(stop)
        debugger.wait_output("total 60\n")
        assert any(each.category == "stdout" for each in debugger.output)
        debugger.wait_ended()
        assert root.exit_code == 0
        debugger.wait(lambda: root._sock.fileno() < 0, "the end of the connection")
        assert "terminated" in root._seen


def test_an_attach_that_is_refused_and_a_stop_that_comes_too_late_are_errors(program):
    port = program("import time\ntime.sleep(600)\n", env={"DKDBG_TOKEN": "right"}).port
    with Debugger(AttachOptions(port=port)) as debugger, pytest.raises(DkdbgError, match="refused attach"):
        debugger.attach()
    with Debugger(AttachOptions(port=port, extra={"dkdbgToken": "right"})) as debugger:
        debugger.attach()
        with pytest.raises(DkdbgError, match=r"waited 0\.05 s for a stop; attached: debugger") as caught:
            debugger.wait_stopped(0.05)
    assert caught.value.exit_code == EXIT_TIMEOUT
