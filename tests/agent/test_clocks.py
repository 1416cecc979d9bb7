"""Time limits of a job while a process of it is held: none of them ends, in the parent, a sibling or the held process."""

import math
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dkdbg
from dkdbg.agent import contract
from dkdbg.agent.inprocess.clocks import held_time, slow_clocks
from tests.agent.dap_probe import Editor
from tests.engine.attach_proxies import attach_proxy
from tests.pages import Page, begun
from tests.ports import free_port
from tests.pythons import need

#: Seconds that each wait of the parent lasts at most; the child is held for longer.
LIMIT = 8
PARENT = f"""
import asyncio, concurrent.futures, multiprocessing, os, queue, select, selectors, signal, socket, ssl, struct, subprocess, sys, threading, time
from time import monotonic, time as now

LIMIT = {LIMIT}
waits = {{}}

def wait(name):
    def add(function):
        waits[name] = function
        return function
    return add

class Answer:
    \"\"\"What the child has sent, in each form in which a parent may wait for it.\"\"\"
    event = threading.Event()
    condition = threading.Condition()
    semaphore = threading.Semaphore(0)
    queue = queue.Queue()
    future = concurrent.futures.Future()
    thread = threading.Thread(target=event.wait)
    came = False

def child(connection, answers, event, lock, out, file, packets):
    signal.signal(signal.SIGALRM, lambda *_: os._exit(9))
    lock.acquire()
    signal.alarm(LIMIT)
    os.write(out, b"x")
    answer = 1  # held
    signal.alarm(0)
    lock.release()
    packets.send(b"xx")
    connection.send(answer)
    answers.put(answer)
    event.set()
    os.write(out, b"x")
    file.sendall(b"x\\n")

@wait("threading.Event")
def _(): return Answer.event.wait(LIMIT)

@wait("threading.Condition")
def _():
    with Answer.condition:
        return Answer.condition.wait_for(lambda: Answer.came, LIMIT)

@wait("threading.Condition without a predicate")
def _():
    with Answer.condition:
        return Answer.condition.wait(LIMIT)

@wait("threading.Semaphore")
def _(): return Answer.semaphore.acquire(timeout=LIMIT)

@wait("threading.Timer")
def _():
    fired = []
    timer = threading.Timer(LIMIT, lambda: fired.append(1))
    timer.start()
    Answer.event.wait()
    timer.cancel()
    return not fired

@wait("threading.Thread")
def _():
    Answer.thread.join(LIMIT)
    return not Answer.thread.is_alive()

@wait("queue.Queue")
def _(): return Answer.queue.get(timeout=LIMIT)

@wait("concurrent.futures.Future")
def _(): return Answer.future.result(LIMIT)

@wait("concurrent.futures.wait")
def _(): return not concurrent.futures.wait([Answer.future], LIMIT).not_done

@wait("asyncio.wait_for")
def _():
    async def main():
        event = asyncio.Event()
        asyncio.get_running_loop().add_reader(out[0], event.set)
        return await asyncio.wait_for(event.wait(), LIMIT)
    return asyncio.run(main())

@wait("time.monotonic")
def _():
    end = time.monotonic() + LIMIT
    while not Answer.event.is_set() and time.monotonic() < end:
        time.sleep(0.05)
    return Answer.event.is_set()

@wait("time.time by a name of its own")
def _():
    end = now() + LIMIT
    while not Answer.event.is_set() and now() < end:
        time.sleep(0.05)
    return Answer.event.is_set()

if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    answers, done = context.Queue(), context.Event()
    out, here, packets, limited = os.pipe(), socket.socketpair(), socket.socketpair(), socket.socketpair()
    listening, answering = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))

    def answer():
        with answering.accept()[0] as connection:
            Answer.event.wait()
            connection.sendall(b"no TLS")

    threading.Thread(target=answer).start()

    @wait("multiprocessing.connection")
    def _(): return ours.poll(LIMIT) and ours.recv()

    @wait("select.select")
    def _(): return bool(select.select([out[0]], [], [], LIMIT)[0])

    @wait("multiprocessing.Queue")
    def _(): return answers.get(timeout=LIMIT)

    @wait("multiprocessing.Event")
    def _(): return done.wait(LIMIT)

    @wait("multiprocessing.Process")
    def _():
        process.join(LIMIT)
        return process.exitcode == 0

    @wait("a file of a socket")
    def _():
        here[0].settimeout(LIMIT)
        return here[0].makefile("rb").readline() == b"x\\n"

    @wait("a socket")
    def _():
        packets[0].settimeout(LIMIT)
        return packets[0].recv(1) == b"x"

    @wait("a socket with SO_RCVTIMEO")
    def _():
        limited[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", LIMIT, 0))
        return limited[0].recv(1) == b"x"

    @wait("a message of a socket")
    def _():
        packets[0].settimeout(LIMIT)
        return packets[0].recvmsg(1)[0] == b"x"

    @wait("a listening socket")
    def _():
        listening.settimeout(LIMIT)
        return bool(listening.accept())

    @wait("selectors")
    def _():
        with selectors.DefaultSelector() as selector:
            selector.register(out[0], selectors.EVENT_READ)
            return bool(selector.select(LIMIT))

    @wait("select.poll")
    def _():
        poll = select.poll()
        poll.register(out[0], select.POLLIN)
        return bool(poll.poll(1000 * LIMIT))

    @wait("select.epoll")
    def _():
        with select.epoll() as poll:
            poll.register(out[0], select.EPOLLIN)
            return bool(poll.poll(LIMIT))

    @wait("signal.sigtimedwait")
    def _():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        ident = threading.get_ident()
        threading.Thread(target=lambda: (Answer.event.wait(), signal.pthread_kill(ident, signal.SIGUSR1))).start()
        return bool(signal.sigtimedwait([signal.SIGUSR1], LIMIT))

    @wait("the handshake of TLS")
    def _():
        with socket.create_connection(answering.getsockname(), LIMIT) as plain:
            try:
                ssl.create_default_context().wrap_socket(plain, server_hostname="a")
            except ssl.SSLError as error:
                return "timed out" not in str(error)

    @wait("multiprocessing.Lock")
    def _(): return lock.acquire(timeout=LIMIT)

    @wait("queue.SimpleQueue")
    def _(): return simple.get(timeout=LIMIT)

    @wait("signal.alarm")
    def _(): return Answer.event.wait() and not alarms

    @wait("subprocess.Popen")
    def _(): return helper.wait(LIMIT) == 0

    results = {{}}
    def run(name):
        try:
            results[name] = bool(waits[name]())
        except Exception as error:
            results[name] = repr(error)
    while not os.path.exists("go"):
        time.sleep(0.05)
    lock, simple, alarms = context.Lock(), queue.SimpleQueue(), []
    process = context.Process(target=child, args=(theirs, answers, done, lock, out[1], here[1], packets[1]))
    signal.signal(signal.SIGALRM, lambda *_: alarms.append(1))
    helper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process.start()
    os.read(out[0], 1)  # it is about to be held
    signal.alarm(LIMIT)
    Answer.thread.start()
    threads = [threading.Thread(target=run, args=(name,)) for name in waits if name != "multiprocessing.Process"]
    for thread in threads:
        thread.start()
    run("multiprocessing.Process")  # here: two threads that wait for one process take its end from each other
    Answer.came = True
    Answer.event.set()
    Answer.semaphore.release()
    Answer.queue.put(1)
    limited[1].send(b"x")
    simple.put(1)
    socket.create_connection(listening.getsockname()).close()
    Answer.future.set_result(1)
    with Answer.condition:
        Answer.condition.notify_all()
    helper.communicate(b"\\n")
    for thread in threads:
        thread.join()
    failed = {{name: found for name, found in results.items() if found is not True}}
    print("failed:", failed, len(results), process.exitcode, flush=True)
"""
LINE = 1 + PARENT.splitlines().index("    answer = 1  # held")


