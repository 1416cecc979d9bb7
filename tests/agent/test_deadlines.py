"""What goes on while a program is held is said at the stop, and by `ps` and `where`."""

import json
import math
import os
import re
import subprocess
import sys
import time

import pytest

from dkdbg.agent.dap import messages
from dkdbg.agent.supervisor import held_deadlines
from tests.agent.dap_probe import Editor

PROGRAM = "import time\nfor n in range(3):\n    time.sleep(0.1)\n    n += 1\n"
PROBE = {
    "what": "the livenessProbe restarts the container main",
    "ends": None,
    "after": 30.0,
    "lift": "dkdbg up k8s://a/b",
}


@pytest.mark.core
def test_a_stop_and_both_lists_tell_the_limit_of_the_batch_job_and_that_of_the_pod(launch, runtime, tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    env = {"SLURM_JOB_ID": "12", "SLURM_JOB_END_TIME": str(int(time.time()) + 3000)}
    running = launch("timeout", "600", sys.executable, "train.py", wait="300", env=env)
    attach = {messages.DEADLINES: [PROBE]}
    with Editor(running.port, {str(tmp_path / "train.py"): [4]}, hold=True, more=attach) as editor:
        probe = "keeps running while you hold the program: the livenessProbe restarts the container main after 30 s without an answer"
        editor.wait_output(probe)
        stop = editor.wait_stops(1)[0]
        slurm = "Slurm ends job 12 in 49 min (more time: scontrol update JobId=12 TimeLimit=+60)"
        said = editor.wait_output(slurm)
        assert said.index(probe) < said.index(slurm)
        whats = [each["what"] for each in running.record()["deadlines"]]
        assert whats[:2] == [PROBE["what"], "Slurm ends job 12"]
        assert re.fullmatch(r"timeout \(pid \d+\) ends its command", whats[2])
        words = [sys.executable, "-m", "dkdbg.agent", "where"]
        env = {**os.environ, "DKDBG_RUNTIME_DIR": str(runtime)}
        done = subprocess.run(words, capture_output=True, check=True, env=env)
        assert [each["what"] for each in json.loads(done.stdout)["sessions"][0]["deadlines"]] == whats
        stop.go_on(without=tmp_path / "train.py")
        running.ends()


class Held:
    """Deadlines of a program that is held, by a clock that the test moves on, and the lines that were `told`."""

    def __init__(self, monkeypatch):
        self.now, self.told = 1000.0, []
        for name in ("monotonic", "time"):
            monkeypatch.setattr(held_deadlines.time, name, lambda: self.now)
        # That of `timeout 600 pytest`.
        monkeypatch.setattr(held_deadlines.deadlines, "of_parents", lambda _: [])

    def deadlines(self, own=(), waits=list, pids=list, changed=list):
        self.found = held_deadlines.HeldDeadlines(
            list(own), waits=waits, ask=list, name_of=str, pids=pids, report=self.told.append, changed=changed
        )
        return self.found

    def later(self, seconds=1):
        self.now += seconds
        self.found.held()


@pytest.fixture
def held(monkeypatch):
    return Held(monkeypatch)


def deadline(what, ends=None, after=None):
    return {"what": what, "ends": ends, "after": after, "lift": ""}


@pytest.mark.core
def test_steps_do_not_repeat_the_line_and_a_near_end_does(held):
    found = held.deadlines([deadline("Slurm ends job 12", 1000.0 + 400)])
    found.attached()
    assert held.told == []  # its end is not near: at the stop is early enough
    for _ in range(30):  # steps of one second
        found.stopped()
        held.later()
    assert len(held.told) == 1
    for _ in range(360):
        held.later()
    assert [line.rpartition(" in ")[2] for line in held.told] == ["6 min", "5 min", "60 s"]


def test_a_clock_that_begins_after_the_stop_is_told_once_also_at_a_later_stop(held):
    found, asked = held.deadlines(), list[float]()
    found._ask = lambda: asked.append(held.now)
    pid = os.getpid()
    found.stopped()
    held.later()
    found.set_running_clocks(pid, ["a loop that counts its sleeps at ctl.py:5"])
    for _ in range(20):
        held.later()
    assert [at - 1000 for at in asked] == [0, 4, 15]
    found.stopped()  # a step: within a minute of the last report
    found.set_running_clocks(
        pid, ["a loop that counts its sleeps at ctl.py:5", "a wait for sqlite3 at ctl.py:9"]
    )
    held.later()
    assert [line.partition(": ")[2] for line in held.told] == [
        f"a loop that counts its sleeps at ctl.py:5 ({pid})",
        f"a wait for sqlite3 at ctl.py:9 ({pid})",
    ]


@pytest.mark.core
def test_a_near_end_that_is_only_found_at_the_stop_is_told_once(held, monkeypatch):
    timeout = deadline("timeout (pid 7) ends its command", 1052.0)
    monkeypatch.setattr(held_deadlines.deadlines, "of_parents", lambda _: [timeout])
    held.deadlines().stopped()
    for _ in range(20):
        held.later()
    assert held.told == ["keeps running while you hold the program: timeout (pid 7) ends its command in 51 s"]


@pytest.mark.core
def test_ranks_that_wait_are_asked_again_before_the_stop_is_told(held):
    waits = [deadline("ranks 1, 2: giving up in barrier", 1032.5)]
    found = held.deadlines(waits=lambda: waits)
    found.stopped()
    found.held()
    assert held.told == []
    held.later()
    assert held.told == ["keeps running while you hold the program: ranks 1, 2: giving up in barrier in 31 s"]
    waits.clear()
    held.later(100)
    found.stopped()
    held.later()
    assert len(held.told) == 1


@pytest.mark.core
def test_a_stop_does_not_wait_for_a_look_at_all_processes_and_the_record_has_what_the_line_tells(held):
    looks, records = [], []
    waits = [deadline("ranks 1, 2: giving up in barrier", 1032.5)]
    found = held.deadlines(
        waits=lambda: waits,
        pids=lambda: looks.append(1) or [],
        changed=lambda current: records.append((current, len(held.told))),
    )
    found.stopped()
    assert looks == []
    held.later()
    assert looks == [1]
    assert records == [(waits, 0)]
    assert len(held.told) == 1


@pytest.mark.core
def test_a_time_without_end_is_not_told_and_what_was_added_ends_with_the_next_attach(held):
    found = held.deadlines(waits=lambda: [deadline("rank 1: giving up in barrier", math.inf)])
    found.add(deadline("rank 2: giving up", after=math.inf))
    found.add(deadline("rank 3: giving up", after=30.0))
    found.stopped()
    held.later()
    line = "keeps running while you hold the program: rank 3: giving up after 30 s without an answer"
    assert held.told == [line] * 2
    found.attached()
    assert found.current() == []


@pytest.mark.core
def test_a_rank_that_has_ended_waits_no_longer_in_its_collective(monkeypatch):
    alive = {1, 2}
    monkeypatch.setattr(held_deadlines.procfs, "alive", alive.__contains__)
    monkeypatch.setattr(held_deadlines.duration, "later", lambda *_: None)
    found = held_deadlines.PendingCollectives(str, list, list)
    for pid in (1, 2, 1, 2):
        found.update(pid, "barrier", 5.0, 100.0)
    assert [each["what"] for each in found.deadlines()] == ["1, 2: giving up in barrier"]
    alive.remove(1)
    assert [each["what"] for each in found.deadlines()] == ["2: giving up in barrier"]


@pytest.mark.core
def test_a_timeout_without_end_around_the_agent_is_no_deadline(monkeypatch):
    monkeypatch.setattr(held_deadlines.deadlines, "_timeout_of", lambda _: math.inf)
    assert held_deadlines.deadlines.of_parents([os.getpid()]) == []


WAITING = """
import calendar, concurrent.futures, datetime, linecache, multiprocessing, queue, select, socket, sys, threading, time, types
from dkdbg.agent.inprocess.clocks import clocks, running_clocks

def work():
    CALL

def lib(text, name="lib.a"):
    path = "/lib/site-packages/lib/a.py"
    linecache.cache[path] = len(text), None, text.splitlines(True), path
    exec(compile(text, path, "exec"), {"__name__": name})

def full():
    kept.extend(socket.socket(socket.AF_UNIX) for _ in range(2))
    kept[0].bind("full")
    kept[0].listen(0)
    kept[1].connect("full")
    return "full"

def _poll_wrapper():
    time.sleep(60)

def seconds():
    return calendar.timegm(time.gmtime())

kept, known, Clock = [], types.SimpleNamespace(now=time.monotonic), datetime.datetime
threading.Thread(target=work, daemon=True).start()
end = time.monotonic() + float(sys.argv[1])
while not (found := running_clocks.found()) and time.monotonic() < end:
    time.sleep(0.01)
print(found)
"""


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (
            "lock = threading.Lock(); lock.acquire(); lock.acquire(timeout=60)",
            "the timeout of acquire at p.py:6",
        ),
        ("select.poll().poll(60_000)", "the timeout of poll at p.py:6"),
        (
            "import sqlite3; a, b = (sqlite3.connect('x.db', 60) for _ in range(2)); a.execute('begin immediate'); b.execute('begin immediate')",
            "the timeout of sqlite3 at p.py:6",
        ),
        (
            "exec(compile('import time; time.sleep(60)', '/lib/site-packages/grpc/_channel.py', 'exec'), {'__name__': 'grpc._channel'})",
            "the deadline of gRPC at p.py:6",
        ),
        (  # a stream of gRPC
            "exec(compile('wait()', '/lib/site-packages/grpc/_channel.py', 'exec'), {'__name__': 'grpc._channel', 'wait': threading.Event().wait})",
            "the deadline of gRPC at p.py:6",
        ),
        (  # grpc.aio, and a future of gRPC
            "sys.modules['grpc'] = sys; threading.Thread(target=_poll_wrapper, daemon=True).start()",
            "the deadline of gRPC",
        ),
        ("sys.modules['grpc'] = sys.modules['torch.distributed.rpc.api'] = sys", None),
        (
            "sys.modules['torch.distributed.rpc.api'] = a = type(sys)('a'); a._is_current_rpc_agent_set = lambda: True",
            "timeouts of torch.distributed.rpc",
        ),
        (
            "sys.modules['_time_machine'] = sys",
            "Python clocks, because time_machine is imported",
        ),
        ("socket.socket(socket.AF_UNIX).connect(full())", "the timeout of connect at p.py:6"),
        ("sys.modules['gevent'] = sys.modules['uvloop'] = sys", "timeouts of uvloop', 'timeouts of gevent"),
        ("end = datetime.datetime.now()\n    time.sleep(60)", "datetime.now() at p.py:6"),
        ("end = Clock.utcnow()\n    time.sleep(60)", "datetime.utcnow() at p.py:6"),
        ("end = seconds()\n    time.sleep(60)", "time.gmtime() at p.py:6"),
        ("end = time.clock_gettime(1)\n    time.sleep(60)", "time.clock_gettime() at p.py:6"),
        (
            "lib('import time\\nfrom datetime import datetime as dt\\ndt.now()\\ntime.sleep(60)')",
            "datetime.now() of lib",
        ),
        ("sys.modules['apscheduler.schedulers.base'] = sys", "misfire_grace_time of APScheduler"),
        ("known.now()\n    time.sleep(60)", None),
        (
            "for _ in range(60):\n        if not threading: break\n        time.sleep(1)",
            "a loop that counts its sleeps at p.py:8",
        ),
        (
            "tries = 60\n    while tries > 0:\n        tries -= 1\n        time.sleep(1)\n        if not tries:\n            return",
            "a loop that counts its sleeps at p.py:9",
        ),
        (
            "tries = 60\n    while tries:\n        time.sleep(1); tries -= 1\n        if not tries: print(); break",
            "a loop that counts its sleeps at p.py:8",
        ),
        (
            "slept = 0\n    while slept < 60 and threading:\n        time.sleep(1)\n        slept += 1",
            "a loop that counts its sleeps at p.py:8",
        ),
        (
            "lib('import time\\nslept = 0\\nwhile True:\\n if None: break\\n time.sleep(1)\\n slept += 1\\n if slept >= 60:\\n  raise OSError')",
            "a loop of lib that counts its sleeps at p.py:11",
        ),
        (
            "misses = 0\n    while threading:\n        time.sleep(1)\n        misses += 1\n        if misses >= 60:\n            os.kill(0, 9)",
            "a loop that counts its sleeps at p.py:8",
        ),
        (
            "misses = 0\n    while threading:\n        time.sleep(1)\n        misses = misses + 1 if threading else 0\n        if misses == 60: os._exit(1)",
            "a loop that counts its sleeps at p.py:8",
        ),
        (
            "from multiprocessing.managers import SyncManager\n    server = SyncManager().get_server()\n    threading.Thread(target=server.serve_forever, daemon=True).start()\n    own = SyncManager(server.address, server.authkey); own.connect(); lock = own.Lock(); lock.acquire(); lock.acquire(True, 60)",
            "the timeout of acquire of a lock of a multiprocessing manager at p.py:9",
        ),
        (  # the program is an installed module: `python -m lib.a`
            "lib('import threading, time\\ndef wait():\\n for _ in range(60):\\n  if not time: break\\n  time.sleep(1)\\nthreading.Thread(target=wait, daemon=True).start()', '__main__')",
            "a loop that counts its sleeps at a.py:5",
        ),
        (
            "lib('import threading, time\\ndef wait():\\n for _ in range(60):\\n  if not time: break\\n  time.sleep(1)\\nthreading.Thread(target=wait, daemon=True).start()')",
            None,
        ),
        (
            "restarts = 3\n    while True:\n        time.sleep(1)\n        if not threading:\n            if restarts > 0:\n                restarts -= 1\n            else: return",
            None,
        ),
        ("for epoch in range(60):\n        time.sleep(1)", None),
        (
            "seen = 0\n    while threading:\n        time.sleep(1)\n        seen += 1\n        if seen % 60 == 0: print(seen)",
            None,
        ),
        (
            "beats = 0\n    while not sys.flags.debug:\n        time.sleep(1); beats += 1\n        if not threading: return",
            None,
        ),
        (
            "for epoch in range(60):\n        while True:\n            time.sleep(1)\n            if not threading: break",
            None,
        ),
        ("threading.Event().wait(60)", "a wait of 60 s that began before the attach, at p.py:6"),
        (
            "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n    threading.enumerate()[-1].join(60)",
            "a wait of 60 s that began before the attach, at p.py:7",
        ),
        ("multiprocessing.Event().wait(60)", "a wait of 60 s that began before the attach, at p.py:6"),
        ("concurrent.futures.Future().result(60)", "a wait of 60 s that began before the attach, at p.py:6"),
        ("threading.Timer(60, print).start()", "a threading.Timer of 60 s that began before the attach"),
        ("threading.Event().wait(1)", None),
        ("while not threading.Event().wait(60): print()", None),
        ("while True:\n        if threading.Event().wait(60): break", None),
        (
            "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n    threading.enumerate()[-1].join()",
            None,
        ),
        ("threading.Semaphore(0).acquire(timeout=60)", None),
        ("clocks.follow('.')\n    threading.Timer(60, print).start(); threading.Event().wait(60)", None),
        (
            "clocks.follow('.')\n    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n    threading.enumerate()[-1].join(60)",
            None,
        ),
        (
            "end = time.time() + 60\n    while time.time() < end:\n        time.sleep(1)\n        if not threading: return",
            None,
        ),
        ("lock = threading.Lock(); lock.acquire(); lock.acquire()", None),
        ("queue.Queue().get(timeout=60)", None),
    ],
)
def test_clocks_that_go_on_are_seen_in_the_modules_and_stacks(tmp_path, call, found):
    (tmp_path / "p.py").write_text(WAITING.replace("CALL", call))
    (tmp_path / "join.json").touch()
    words = [sys.executable, "p.py", "50" if found else "0.5"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout == (f"['{found}']\n" if found else "[]\n")


def test_a_clock_of_many_processes_is_told_once(held, monkeypatch):
    monkeypatch.setattr(held_deadlines.procfs, "alive", lambda _: True)
    found = held.deadlines()
    for pid in range(1, 9):
        found.set_running_clocks(pid, ["timeouts of uvloop"])
    found.stopped()
    held.later()
    assert held.told == ["keeps running while you hold the program: timeouts of uvloop (1, 2, 3 and 5 more)"]
