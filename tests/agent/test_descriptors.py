"""A program that closes descriptors it has not opened, and uses their numbers itself, is what it is without the hook."""

# ruff: noqa: PLW1510

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dkdbg.agent.inprocess import own_socket
from dkdbg.agent.state import processes
from tests.agent.dap_probe import Editor, wait_for
from tests.pythons import need

HOOK = Path(processes.__file__).parents[1] / "inprocess" / "hook"

#: Writes into files of its own, before and after a fork; argv: the first number, up to which one is closed.
FILES = """import os, sys
first, last = map(int, sys.argv[1:])
os.closerange(3, last)
numbers = []
for n in range(40):
    number = os.open("own%d" % n, os.O_RDWR | os.O_CREAT)
    if first + n != number and first > 3:
        os.dup2(number, first + n)
        os.close(number)
        number = first + n
    numbers.append(number)
for _ in range(3):
    pid = os.fork()
    for number in numbers:
        os.write(number, b"child\\n" if pid == 0 else b"parent\\n")
    if pid == 0:
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
print([os.fstat(number).st_size for number in numbers])
"""

#: Listens on a Unix socket under each of these numbers: nobody connects to it but its own client.
LISTENERS = """import os, socket, sys
first, last = map(int, sys.argv[1:])
os.closerange(3, last)
made = []
for n in range(20):
    one = socket.socket(socket.AF_UNIX)
    if first > 3:
        os.dup2(one.fileno(), first + n)
        one.close()
        one = socket.socket(fileno=first + n)
    one.bind("own%d" % n)
    one.listen(4)
    one.setblocking(False)
    made.append(one)
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
for one in made:
    try:
        print("somebody", one.accept()[0].recv(64))
    except BlockingIOError:
        pass
print(len(made))
"""


def _run(folder: Path, code: str, arguments: list[str], session: Path | None) -> tuple[int, str, str]:
    folder.mkdir()
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "DKDBG"))}
    if session is not None:
        environment |= {"PYTHONPATH": str(HOOK), "DKDBG_SESSION_DIR": str(session), "DKDBG_DEBUG": "1"}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


#: Opens and forks, and says which numbers it got.
NUMBERS = "import os; print(os.open('/dev/null', 0)); os.fork() or os._exit(0); os.wait(); print(os.open('/dev/null', 0))"


@pytest.mark.parametrize(
    ("code", "first", "last"),
    [(NUMBERS, 0, 0)]
    + [
        (code, first, last)
        for code in (FILES, LISTENERS)
        for first, last in ((3, 256), (3, 4096), (own_socket.LOWEST, 4096))
    ],
)
def test_descriptors_that_a_program_took_over_are_left_to_it_under_the_numbers_that_it_has_without_the_hook(
    tmp_path, session, code, first, last
):
    numbers = [str(first), str(last)]
    assert _run(tmp_path / "hooked", code, numbers, session) == _run(tmp_path / "bare", code, numbers, None)


def test_a_process_that_closed_everything_can_still_be_asked(session):
    environment = dict(os.environ, PYTHONPATH=str(HOOK), DKDBG_SESSION_DIR=str(session))
    code = "import os; os.closerange(3, 4096); own = open('/dev/null'); print('up', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        path = str(session / "p" / f"{child.pid}.sock")
        for _ in range(3):
            answer = wait_for(lambda: processes.ask(path, "join"), bool)
            assert answer == "no editor is attached"
        child.communicate(b"\n", timeout=300)


CLOSING = """import os, time
n = 0
while not os.path.exists("stop"):
    n += 1
    if os.path.exists("close"):
        os.rename("close", "closed")
        os.closerange(3, 4096)
    time.sleep(0.02)
print("end")
"""


def test_a_program_that_closes_the_debuggers_connection_goes_on_and_is_debugged_anew(program, tmp_path):
    running = program(CLOSING)
    source = {"path": running.script}
    with Editor(running.port, {running.script: [7]}) as editor:
        wait_for(lambda: len(editor.sessions), (2).__eq__)
        pid = next(pid for pid in editor.sessions if pid)
        first = editor.sessions[pid]
        wait_for(lambda: "process" in first.seen, bool)
        (tmp_path / "close").touch()
        wait_for(lambda: first.closed, bool)  # the end of its session is seen by the editor
        wait_for(lambda: editor.sessions[pid] is not first, bool)
        again = editor.sessions[pid]
        wait_for(lambda: "process" in again.seen, bool)
        again.request("setBreakpoints", source=source, breakpoints=[{"line": 4}])
        wait_for(lambda: [stop["session"] for stop in list(editor.stops)], lambda found: again in found)
        again.request("setBreakpoints", source=source, breakpoints=[])
        (tmp_path / "stop").touch()
        err = running.ends(0, "end\n")
    assert f"dkdbg: pid {pid} closed the debugger's connection" in err
    assert "no breakpoint stops until it has joined again" in err


def test_a_program_that_is_to_stop_after_closing_the_connection_does_not_hang(program):
    running = program(
        "import os, time\nos.closerange(3, 4096)\nx = 1\nown = open('own', 'w')\n"
        "own.write('mine')\nown.close()\nprint(open('own').read())\n",
        wait="300",
    )
    with Editor(running.port, {running.script: [3]}, hold=True):
        running.ends(0, "mine\n")


ENDED_EARLY = """import debugpy
from debugpy.server import api
import pydevd
from dkdbg.agent.inprocess.pydevd_patches import connection
class Full:
    def empty(self): return False
connection.watch()
debugger = pydevd.PyDB()
debugger.writer = Full()  # what its thread has not sent when the connection is lost
debugger.dispose_and_kill_all_pydevd_threads(wait=False, timeout=0)
pydevd.CheckAliveThread(debugger).start()  # is to run only now
print("end")
"""


def test_a_program_ends_whose_connection_was_lost_before_all_threads_of_the_debugger_ran(tmp_path, session):
    assert _run(tmp_path / "hooked", ENDED_EARLY, [], session)[:2] == (0, "end\n")


@pytest.mark.parametrize(
    ("limits", "is_debugged"),
    [("ulimit -n 6", False), ("ulimit -n 16", True), ("ulimit -Sn 6; ulimit -n 64", True)],
)
def test_a_program_that_may_open_few_files_keeps_them_and_the_editor_is_told_what_limit_helps(
    launch, tmp_path, limits, is_debugged
):
    script = tmp_path / "train.py"
    script.write_text("import os, time\nwhile not os.path.exists('stop'):\n    time.sleep(0.02)\n")
    python = need(13)
    running = launch("sh", "-c", f"{limits}; exec {python} train.py", wait="300", python=python)
    with Editor(running.port, {str(script): [3]}) as editor:
        if is_debugged:
            editor.wait_stops(1)
        else:
            editor.wait_output("raise the limit, `ulimit -n 64`")
        (tmp_path / "stop").touch()
        running.ends()
