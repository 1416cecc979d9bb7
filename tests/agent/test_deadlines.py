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
from dkdbg.agent.supervisor import held_deadlines, pending_collectives
from tests.agent.dap_probe import Editor, wait_for

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
        probe = "goes on while you hold the program: the livenessProbe restarts the container main after 30 s without an answer"
        wait_for(lambda: "".join(editor.output), lambda text: probe in text)
        stop = editor.wait_stops(1)[0]
        slurm = "Slurm ends job 12 in 49 min (more time: scontrol update JobId=12 TimeLimit=+60)"
        said = wait_for(lambda: "".join(editor.output), lambda text: slurm in text)
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


class Clock:
    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr(held_deadlines.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(held_deadlines.time, "time", lambda: self.now)
        monkeypatch.setattr(
            held_deadlines.deadlines, "of_parents", lambda _: []
        )  # that of `timeout 600 pytest`


def made(own, waits, told, pids=list, changed=list):
    return held_deadlines.HeldDeadlines(
        own, waits=waits, ask=list, name_of=str, pids=pids, told=told.append, changed=changed
    )


@pytest.mark.core
def test_steps_do_not_repeat_the_line_and_a_near_end_does(monkeypatch):
    clock, told = Clock(monkeypatch), []
    own = [{"what": "Slurm ends job 12", "ends": 1000.0 + 400, "after": None, "lift": ""}]
    found = made(own, list, told)
    found.attached()
    assert told == []  # its end is not near: at the stop is early enough
    for _ in range(30):  # steps of one second
        found.stopped()
        clock.now += 1
        found.held()
    assert len(told) == 1
    for _ in range(360):
        found.held()
        clock.now += 1
    assert [line.rpartition(" in ")[2] for line in told] == ["6 min", "5 min", "60 s"]


@pytest.mark.core
def test_a_near_end_that_is_only_found_at_the_stop_is_told_once(monkeypatch):
    clock, told = Clock(monkeypatch), []
    timeout = {"what": "timeout (pid 7) ends its command", "ends": 1052.0, "after": None, "lift": ""}
    monkeypatch.setattr(held_deadlines.deadlines, "of_parents", lambda _: [timeout])
    found = made([], list, told)
    found.stopped()
    for _ in range(20):
        clock.now += 1
        found.held()
    assert told == ["goes on while you hold the program: timeout (pid 7) ends its command in 51 s"]


@pytest.mark.core
def test_ranks_that_wait_are_asked_again_before_the_stop_is_told(monkeypatch):
    clock, told = Clock(monkeypatch), []
    waits = [{"what": "ranks 1, 2: giving up in barrier", "ends": 1032.5, "after": None, "lift": ""}]
    found = made([], lambda: waits, told)
    found.stopped()
    found.held()
    assert told == []
    clock.now += 1
    found.held()
    assert told == ["goes on while you hold the program: ranks 1, 2: giving up in barrier in 31 s"]
    waits.clear()
    clock.now += 100
    found.stopped()
    clock.now += 1
    found.held()
    assert len(told) == 1


@pytest.mark.core
def test_a_stop_does_not_wait_for_a_look_at_all_processes_and_the_record_has_what_the_line_tells(monkeypatch):
    clock, told, looks, records = Clock(monkeypatch), [], [], []
    waits = [{"what": "ranks 1, 2: giving up in barrier", "ends": 1032.5, "after": None, "lift": ""}]
    found = made(
        [],
        lambda: waits,
        told,
        pids=lambda: looks.append(1) or [],
        changed=lambda current: records.append((current, len(told))),
    )
    found.stopped()
    assert looks == []
    clock.now += 1
    found.held()
    assert looks == [1]
    assert records == [(waits, 0)]
    assert len(told) == 1


@pytest.mark.core
def test_a_time_without_end_is_not_told_and_what_was_added_ends_with_the_next_attach(monkeypatch):
    clock, told = Clock(monkeypatch), []
    waits = [{"what": "rank 1: giving up in barrier", "ends": math.inf, "after": None, "lift": ""}]
    found = made([], lambda: waits, told)
    found.add({"what": "rank 2: giving up", "ends": None, "after": math.inf, "lift": ""})
    found.add({"what": "rank 3: giving up", "ends": None, "after": 30.0, "lift": ""})
    found.stopped()
    clock.now += 1
    found.held()
    assert told == 2 * ["goes on while you hold the program: rank 3: giving up after 30 s without an answer"]
    found.attached()
    assert found.current() == []


@pytest.mark.core
def test_a_rank_that_has_ended_waits_no_longer_in_its_collective(monkeypatch):
    alive = {1, 2}
    monkeypatch.setattr(pending_collectives.procfs, "alive", alive.__contains__)
    monkeypatch.setattr(pending_collectives.duration, "later", lambda *_: None)
    found = pending_collectives.PendingCollectives(str, list, list)
    for pid in (1, 2, 1, 2):
        found.note(pid, "barrier", 5.0, 100.0)
    assert [each["what"] for each in found.deadlines()] == ["1, 2: giving up in barrier"]
    alive.remove(1)
    assert [each["what"] for each in found.deadlines()] == ["2: giving up in barrier"]


@pytest.mark.core
def test_a_timeout_without_end_around_the_agent_is_no_deadline(monkeypatch):
    monkeypatch.setattr(held_deadlines.deadlines, "_timeout_of", lambda _: math.inf)
    assert held_deadlines.deadlines.of_parents([os.getpid()]) == []


WAITING = """
import datetime, queue, select, sys, threading, time
from dkdbg.agent.inprocess.clocks import running_clocks

def work():
    CALL

threading.Thread(target=work, daemon=True).start()
end = time.monotonic() + 50
while not (found := running_clocks.found()) and sys.argv[1] == "some" and time.monotonic() < end:
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
        ("sys.modules['gevent'] = sys.modules['uvloop'] = sys", "timeouts of uvloop', 'timeouts of gevent"),
        ("end = datetime.datetime.now(); time.sleep(60)", "datetime.now() at p.py:6"),
        (
            "for _ in range(60):\n        if not threading: break\n        time.sleep(1)",
            "counted naps at p.py:8",
        ),
        (
            "tries = 60\n    while tries > 0:\n        tries -= 1\n        time.sleep(1)\n        if not tries:\n            return",
            "counted naps at p.py:9",
        ),
        ("for epoch in range(60):\n        time.sleep(1)", None),
        (
            "end = time.time() + 60\n    while time.time() < end:\n        time.sleep(1)\n        if not threading: return",
            None,
        ),
        ("lock = threading.Lock(); lock.acquire(); lock.acquire()", None),
        ("queue.Queue().get(timeout=60)", None),
    ],
)
def test_waits_of_c_with_a_timeout_are_seen_in_the_stacks(tmp_path, call, found):
    (tmp_path / "p.py").write_text(WAITING.replace("CALL", call))
    words = [sys.executable, "p.py", "some" if found else "none"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout == (f"['{found}']\n" if found else "[]\n")


def test_a_clock_of_many_processes_is_told_once(monkeypatch):
    clock, told = Clock(monkeypatch), []
    monkeypatch.setattr(held_deadlines.procfs, "alive", lambda _: True)
    found = made([], list, told)
    for pid in range(1, 9):
        found.note_clocks(pid, ["timeouts of uvloop"])
    found.stopped()
    clock.now += 1
    found.held()
    assert told == ["goes on while you hold the program: timeouts of uvloop (1, 2, 3 and 5 more)"]
