"""A program that makes warnings errors, or runs in development mode, hears of no warning of the agent's."""

import pytest

from tests.agent.dap_probe import Editor

CODE = """import os, subprocess, sys, threading
def work():
    print('thread')
thread = threading.Thread(target=work)
thread.start()
thread.join()
sys.stdout.flush()
if len(sys.argv) == 1:
    print(subprocess.call([sys.executable, *sys.orig_argv[1:-1], __file__, 'child']), flush=True)
print('end')
"""


@pytest.mark.parametrize(
    ("minor", "env"),
    [(11, {"PYTHONDEVMODE": "1"}), (11, {"PYTHONWARNINGS": "error"}), (13, {"PYTHONWARNINGS": "error"})],
)
def test_the_agent_warns_of_nothing(program, under, minor, env):
    running = program(CODE, wait="300", env=env, **under(minor))
    with Editor(running.port, {running.script: [3]}) as editor:
        editor.wait_stops(2)  # the child's too
        code, out, err = running.finish()
    assert (code, sorted(out.split())) == (0, ["0", "end", "end", "thread", "thread"])
    assert [line for line in err.splitlines() if not line.startswith("dkdbg: ")] == []


FORKING = """import os, sys, threading, warnings
stop = threading.Event()
if sys.argv[1:]:
    threading.Thread(target=stop.wait).start()
def work():
    return 1
work()
for action in ('default', 'always'):
    warnings.simplefilter(action)
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
stop.set()
"""


@pytest.mark.parametrize("minor", [12, 13, 14])
@pytest.mark.parametrize("words", [(), ("threaded",)], ids=["alone", "with a thread of the program"])
def test_a_fork_warns_of_threads_of_the_program_only(program, under, minor, words):
    running = program(FORKING, *words, wait="300", **under(minor))
    with Editor(running.port, {running.script: [6]}) as editor:
        editor.wait_stops(1)
        code, _, err = running.finish()
    assert (code, "use of fork() may lead to deadlocks" in err) == (0, bool(words))


@pytest.mark.parametrize("minor", [12, 13, 14])
def test_a_fork_without_an_editor_warns_of_no_thread(program, under, minor):
    running = program(FORKING, wait="0", **under(minor))
    code, _, err = running.finish()
    assert (code, "use of fork() may lead to deadlocks" in err) == (0, False)
