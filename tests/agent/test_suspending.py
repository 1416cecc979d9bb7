"""Threads that come to breakpoints at the same time, as data loaders and servers do."""

import pytest

from tests.agent.dap_probe import Editor

#: Threads, and how often each of them comes to the breakpoint.
THREADS, ROUNDS = 8, 6
CODE = f"""
import threading

def work(n):
    for _ in range({ROUNDS}):
        n += 1
    return n

threads = [threading.Thread(target=work, args=(n,)) for n in range({THREADS})]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("all")
"""


@pytest.mark.parametrize("minor", [8, 13])
def test_threads_at_a_breakpoint_at_the_same_time_all_go_on(program, under, minor):
    running = program(CODE, wait="300", **under(minor))
    with Editor(running.port, {running.script: [6, 7]}) as editor:
        running.ends(0, "all\n")
    # A thread that an answer to another stop has let go shows where it is by now.
    assert {stop["line"] for stop in editor.stops} >= {6, 7}


def test_continue_is_answered_where_nothing_is_held_and_the_next_request_too(program, tmp_path):
    """Who presses the key twice; debugpy's adapter handles no request before that one has an answer."""
    running = program(
        "import os, time\nx = 1\nwhile not os.path.exists('stop'):\n    time.sleep(0.01)\n", wait="300"
    )
    with Editor(running.port, {running.script: [2]}, hold=True) as editor:
        stop = editor.wait_stops(1)[0]
        for _ in range(2):
            stop["session"].wait(stop["session"].send("continue", threadId=stop["thread"]), timeout=300)
        stop["session"].wait(stop["session"].send("threads"), timeout=300)
        (tmp_path / "stop").touch()
        running.ends()


@pytest.mark.parametrize(
    ("command", "arguments", "says"),
    [
        ("loadedSources", {}, "does not implement loadedSources"),
        ("restartFrame", {"frameId": 1}, "does not implement restartFrame"),
        ("dkdbgUnknown", {}, "dkdbgUnknown"),
        ("setBreakpoints", {"source": {}}, "NoneType"),
    ],
)
def test_a_request_that_pydevd_does_not_answer_is_refused_and_the_next_one_answered(
    program, command, arguments, says
):
    running = program("x = 1\n", wait="300")
    with Editor(running.port, {running.script: [1]}, hold=True) as editor:
        stop = editor.wait_stops(1)[0]
        session = stop["session"]
        with pytest.raises(AssertionError, match=says):
            session.request(command, **arguments)
        session.request("threads")
        stop.go_on()
        running.ends(0, "")


BIG = """\
class Big:
    def __init__(self, n):
        for i in range(n):
            setattr(self, "attribute_%d" % i, i)
wide, text = Big(200_000), "x" * 20_000_000
raise ValueError(text)
"""


def test_an_answer_that_is_too_long_for_debugpy_is_cut_or_refused_and_the_next_one_answered(program):
    running = program(BIG, wait="300")
    with Editor(running.port, {running.script: [6]}, hold=True, filters=("uncaught",)) as editor:
        stop = editor.wait_stops(1)[0]
        session, frame = stop["session"], stop["frame"]
        text = session.request("evaluate", expression="text", frameId=frame, context="clipboard")["result"]
        assert text.endswith("x... (20000002 characters)")
        wide = session.request("evaluate", expression="wide", frameId=frame)["variablesReference"]
        with pytest.raises(AssertionError, match="debugpy reads at most 16777215"):
            session.request("variables", variablesReference=wide)
        stop.go_on()
        at_exception = editor.wait_stops(2)[1]
        info = at_exception["session"].request("exceptionInfo", threadId=at_exception["thread"])
        assert info["exceptionId"] == "ValueError"
        at_exception.go_on()
        running.ends(1)