@pytest.mark.parametrize(("minor", "late"), [(8, True), (14, False)])
def test_no_wait_of_the_standard_library_ends_while_a_child_is_held_for_longer(
    program, under, tmp_path, minor, late
):
    running = program(PARENT, wait="0" if late else "300", **under(minor))
    running.wait_state("running" if late else "waiting")
    with Editor(running.port, {running.script: [LINE]}, hold=True) as editor:
        editor.wait_attached(2)
        (tmp_path / "go").touch()
        stop = editor.wait_stops(1)[0]
        time.sleep(1.5 * LIMIT)
        stop.go_on()
        code, out, err = running.finish()
    assert out == "failed: {} 31 0\n", err
    assert code == 0


STANDING = """
import select, threading, time
from time import monotonic

def work():
    time.sleep(0.1)
    answer = 1  # held
    return answer

work()
print(work())
"""
#: Expressions with a timeout that a user evaluates at a breakpoint, and their values.
EVALUATED = {
    "threading.Event().wait(1)": "False",
    "select.select([], [], [], 1)": "([], [], [])",
    "(lambda began: (time.sleep(1), monotonic() - began >= 1)[1])(monotonic())": "True",
}


def test_what_is_evaluated_at_a_second_stop_goes_by_the_true_clocks(program):
    running = program(STANDING, wait="300")
    line = 1 + STANDING.splitlines().index("    answer = 1  # held")
    with Editor(running.port, {running.script: [line]}, hold=True) as editor:
        for count in (1, 2):
            stop = editor.wait_stops(count)[-1]
            time.sleep(2)
            assert {each: stop.value(each, context="repl") for each in EVALUATED} == EVALUATED
            stop.go_on()
        assert running.finish()[:2] == (0, "1\n")


