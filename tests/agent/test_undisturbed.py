"""Programs that do something unusual: under dkdbg they run to the end that they have without it."""

import os
import subprocess
import sys

import pytest

from tests.agent.dap_probe import Editor
from tests.agent.test_hook import HOOK
from tests.pythons import need

SUBINTERPRETER = """
try:
    import _interpreters as made
except ImportError:
    import _xxsubinterpreters as made
made.destroy(made.create())
print("end")
"""
#: Respawns a child in the handler of its end, as a supervisor does, while the hook starts its thread again.
HANDLER_FORKS = """
import os, signal, time
made = []
def spawn():
    made.append(1)
    if len(made) < 400 and os.fork() == 0:
        os._exit(0)
def reap(*_):
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            spawn()
    except ChildProcessError:
        pass
signal.signal(signal.SIGCHLD, reap)
signal.alarm(60)
for _ in range(4):
    spawn()
while len(made) < 400:
    time.sleep(0.01)
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
print("end")
"""
#: As on a machine that allows no further thread for a moment.
NO_THREAD = """
import os, threading, time
def fork():
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return time.monotonic() - began
former = threading.stack_size(1 << 46)
fork()
threading.stack_size(former)
fork()
print("end" if fork() < 0.9 else "slow")
"""
#: Makes a module that is imported at the first use.
LAZY = """
import importlib.util
open("{name}.py", "w").write("{text}\\n")
sys.path.insert(0, "")
spec = importlib.util.find_spec("{name}")
spec.loader = importlib.util.LazyLoader(spec.loader)
sys.modules["{name}"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["{name}"])
"""
RAISING_ANSWER = (
    """
import os, socket, sys
"""
    + LAZY.format(name="broken", text="import not_installed")
    + """
ask = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
ask.connect(os.environ["DKDBG_SESSION_DIR"] + "/p/%d.sock" % os.getpid())
for question in (b"line x", b"changed", b"changed"):
    here, there = socket.socketpair()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, there.fileno().to_bytes(4, sys.byteorder))]
    ask.sendmsg([question], rights)
    there.close()
    here.settimeout(60)
    answer = here.recv(100)
print("end", answer[:1] == b"[")
"""
)


