"""Jobs that `dkdbg submit` makes, on a real Slurm: two nodes with two ranks each, attached to from here."""

import json
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.engine.attach_proxies import AttachProxy, attach_proxy, proxy_of
from tests.engine.projects import LOOP, dkdbg, must, start, write
from tests.kubernetes.ranks import editor
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("slurm")]

CODE = "/home/me/code"
ON = ("--on", "slurm://login")
TWO_BY_TWO = ("--nodes=2", "--ntasks-per-node", "2", "--in", CODE)


def submitted(root, *words: str, on: tuple[str, ...] = ON) -> AbstractContextManager[AttachProxy]:
    return proxy_of([sys.executable, "-m", "dkdbg", "submit", *on, "--json", *words], root)


def listening(events: AttachProxy) -> dict[str, Any]:
    return events.wait("listening", 300)


def test_a_job_beside_another_one_of_mine_on_the_same_node_is_itself_alone(laptop, tmp_path):
    write(tmp_path, **{"train.py": LOOP})
    laptop.put(f"{CODE}/train.py", (tmp_path / "train.py").read_text())
    jobs = []
    for _ in range(2):
        words = ("--nodelist=node-12", "--in", CODE, "--wait", "300", "--port", str(free_port()))
        with submitted(tmp_path, *words, "--", "python3", "train.py") as events:
            jobs.append(str(events.wait("job", 300)["job"]))
            listening(events)
            assert {each["up"] for each in events.events if each["event"] == "ranks"} <= {0, 1}
    for job in jobs:
        target = f"slurm://login/{job}"
        assert len(json.loads(must(dkdbg(tmp_path, "ps", "--json", target)).stdout)["sessions"]) == 1
        with attach_proxy(tmp_path, target) as proxy:
            proxy.wait("target")
            with editor(proxy.port, tmp_path, CODE) as debugger:
                frame = debugger.stack(debugger.wait_stopped(300))[0]
                assert debugger.evaluate("__import__('os').environ['SLURM_JOB_ID']", frame) == f"'{job}'"


@pytest.mark.core
@pytest.mark.parametrize("ways", ["ssh to nodes closed"], indirect=True)
def test_all_ranks_of_all_nodes_stop_at_a_breakpoint_that_was_set_here(ways, tmp_path):
    write(tmp_path, **{"train.py": LOOP})
    ways.put(f"{CODE}/train.py", (tmp_path / "train.py").read_text())
    words = (*TWO_BY_TWO, "--wait", "300", "--port", str(free_port()), "--", "python3", "train.py")
    with submitted(tmp_path, *words) as events:
        job = str(events.wait("job", 300)["job"])
        port = int(listening(events)["port"])
        assert events.wait("ranks", tasks=4, up=4)
        with editor(port, tmp_path, CODE) as debugger:
            stops = [debugger.wait_stopped(300) for _ in range(4)]
            says = "' '.join(__import__('os').environ[each] for each in ('SLURMD_NODENAME', 'SLURM_PROCID'))"
            where = {debugger.evaluate(says, debugger.stack(each)[0]) for each in stops}
        assert where == {"'node-12 0'", "'node-12 1'", "'node-22 2'", "'node-22 3'"}
        for rank in ("rank0 on node-12", "rank3 on node-22"):
            events.wait_for(lambda each, rank=rank: each.get("target") == rank)
        assert events.end() == 0
    assert ways.state(job) == "RUNNING"


def test_a_program_that_fails_at_once_is_shown_with_its_last_words(laptop, tmp_path):
    laptop.put(f"{CODE}/x", "")
    done = dkdbg(tmp_path, "submit", *ON, "-D", CODE, "--", "python3", "-c", "raise SystemExit('no data')")
    assert done.returncode == 1
    assert "has ended: FAILED (NonZeroExitCode)" in done.stderr
    assert "no data" in done.stderr
    assert f"{CODE}/slurm-" in done.stderr
    # Slurm might have requeued it: the next submit would, after an hour.
    laptop.sh("login", "rm -rf ~/.cache/dkdbg/job-*", user="me")


def test_what_slurm_refuses_is_said_and_nothing_is_left(laptop, tmp_path):
    done = dkdbg(tmp_path, "submit", *ON, "--partition", "nope", "--", "python3", "train.py")
    assert "there is no such partition" in done.stderr
    assert "hint: sinfo" in done.stderr
    done = dkdbg(tmp_path, "submit", *ON, "--nope", "--", "python3", "train.py")
    assert "sbatch does not accept this" in done.stderr
    assert not laptop.sh("login", "squeue -h")