ASKED = """
import asyncio, multiprocessing, signal, subprocess, sys, time

def serve(connection):
    async def main():
        while True:
            found = await asyncio.get_running_loop().run_in_executor(None, connection.recv)
            await asyncio.sleep(0.05)  # as a server that gathers requests
            connection.send(2 * found)
    asyncio.run(main())

def ask():
    ours.send(21)
    return ours.recv()

if __name__ == "__main__":
    ours, theirs = multiprocessing.Pipe()
    multiprocessing.Process(target=serve, args=(theirs,), daemon=True).start()
    print(ask())
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    held = 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(ours.poll(0), ask(), flush=True)
    in_time = "import sys, time; print(time.monotonic() < float(sys.argv[1]), time.time() < float(sys.argv[2]))"
    subprocess.run([sys.executable, "-c", in_time, str(time.monotonic() + 2), str(time.time() + 2)])
"""


def test_an_expression_may_ask_another_process_and_a_new_process_has_the_time_of_its_parent(
    program,
):
    running = program(ASKED, wait="300")
    line = 1 + ASKED.splitlines().index("    held = 1")
    with Editor(running.port, {running.script: [line]}, hold=True) as editor:
        stop = editor.wait_stops(1)[0]
        time.sleep(6)  # the clocks stand
        assert stop.value("(ask(), time.sleep(3))[0]", context="repl") == "42"
        stop.go_on()
        assert running.finish()[:2] == (0, "42\nFalse 42\nTrue True\n")


def test_the_program_of_the_page_gets_its_answer_from_a_worker_that_was_held_for_longer_than_its_limit(
    tmp_path,
):
    page, port = Page.of("how-to/paused-jobs.md"), free_port()
    script = tmp_path / "serve.py"
    script.write_text(page.block("python"))
    line = 1 + script.read_text().splitlines().index("    found = question * 2  # breakpoint")
    with page.all_run():
        words = [each.replace("--wait", f"--wait --port {port}") for each in page.words("dkdbg run")]
    with begun(words, tmp_path) as running:
        assert any("waiting for a debugger" in text for text in iter(running.stdout.readline, ""))
        with Editor(port, {str(script): [line]}, hold=True) as editor:
            stop = editor.wait_stops(1)[0]
            time.sleep(7)
            stop.go_on()
            out, _ = running.communicate(timeout=300)
    assert "42" in out.splitlines()
    assert running.returncode == 0, out


def test_clocks_run_a_thousandth_as_fast_during_a_hold_and_then_catch_up():
    # 2 s behind when a hold began at 100, which lasts until 103 at least
    held = (2.0, 100.0, 1 - held_time.SLOW, 103.0)
    assert held_time.seconds_behind(held, 101.0) == pytest.approx(2.999)
    assert held_time.seconds_behind(held, 103.0) == pytest.approx(4.997)
    assert held_time.seconds_behind(held, 104.0) == pytest.approx(4.497)  # the agent was killed
    assert held_time.seconds_behind((8.0, 100.0, 0.0, 100.0), 104.0) == 6.0
    assert held_time.seconds_behind((8.0, 100.0, 0.0, 100.0), 116.0) == 0.0


