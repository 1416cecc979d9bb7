"""A thread that only beats runs on while the others of its process are held."""

import pytest

from tests.agent.dap_probe import Editor, wait_for

PROGRAM = """\
import os, threading, time
never = threading.Event()
def count(path):
    with open(path, "a", buffering=1) as out:
        while not os.path.exists("stop"):
            out.write(f"{time.monotonic():.1f}\\n")
            never.wait(0.05)
class Lease(threading.Thread):
    def run(self):
        count("lease")
threading.Thread(target=count, args=("work",), name="work").start()
threading.Thread(target=count, args=("beat",), name="heartbeat-1").start()
Lease().start()
print("up", flush=True)
while not os.path.exists("stop"):
    time.sleep(0.02)
    n = 1
"""


@pytest.mark.parametrize("minor", [8, 13])
@pytest.mark.parametrize("is_late", [False, True], ids=["from the start", "late"])
def test_a_thread_that_beats_runs_on_by_the_true_clock_while_the_others_are_held(
    program, under, tmp_path, minor, is_late
):
    wait = {} if is_late else {"wait": "300"}
    running = program(PROGRAM, options=("--beats", "heartbeat*, Lease"), **wait, **under(minor))
    if is_late:
        assert running.process.stdout.readline() == b"up\n"

    def lines(name):
        return len((tmp_path / name).read_text().splitlines())

    with Editor(running.port, {running.script: [18]}, hold=True) as editor:
        stop = editor.wait_stops(1)[0]
        held, beaten, leased = lines("work"), lines("beat"), lines("lease")
        wait_for(
            lambda: (lines("beat"), lines("lease")), lambda now: now[0] > beaten + 20 and now[1] > leased + 20
        )
        assert lines("work") <= held + 1
        first, last = ((tmp_path / "beat").read_text().split()[-20 + each] for each in (0, 19))
        assert float(last) - float(first) > 0.5
        (tmp_path / "stop").touch()
        stop.go_on(without=running.script)
        running.ends()