def test_each_job_of_an_array_is_named_with_the_command_that_attaches_to_it(laptop, tmp_path):
    laptop.put(f"{CODE}/x", "")
    words = (
        "--array=0-1",
        "--in",
        CODE,
        "--wait",
        "300",
        "--",
        "python3",
        "-c",
        "import time; time.sleep(300)",
    )
    with submitted(tmp_path, *words) as events:
        job = str(events.wait("job", 300)["job"])
        named = events.wait("array", 300)
        assert events.process.wait(300) == 0
    assert f"dkdbg attach slurm://login/{job}_0" in named["text"]
    with attach_proxy(tmp_path, f"slurm://login/{job}_1") as proxy:
        proxy.wait("target", 300)
    laptop.sh("login", f"scancel {job}; rm -rf ~/.cache/dkdbg/job-*", user="me")


def test_ctrl_c_while_it_waits_cancels_the_job(laptop, tmp_path):
    with submitted(tmp_path, "--hold", "--", "python3", "train.py") as events:
        job = str(events.wait("job", 300)["job"])
        events.wait("state", 300, reason="JobHeldUser")
        events.process.send_signal(signal.SIGINT)
        assert events.process.wait(300) == 130
    laptop.until(lambda: laptop.state(job) == "CANCELLED")
    # Its script never ran: the next submit would, after an hour.
    laptop.sh("login", "rm -rf ~/.cache/dkdbg/job-*", user="me")


def test_a_connection_that_dies_while_the_job_is_submitted_makes_no_second_one(laptop, tmp_path):
    """sbatch answers late; by then there is no connection to answer by."""
    slow = '#!/bin/sh\n/usr/bin/sbatch "$@" && touch /tmp/has-it && sleep 20\n'
    laptop.sh("login", f"printf '%s' '{slow}' >/usr/local/bin/sbatch; chmod 755 /usr/local/bin/sbatch")
    try:
        with submitted(tmp_path, "--no-attach", "--hold", "--", "python3", "train.py") as events:
            laptop.until(lambda: laptop.sh("login", "ls /tmp/has-it", check=False))
            laptop.kill_local_ssh()
            job = str(events.wait("job", 300)["job"])
            assert events.process.wait(300) == 0
        assert laptop.sh("login", "squeue -h -o %i") == job
    finally:
        laptop.sh("login", "rm -f /usr/local/bin/sbatch /tmp/has-it; pkill -f 'sleep 20'", check=False)
        laptop.sh("login", "rm -rf ~/.cache/dkdbg/job-*", user="me")


def test_an_allocation_is_held_for_commands_and_used_again(laptop, tmp_path):
    laptop.put(f"{CODE}/x", "")
    words = ("submit", *ON, "--interactive", "-D", CODE, "-w", "node-22", "--gres", "gpu:1")
    held = start(tmp_path, *words, stdin=subprocess.PIPE)
    try:
        held.stdin.write("hostname; pwd\n")
        held.stdin.flush()
        assert [held.stdout.readline().strip() for _ in range(2)] == ["node-22", CODE]
        job = laptop.sh("login", "squeue -h --me -o %i", user="me")
        again = must(dkdbg(tmp_path, "submit", *ON, "--interactive", "--", "hostname"))
        assert again.stdout == "node-22\n"
        assert f"job {job} already holds nodes" in again.stderr
        laptop.put(f"{CODE}/train.py", "print('trains')\n")
        laptop.sh("node-22", "ln -sf /usr/bin/python3 /usr/local/bin/python")
        ran = must(dkdbg(tmp_path, "run", "--on", f"slurm://login/{job}", "--", "python", "train.py"))
        assert ran.stdout == "trains\n"
        refused = dkdbg(tmp_path, "submit", *ON, "--interactive", "--nodes", "2")
        assert "options only apply to a new one" in refused.stderr
        assert "dkdbg run --on slurm://login" in refused.stderr
        held.stdin.close()
        assert held.wait(300) == 0
        laptop.until(lambda: laptop.state(job) == "CANCELLED")
    finally:
        held.kill()
        held.wait()