#: What a program begins with that drives the clocks without an agent.
BEGIN = """
import faulthandler, multiprocessing, os, queue, signal, sys, threading, time
from multiprocessing import synchronize
from dkdbg.agent.inprocess.clocks import clocks, held_time, timers, waits

folder = sys.argv[1]
writer = held_time.Writer(folder)
signal.signal(signal.SIGALRM, lambda *_: None)

def follow():
    open(folder + "/join.json", "w").close()
    clocks.follow(folder)
"""


def printed(program, folder, python=sys.executable):
    """Return what such a program prints until it ends, without an error; its argument is the session's folder."""
    words = [python, "-c", BEGIN + program, str(folder)]
    path = {**os.environ, "PYTHONPATH": str(Path(dkdbg.__file__).parents[1])}
    done = subprocess.run(words, env=path, capture_output=True, text=True, check=False, timeout=100)
    assert done.stderr == "", done.stdout
    return done.stdout


@pytest.mark.parametrize(
    "written", [b"", b"x", 8 * struct.pack("<d", math.inf), 8 * struct.pack("<d", math.nan)]
)
def test_a_file_of_holds_that_says_nothing_is_passed_over(tmp_path, written):
    (tmp_path / held_time.NAME).write_bytes(written)
    assert held_time.seconds_behind(held_time.Reader(str(tmp_path)).state(), 10.0) == 0.0
    assert contract.HELD_NAME == held_time.NAME


def test_a_file_of_holds_that_is_removed_harms_nobody_and_another_one_is_read(tmp_path):
    def is_held(found):
        return held_time.seconds_behind(found.state(), time.monotonic() + 1.0) > 0.5

    directory = str(tmp_path)
    assert not is_held(held_time.reader(directory))  # no agent
    held_time.Writer(directory).hold()
    first = held_time.reader(directory)
    assert held_time.reader(directory) is first
    (tmp_path / held_time.NAME).rename(tmp_path / "aside")
    (tmp_path / "aside").unlink()
    assert is_held(first)
    held_time.Writer(directory)
    assert [is_held(each) for each in (first, held_time.reader(directory))] == [True, False]


def test_clocks_are_the_programs_own_before_a_hold_and_after_the_editor_has_left(tmp_path):
    program = """
import _thread
from time import monotonic

def kinds():
    return [type(each.__self__).__name__ for each in (time.monotonic, monotonic, time.time, time.perf_counter_ns)]

follow()
print(set(kinds()))
writer.hold()
time.sleep(0.2)
clocks.follow(folder)
before = monotonic(), time.time()
time.sleep(0.2)
print(set(kinds()), max(monotonic() - before[0], time.time() - before[1]) < 0.01, monotonic() > before[0])
writer.release()
os.unlink(folder + "/join.json")
clocks.follow(folder)
while set(kinds()) == {"_Clock"} or _thread._count():  # no call asks for the time
    time.sleep(0.05)
print(set(kinds()))
"""
    own, stopping = "{'module'}", "{'_Clock'}"
    assert printed(program, tmp_path).splitlines() == [own, stopping + " True True", own]


def test_no_clock_goes_back_when_a_hold_begins(tmp_path):
    program = """
from dkdbg.agent.inprocess.clocks import slow_clocks

follow()
writer.hold()
clocks.follow(folder)
shown = []
while len(shown) < 3:  # a busy machine may let those 5 ms pass
    writer.release()
    slow_clocks.State.right_until = 0.0
    while not slow_clocks.State.right_until:  # from then on the clocks count as right for 5 ms
        slow_clocks.behind()
    shown = [time.perf_counter()]
    writer.hold()
    while not slow_clocks.behind():
        shown.append(time.perf_counter())
    shown.append(time.perf_counter())
print(type(time.perf_counter.__self__).__name__, shown == sorted(shown))
"""
    assert printed(program, tmp_path) == "_Clock True\n"


def test_waits_after_a_hold_in_a_test_with_a_frozen_clock_are_not_lengthened(tmp_path):
    """freezegun replaces the functions of `time`, so that none is left to stop."""
    program = """
from dkdbg.agent.inprocess.clocks import slow_clocks

follow()
names = [name + end for name in ("time", "monotonic", "perf_counter") for end in ("", "_ns")]
true = {name: getattr(time, name) for name in names}
writer.hold()
for name in names:
    setattr(time, name, lambda now=true[name](): now)
clocks.follow(folder)
time.sleep(1.0)
for name in names:
    setattr(time, name, true[name])
writer.release()
asked = []
waits._lengthened(asked.append, at=0)(0.05)
print(slow_clocks.behind() > 0.1, asked)
os.unlink(folder + "/join.json")
clocks.follow(folder)  # the editor has left
follow()
writer.hold()
for _ in range(100):
    time.sleep(0.02)
    clocks.follow(folder)
print(type(time.monotonic.__self__).__name__)
"""
    assert printed(program, tmp_path) == "True [0.05]\n_Clock\n"