@pytest.mark.parametrize("minor", [8, 12, 13])
@pytest.mark.parametrize(
    ("program", "end"),
    [(SUBINTERPRETER, "end\n"), (HANDLER_FORKS, "end\n"), (NO_THREAD, "end\n"), (RAISING_ANSWER, "end True\n")],
    ids=["subinterpreter", "fork in a signal's handler", "no thread", "answer that raises"],
)  # fmt: skip
def test_without_an_editor_it_ends_well(session, tmp_path, program, end, minor):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "DKDBG"))}
    environment |= {"PYTHONPATH": str(HOOK), "DKDBG_SESSION_DIR": str(session)}
    done = subprocess.run(
        [need(minor), "-W", "ignore", "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, end, "")


#: The program stops once in `step`; after it, and after the editor has left, `check` runs.
FRAME = """\
import os, sys, threading, time
def step(n):
    return n + 1
{begin}
while not os.path.exists("held"):
    step(1)
    time.sleep(0.02)
{held}
open("checked", "w").close()
while not os.path.exists("left"):
    time.sleep(0.02)
{left}
"""
AUDITS = """
lock, seen = threading.Lock(), []
def hook(event, arguments):
    if event == "open":
        with lock:
            seen.append((time.time(), time.monotonic()))
sys.addaudithook(hook)
"""
OPENS = "for _ in range(20):\n    open(os.devnull).close()\n    time.sleep(0.05)\n"
MOCKS = """
from unittest import mock
ours, theirs = os.pipe()
with mock.patch("os.open", return_value=ours), mock.patch("os.close"), mock.patch("os.stat", side_effect=RuntimeError):
    for _ in range(30):
        time.sleep(0.05)
        time.time(), time.monotonic()
    closed = os.close.called
os.write(theirs, b"x")
print(os.read(ours, 1), closed)
"""
TEE = """
got, true = [], sys.stdout.write
def tee(text):
    got.append(text)
    return true(text)
sys.stdout.write = tee
"""
#: Its handler ends it while it is being joined.
FORKS = """
import signal
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
for delay in (0.03, 0.06, 0.1, 0.2):
    pid = os.fork()
    if pid == 0:
        for _ in range(600):
            time.sleep(0.05)
        os._exit(9)
    time.sleep(delay)
    os.kill(pid, signal.SIGTERM)
    print(os.waitpid(pid, 0)[1] >> 8, flush=True)
"""
TRACES = """
def own(*_):
    pass
sys.settrace(own)
pid = os.fork()
if pid == 0:
    print(sys.gettrace() is own, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
sys.settrace(None)
"""
CASES = {
    "a lazy module": (LAZY.format(name="heavy", text="print(1)"), "", "", ""),
    "an audit hook that takes the time": (AUDITS, OPENS, OPENS, ""),
    "a test that replaces functions of os": ("", MOCKS, MOCKS, "b'x' False\n" * 2),
    "a stream with a write of its own": (
        TEE, "", "while sys.stdout.write is not tee:\n    time.sleep(0.01)\nprint('x')\nprint(got[0], flush=True)", "x\nx\n",
    ),
    "a signal to a child that is being joined": ("", FORKS, "", "7\n" * 4),
    "a tracer of its own in a fork": ("", TRACES, "", "True\n"),  # from 3.12 on
}  # fmt: skip


@pytest.mark.parametrize("minor", [9, 13])
@pytest.mark.parametrize("case", CASES)
def test_with_an_editor_that_stops_it_and_leaves_it_ends_well(program, under, tmp_path, case, minor):
    begin, held, left, out = CASES[case]
    if held is TRACES and minor < 12:
        pytest.skip("the debugger takes the place of the only tracer that a thread can have")
    text = FRAME.format(begin=begin, held=held, left=left)
    running = program(text, **under(minor))
    with Editor(running.port, {running.script: [3]}, hold=True) as editor:
        stop = editor.wait_stops(1)[0]
        stop["session"].request("setBreakpoints", source={"path": running.script}, breakpoints=[])
        (tmp_path / "held").touch()
        stop.go_on()
        while not (tmp_path / "checked").exists():
            assert running.process.poll() is None
    (tmp_path / "left").touch()
    running.ends(0, out)


SIGWAITS = """
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
step()
thread = threading.Thread(target=lambda: print(signal.sigwait([signal.SIGHUP]) == signal.SIGHUP))
thread.start()
os.kill(os.getpid(), signal.SIGHUP)
thread.join()
"""
#: As after `setuid` or `chroot`.
OUT_OF_REACH = """
class Refusing:
    def find_spec(self, name, *_):
        if name.startswith("_dkdbg"):
            raise ImportError(name)
sys.meta_path.insert(0, Refusing())
step()
pid = os.fork()
if pid == 0:
    os._exit(step())
print(os.waitpid(pid, 0)[1] >> 8 == 1)
"""
#: As the backport of ExceptionGroup, which prints no sub-exceptions where the hook is another one.
ASKS_FOR_THE_HOOK = "step()\nprint(sys.excepthook is sys.__excepthook__)\n"
#: As Hypothesis, which draws examples from the constants of the program's own modules.
LOOKS_FOR_ITS_MODULES = """
step()
files = [getattr(each, "__file__", None) or "" for each in list(sys.modules.values())]
ours = [each for each in files if each.startswith(os.path.dirname(os.environ["DKDBG_SESSION_DIR"]))]
print([each for each in ours if "/site-packages/" not in each] or len(ours) > 1)
"""


#: The callback has the breakpoint, and runs before the debugger's own callback.
FORK_CALLBACK = """
os.register_at_fork(after_in_child=step)
step()
pid = os.fork()
if pid == 0:
    os._exit(3)
print(os.waitpid(pid, 0)[1] >> 8 == 3)
"""


@pytest.mark.parametrize("minor", [9, 13])
@pytest.mark.parametrize(
    "text",
    [SIGWAITS, OUT_OF_REACH, FORK_CALLBACK, ASKS_FOR_THE_HOOK, LOOKS_FOR_ITS_MODULES],
    ids=[
        "waits for a signal",
        "forks, our files out of reach",
        "stops in a callback of os.fork",
        "asks whether the excepthook is Python's",
        "looks for its own modules",
    ],
)
def test_debugged_from_the_start_it_ends_well(program, under, text, minor):
    start = "import os, signal, sys, threading\ndef step():\n    return 1\n"
    running = program(start + text, wait="300", **under(minor))
    with Editor(running.port, {running.script: [3]}) as editor:
        editor.wait_stops(1)
        running.ends(0, "True\n")


LOOKS = """
import gc, json, os, sys, threading, weakref
from dkdbg.agent.inprocess import collectives, line, stacks
from dkdbg.agent.inprocess.clocks import running_clocks
from dkdbg.agent.inprocess.pydevd_patches import own_tracer

class Local:
    pass

def work():
    local = Local()
    kept.append(weakref.ref(local))
    began.set()
    go.wait()

gc.disable()
own_tracer._foreign[0] = "another tool"
entry = {"time_created_ns": 0, "thread_id": threading.get_ident()}
torch = type(sys)(collectives._MODULE)
torch._dump_fr_trace_json = lambda *_: json.dumps({"entries": [entry]})
sys.modules[collectives._MODULE] = torch
looks = [own_tracer.tracer, collectives.pending, lambda: line._running("p.py", True), stacks.dump, running_clocks.found]
left = []
for number, look in enumerate(looks):
    kept, began, go = [], threading.Event(), threading.Event()
    thread = threading.Thread(target=work)
    thread.start()
    began.wait()
    look()
    go.set()
    thread.join()
    if kept[0]() is not None:
        left.append(number)
print(left)
"""


def test_a_look_at_the_stacks_keeps_no_local_of_the_program_alive(tmp_path):
    """A connection that is never closed keeps the server's thread, and with it the process."""
    done = subprocess.run(
        [sys.executable, "-c", LOOKS], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=100
    )
    assert done.stdout == "[]\n"