def test_replaced_clocks_and_waits_behave_as_those_in_c(tmp_path):
    """What a hostile review has found; each of them ended a program that runs without an editor."""
    program = """
import _thread, decimal, pickle, selectors, socket

kept = time.monotonic
follow()
selectors.SelectSelector().select(0)
multiprocessing.Event().wait(decimal.Decimal("0.01"))
_thread.start_new_thread(threading.Event().wait, (0.01,))
ours, theirs = socket.socketpair()
ours.settimeout(0.01)
file = ours.makefile("rb")
try:
    file.read(1)
except TimeoutError:
    print("times out")
writer.hold()
time.sleep(0.05)
clocks.follow(folder)

class Timer:
    clock = time.perf_counter

Timer().clock()
last = {}
for _ in range(20_000):
    for name in ("monotonic", "perf_counter", "time", "monotonic_ns"):
        now = getattr(time, name)()
        assert now > last.get(name, -1), name
        last[name] = now
assert pickle.loads(pickle.dumps(time.monotonic)) is time.monotonic
assert pickle.loads(pickle.dumps(kept)) is kept
print(repr(threading.Event.wait.__name__), "done")
"""
    assert printed(program, tmp_path).splitlines() == ["times out", "'wait' done"]


@pytest.mark.parametrize("minor", [8, 10, 12, 14])
def test_a_clock_stops_wherever_the_program_holds_it_and_is_the_true_one_afterwards(tmp_path, minor):
    program = """
import dataclasses, functools

def default(clock=time.monotonic):
    return clock()

def keyword(*, clock=time.monotonic):
    return clock()

def closure(clock):
    return lambda: clock()

class Kept:
    __slots__ = "own"
    clock = staticmethod(time.monotonic)

@dataclasses.dataclass
class Record:
    at: float = dataclasses.field(default_factory=time.monotonic)

def behind():
    return [round(time.clock_gettime(time.CLOCK_MONOTONIC) - clock(), 1) for clock in clocks_held]

kept = Kept()
kept.own = time.monotonic
clocks_held = [default, keyword, closure(time.monotonic), Kept.clock, kept.own, lambda: Record().at]
clocks_held += [functools.partial(time.monotonic), {"clock": time.monotonic}["clock"]]
follow()
writer.hold()
time.sleep(0.3)
clocks.follow(folder)
before = [clock() for clock in clocks_held]
time.sleep(0.3)
print(max(clock() - then for clock, then in zip(clocks_held, before)) < 0.05, min(behind()) > 0.2)
os.unlink(folder + "/join.json")
writer.release()
clocks.follow(folder)
while type(time.monotonic.__self__).__name__ == "_Clock":
    time.monotonic()
print(set(behind()) <= {0.0, -0.0})
"""
    assert printed(program, tmp_path, need(minor)).splitlines() == ["True True", "True"]


def test_what_a_signals_handler_raises_during_a_call_of_a_slow_clock_goes_up(tmp_path):
    program = """
raised = caught = 0

def handle(*_):
    global raised
    raised += 1
    raise KeyboardInterrupt

follow()
signal.signal(signal.SIGALRM, handle)
writer.hold()
time.sleep(0.05)
clocks.follow(folder)
while raised < 200:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005)
        while True:
            time.perf_counter()
    except KeyboardInterrupt:
        caught += 1
print(raised - caught)
"""
    assert printed(program, tmp_path) == "0\n"


def test_time_machine_finds_the_true_clocks_whenever_it_is_imported(tmp_path):
    """It replaces the C functions as well; what it finds there are the true ones for it."""
    (tmp_path / "_time_machine.py").touch()
    program = """
follow()
writer.hold()
time.sleep(0.05)
clocks.follow(folder)
print(type(time.time.__self__).__name__)
sys.path.insert(0, folder)
import _time_machine
print(type(time.time.__self__).__name__)
clocks.follow(folder)
print(type(time.time.__self__).__name__)
asked = []
waits._lengthened(asked.append, at=0)(0.05)
print(asked)
"""
    assert printed(program, tmp_path) == "_Clock\nmodule\nmodule\n[0.05]\n"


def test_an_audit_hook_of_the_program_may_ask_a_slow_clock_for_the_time(tmp_path):
    program = """
asked = []
follow()
writer.hold()
time.sleep(0.05)
clocks.follow(folder)
sys.addaudithook(lambda event, _: asked.append(time.time()))
time.time()
print(len(asked) > 0, pickle.loads(pickle.dumps(time.time.__self__)) is time)
"""
    assert printed("import pickle" + program, tmp_path) == "True True\n"


def test_timers_of_a_process_that_runs_on_stop_during_a_hold_and_those_that_it_cancels_stay_so(tmp_path):
    program = """
fired = []
signal.signal(signal.SIGALRM, lambda *_: fired.append(1))
follow()
for cancels in (False, True):
    signal.alarm(1)
    faulthandler.dump_traceback_later(1, exit=True)
    writer.hold()
    clocks.follow(folder)
    until = time.clock_gettime(time.CLOCK_MONOTONIC) + 2
    while time.clock_gettime(time.CLOCK_MONOTONIC) < until:
        pass
    is_set = signal.getitimer(signal.ITIMER_REAL)[0] > 0
    child = os.fork()
    if not child:
        clocks.on_resume(is_last=True)
        time.sleep(1.2)
        os._exit(len(fired))
    print("held", fired, os.waitpid(child, 0)[1], is_set)
    if cancels:
        print("left", signal.alarm(0))
        faulthandler.cancel_dump_traceback_later()
    writer.release()
    if not cancels:
        while not fired:
            faulthandler.cancel_dump_traceback_later()
        fired.clear()
time.sleep(2)
print("end", fired)
"""
    assert printed(program, tmp_path).splitlines() == ["held [] 0 True", "held [] 0 True", "left 1", "end []"]


def test_a_watchdog_whose_file_is_closed_during_a_hold_does_not_end_the_program_or_keep_its_alarm(tmp_path):
    program = """
follow()
with open(os.devnull, "w") as file:
    faulthandler.dump_traceback_later(60, file=file)
    signal.alarm(50)
    clocks.on_stop(is_first=True)
clocks.on_resume(is_last=True)
print("runs on", signal.alarm(0) > 0)
"""
    assert printed(program, tmp_path) == "runs on True\n"


@pytest.mark.parametrize("cancel", ["signal.alarm(0)", "signal.setitimer(signal.ITIMER_REAL, 0)"])
def test_an_alarm_that_is_cancelled_while_it_is_started_again_stays_so(tmp_path, cancel):
    program = f"""
follow()
found, threads = timers._get, []

def get(which):
    threads.append(threading.Thread(target=lambda: {cancel}))
    threads[0].start()
    threads[0].join(0.1)
    return found(which)

timers._get = get
signal.alarm(50)
clocks.on_stop(is_first=True)
clocks.on_resume(is_last=True)
threads[0].join()
print(signal.getitimer(signal.ITIMER_REAL)[0])
"""
    assert printed(program, tmp_path) == "0.0\n"


def test_an_alarm_that_another_hold_has_stopped_runs_after_the_editor_has_left_at_any_moment(tmp_path):
    program = """
follow()
class Seen(type):
    @property
    def reader(self):  # the editor leaves between two readings
        seen.append(1)
        return reader if len(seen) == 1 else None

class Now(metaclass=Seen):
    pass

seen, reader = [], held_time.Reader(folder)
signal.alarm(50)
timers.stop()
timers.State = Now
timers.watch()
end = time.monotonic() + 10
while not signal.getitimer(signal.ITIMER_REAL)[0] and time.monotonic() < end:
    time.sleep(0.01)
print(signal.getitimer(signal.ITIMER_REAL)[0] > 0)
"""
    assert printed(program, tmp_path) == "True\n"


def test_a_wait_of_multiprocessing_is_lengthened_once_of_old_and_new_conditions(tmp_path):
    program = """
make, asked = synchronize.SemLock._make_methods, []

def make_methods(self):
    make(self)
    acquire = self.acquire
    self.acquire = lambda *args: (asked.append(args[1:]), acquire(*args))[1]

synchronize.SemLock._make_methods = make_methods
old = multiprocessing.Event()
follow()
waits.behind = lambda: 0.3 if (0.1,) in asked else 0.0
for event in (old, multiprocessing.Event()):
    asked.clear()
    print(event.wait(0.1), [each for each in asked if each])
"""
    assert printed(program, tmp_path) == 2 * "False [(0.1,), (0.3,)]\n"


def test_a_notification_that_comes_after_the_timeout_of_a_lengthened_wait_is_not_lost(tmp_path):
    program = """
follow()
began = []
waits.behind = lambda: 3600.0

def wait():
    with condition:
        began.append(1)
        print(condition.wait(0.2))

condition = threading.Condition()
thread = threading.Thread(target=wait, daemon=True)
thread.start()
while not began:
    time.sleep(0.01)
with condition:
    time.sleep(1)  # at a breakpoint, for longer than the other waits
    condition.notify()
end = time.monotonic() + 10
while thread.is_alive() and time.monotonic() < end:
    time.sleep(0.01)
"""
    assert printed(program, tmp_path) == "True\n"


@pytest.mark.parametrize("minor", [8, 14])
def test_simple_queue_is_the_same_class_after_the_attach(tmp_path, minor):
    program = """
import abc, pickle, typing
true, old = queue.SimpleQueue, queue.SimpleQueue()
follow()

class Meta(type):
    pass

class Own(queue.SimpleQueue, metaclass=Meta):
    pass

class Abstract(queue.SimpleQueue, abc.ABC):
    pass

class Lasting(typing.Protocol):
    pass

class Protocol(queue.SimpleQueue, Lasting):
    pass

def late(found):
    time.sleep(0.6)
    found.put(1)

kinds = (queue.SimpleQueue, Own, Abstract, Protocol)
print(queue.SimpleQueue is true, type(queue.SimpleQueue()) is true, pickle.loads(pickle.dumps(true)) is true)
print([isinstance(old, each) for each in kinds], isinstance(queue.Queue(), queue.SimpleQueue))
for each in (old, *(kind() for kind in kinds)):
    writer.hold()
    threading.Thread(target=late, args=(each,)).start()
    print(each.get(timeout=0.3), end=" ")
"""
    lines = ["True True True", "[True, False, False, False] False", "1 1 1 1 1 "]
    assert printed(program, tmp_path, need(minor)).splitlines() == lines


def test_what_a_signals_handler_raises_ends_a_wait_for_a_socket_without_a_timeout(tmp_path):
    """The alarm comes in the time by which the wait is lengthened: it is the program's own limit, and does not come again."""
    program = """
import socket

def late(*_):
    raise TimeoutError("the program's own")

def hold():
    writer.hold()
    clocks.follow(folder)
    held.set()
    time.sleep(1)
    writer.release()

held, ends = threading.Event(), socket.socketpair()
signal.signal(signal.SIGALRM, late)
follow()
threading.Thread(target=hold, daemon=True).start()
held.wait()
signal.setitimer(signal.ITIMER_REAL, 0.5)
try:
    ends[0].recv(1)
except TimeoutError as error:
    print(error)
"""
    assert printed(program, tmp_path) == "the program's own\n"


def test_no_wait_or_clock_calls_a_function_that_the_debugger_traces(tmp_path):
    """There a debugger that stops all threads would suspend one that holds the lock of a condition or a queue."""
    program = """
import faulthandler, select, signal, socket

def call(frame, event, _):
    here, above = frame.f_code, frame.f_back and frame.f_back.f_code
    if event == "call" and above and OURS in above.co_filename and OURS not in here.co_filename:
        called.add(os.path.basename(here.co_filename) + ":" + here.co_name)

def each():
    ends, others = socket.socketpair(), socket.socketpair()
    ends[0].settimeout(0.01)
    waiting = [
        lambda: threading.Event().wait(0.01), lambda: threading.Semaphore(0).acquire(timeout=0.01),
        lambda: threading.Thread(target=time.sleep, args=(0.1,)).start(),
        lambda: threading.enumerate()[-1].join(0.01), lambda: queue.Queue().get(timeout=0.01),
        lambda: queue.SimpleQueue().get(timeout=0.01), lambda: select.select([], [], [], 0.01),
        lambda: ends[0].recv(1), lambda: signal.setitimer(signal.ITIMER_REAL, 0),
        faulthandler.cancel_dump_traceback_later,
    ]
    for wait in waiting:
        try:
            wait()
        except (queue.Empty, socket.timeout):
            pass

OURS, called = os.path.dirname(os.path.dirname(clocks.__file__)), set()
follow()
writer.hold()
time.sleep(0.2)
clocks.follow(folder)
sys.setprofile(call)
threading.setprofile(call)
each()
writer.release()
os.unlink(folder + "/join.json")
each()
while type(time.monotonic.__self__).__name__ == "_Clock":
    time.monotonic()
sys.setprofile(None)
untraced = ("threading.py:", "queue.py:", "socket.py:")  # by pydevd, too
print(sorted(name for name in called if not name.startswith(untraced)))
"""
    assert printed(program, tmp_path) == "[]\n"


def test_calls_of_grpc_and_zeromq_after_and_during_a_hold_have_their_own_time(tmp_path):
    """With fakes of both: gRPC's core takes an absolute time, and ZeroMQ's waits are C."""
    program = """
import types

def fake(name, text):
    sys.modules[name] = module = types.ModuleType(name)
    exec(text, vars(module))
    return module

class Again(OSError):
    pass

fake("zmq.error", "").Again = Again
grpc = fake("grpc._channel", "import time\\ndef deadline(): return time.time() + 5")
poll = fake("zmq.sugar.poll", "def zmq_poll(sockets, timeout): asked.append(timeout)")
sock = fake("zmq.sugar.socket", "class Socket:\\n def recv(self): asked.append(1); raise Again(11, '')")
poll.asked = sock.asked = asked = []
sock.Again = Again
follow()
writer.hold()
time.sleep(0.3)
clocks.follow(folder)
time.sleep(0.3)
print(abs(grpc.deadline() - 5 - time.clock_gettime(time.CLOCK_REALTIME)) < 0.1)
lost = iter([0.0, 2.0, 2.0])
waits.behind = lambda: next(lost)
poll.zmq_poll([], timeout=1000)
lost = iter([0.0, 2.0, 2.0])
try:
    sock.Socket().recv()
except Again:
    print(asked)
"""
    assert printed(program, tmp_path) == "True\n[1000, 2000, 1, 1]\n"


@pytest.mark.parametrize("stopped", [0.0, 60.0])
def test_a_clock_that_is_set_shows_what_it_was_set_to(monkeypatch, stopped):

    def wall():
        return now[0]

    now, wall.__name__ = [1.8e9], "time"
    monkeypatch.setattr(slow_clocks, "_changing", lambda function, _: (function, None, None))
    clock = slow_clocks._Clock(wall, 0.0)
    monkeypatch.setattr(slow_clocks, "seconds_behind", lambda: stopped)
    before = clock()
    for moment in (978307200.0, 978307200.0, 4e9):
        now[0] = moment
        assert clock() == moment
    now[0] = 1.8e9 + 0.5
    assert before <= clock() <= 1.8e9 + 0.5


ALONE = """
import os, queue, sys, threading, time
if os.environ["PART"] == "1":
    time.sleep(0.1)
    answer = 1  # held
    open("answer", "w").close()
    sys.exit()
while not os.path.exists("go"):
    time.sleep(0.05)
end = time.monotonic() + LIMIT
while not os.path.exists("answer"):
    if time.monotonic() > end:
        sys.exit("gave up")
    time.sleep(0.05)
""".replace("LIMIT", "5")


@pytest.mark.parametrize("are_ranks", [True, False])
def test_the_program_of_another_agent_waits_for_a_held_one_behind_the_same_proxy(launch, tmp_path, are_ranks):
    (tmp_path / "rank.py").write_text(ALONE)
    of_a_job = [{"RANK": str(rank), "WORLD_SIZE": "2"} if are_ranks else {} for rank in (0, 1)]
    ranks = [
        launch(sys.executable, "rank.py", wait="300", env={"PART": str(number), **env})
        for number, env in enumerate(of_a_job)
    ]
    targets = [f"127.0.0.1:{each.port}" for each in ranks]
    line = 1 + ALONE.splitlines().index("    answer = 1  # held")
    with (
        attach_proxy(tmp_path, *targets) as proxy,
        Editor(proxy.port, {str(tmp_path / "rank.py"): [line]}, hold=True) as editor,
    ):
        stop = editor.wait_stops(1)[0]
        (tmp_path / "go").touch()
        time.sleep(8)
        stop.go_on()
        assert [each.finish()[0] for each in ranks] == [0, 0]
