"""Nodes of a Slurm job, by a real Slurm: every verb there, with ssh to the nodes open and closed, and what hinders it."""

import json
import os
import re
import subprocess
from contextlib import ExitStack

import pytest

from dkdbg.delivery import single_file
from dkdbg.targets import registry
from tests.engine.attach_proxies import attach_proxy, docker
from tests.engine.projects import LOOP, dkdbg, must, started, write
from tests.far.test_ssh import ODD, SHOWS
from tests.kubernetes.ranks import editor
from tests.slurm.cluster import NODES

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("slurm")]

CODE = "/home/me/code"


@pytest.fixture
def job(laptop):
    laptop.put(f"{CODE}/here", "")
    return laptop.job(nodes=2, options=f"-D {CODE} --time=90")


def test_commands_run_on_the_jobs_nodes_in_its_folder(ways, job, tmp_path):
    done = dkdbg(
        tmp_path, "run", "--on", f"slurm://login/{job}/node-22", "--", "sh", "-c", "hostname; pwd; exit 7"
    )
    assert (done.returncode, done.stdout) == (7, f"node-22\n{CODE}\n"), done.stderr
    place = registry.target_of(f"slurm://login/{job}", tmp_path)
    try:
        shown = subprocess.run(
            place.wrap(["python3", "-c", SHOWS, *ODD]), capture_output=True, check=False, timeout=300
        )
        assert shown.stdout.split(b"\0") == [os.fsencode(each) for each in ODD], shown.stderr
        data = bytes(range(256)) * 2000 + b"\n~.\n\x04\x1a"
        echoed = subprocess.run(
            place.wrap(["cat"]), input=data, capture_output=True, check=False, timeout=300
        )
        assert (echoed.stdout, echoed.returncode) == (data, 0)
        assert subprocess.run(place.wrap(["no-such"]), capture_output=True, check=False).returncode == 127
    finally:
        place.close()
    ways.until(lambda: "dkdbg" not in ways.sh("login", f"squeue -h -s -j {job} -o %j").split())


def test_doctor_examines_the_node_of_a_job(job, tmp_path):
    target = f"slurm://login/{job}/node-22"
    rows = json.loads(must(dkdbg(tmp_path, "doctor", target, "--json")).stdout)["findings"]
    assert {(each["target"], each["check"]) for each in rows} == {
        (target, "shm")
    }  # a container stands for the node


def test_logs_shows_the_output_file_of_a_job(laptop, tmp_path):
    line = "echo 'the first'; echo 'the last' >&2; sleep 1000"
    target = f"slurm://login/{laptop.job(options='-o job-%j.out', line=line)}"
    laptop.until(lambda: "the last" in dkdbg(tmp_path, "logs", target).stdout)
    assert must(dkdbg(tmp_path, "logs", target)).stdout == "the first\nthe last\n"
    assert must(dkdbg(tmp_path, "logs", "--tail", "1", target)).stdout == "the last\n"
    write(tmp_path, **{".bashrc": "echo of the repository\n"})
    for words in (("sync", "--once", target), ("run", "--sync", "--on", target, "--", "true")):
        home = dkdbg(tmp_path, *words)
        assert (home.returncode, "runs in your home folder" in home.stderr) == (2, True), home.stderr
    laptop.sh("login", "rm ~/job-*.out; ! grep repository ~/.bashrc", user="me")
    other = dkdbg(tmp_path, "logs", target)
    assert (other.returncode, ".out does not exist yet" in other.stderr) == (1, True), other.stderr
    none = dkdbg(tmp_path, "logs", "ssh://login")
    assert none.returncode == 2
    assert "dkdbg run --on ssh://login -- python3 train.py 2>&1 | tee run.log" in none.stderr


@pytest.mark.parametrize("ways", ["ssh to nodes closed"], indirect=True)
def test_breakpoints_set_here_stop_on_all_nodes_behind_one_port_through_killed_connections(
    ways, job, tmp_path
):
    """With sync, ps, restart and pdb on the way. With ssh to the nodes open: tests/far/test_ranks.py, test_ssh.py and test_attach.py."""
    write(tmp_path, **{"train.py": LOOP})
    target = f"slurm://login/{job}"
    must(dkdbg(tmp_path, "sync", "--once", target))
    assert ways.sh("login", f"cat {CODE}/train.py") == (tmp_path / "train.py").read_text().strip()
    with ExitStack() as stack:
        programs = [
            stack.enter_context(
                started(
                    tmp_path, "run", "--on", f"{target}/{node}", "--wait", "300", "--", "python3", "train.py"
                )
            )
            for node in NODES
        ]
        for each in programs:  # the session is there when it says where
            assert any("waiting" in line for line in each.stderr)
        proxy = stack.enter_context(attach_proxy(tmp_path, target))
        here = str(tmp_path / "train.py")
        with editor(proxy.port, tmp_path, CODE) as debugger:
            stops = [debugger.wait_stopped(300) for _ in NODES]
            assert len({each.session for each in stops}) == 2
            more = f"(more time: scontrol update JobId={job} TimeLimit=+60)"
            debugger.wait_output(more, timeout=300)
            for each in stops:
                assert debugger.stack(each)[0].path == here
            stopped = stops[0]
            count = int(debugger.local_values(debugger.stack(stopped)[0])["n"])
            for _ in range(3):
                ways.kill_local_ssh()
                debugger.continue_(stopped)
                stopped = debugger.wait_stopped(300)
                count += 1
                assert stopped.session == stops[0].session
                assert int(debugger.local_values(debugger.stack(stopped)[0])["n"]) == count
        seen = json.loads(must(dkdbg(tmp_path, "ps", target, "--json")).stdout)["sessions"]
        assert {each["target"] for each in seen} == {f"slurm {job}/{node}" for node in NODES}
        limits = [limit for each in seen for limit in each["deadlines"]]
        assert {limit["what"] for limit in limits} == {f"Slurm ends job {job}"}
        assert all(0 < limit["left_s"] <= 90 * 60 for limit in limits)
        assert "restarted" in must(dkdbg(tmp_path, "restart", f"{target}/node-22")).stdout
        assert "42" in must(dkdbg(tmp_path, "pdb", f"{target}/node-12", text="p 6 * 7\nq\n")).stdout
        assert proxy.end() == 0
    for node in NODES:  # their connection was cut: nobody here tells them any more
        ways.sh(node, "pkill -INT -u me python3", check=False)


def test_a_job_that_is_requeued_on_another_node_is_attached_to_there(laptop, tmp_path):
    """Its script has started the program under the agent by a relative path, as from a checkout with `.dkdbg`; the user has named the job."""
    write(tmp_path, **{"train.py": LOOP})
    laptop.put(f"{CODE}/train.py", (tmp_path / "train.py").read_text())
    agent = tmp_path / "agent.pyz"
    agent.write_bytes(single_file.build((3, 11)))
    docker("cp", str(agent), f"{laptop.containers['login']}:{CODE}/agent.pyz")
    laptop.sh("login", f"chown me {CODE}/agent.pyz")
    line = "DKDBG_TRANSIENT=1 srun sh agent.pyz launch --port 0 --wait 300 --name rank0 -- python3 train.py"
    job = laptop.job(options=f"-D {CODE} --requeue -w node-12", line=line)
    node = "__import__('os').environ['SLURMD_NODENAME']"
    with (
        attach_proxy(tmp_path, f"slurm://login/{job}") as proxy,
        editor(proxy.port, tmp_path, CODE) as debugger,
    ):
        stop = debugger.wait_stopped(300)
        assert debugger.evaluate(node, debugger.stack(stop)[0]) == "'node-12'"
        laptop.sh("login", f"scontrol requeue {job}")
        debugger.wait_output("died of SIGTERM, while you held it at train.py:6 (breakpoint)", timeout=300)
        # Slurm lets a requeued job wait 120 s, and forgets an earlier start that it was told while the job still ends.
        now = f"scontrol update JobId={job} StartTime=now NodeList=node-22; squeue -h -j {job} -o %N"
        laptop.until(lambda: "node-22" in laptop.sh("login", f"{now} 2>&1", check=False))
        stop = debugger.wait_stopped(300)
        assert debugger.evaluate(node, debugger.stack(stop)[0]) == "'node-22'"
        assert not any("adapter died" in each.text for each in debugger.output)
        assert proxy.end() == 0


def test_each_part_of_a_heterogeneous_job_is_reached_by_its_name(ways, tmp_path):
    write(tmp_path, **{"train.py": LOOP})
    agent = tmp_path / "agent.pyz"
    agent.write_bytes(single_file.build((3, 11)))
    ways.put(f"{CODE}/train.py", (tmp_path / "train.py").read_text())
    docker("cp", str(agent), f"{ways.containers['login']}:{CODE}/agent.pyz")
    ways.sh("login", f"chown me {CODE}/agent.pyz")
    line = (
        f"cd {CODE}; export PYTHONPATH=$PWD/agent.pyz DKDBG_LISTEN=0 DKDBG_WAIT=300 DKDBG_TRANSIENT=1; "
        "srun --het-group=0,1 python3 train.py"
    )
    ways.put("/home/me/het.sh", f"#!/bin/sh\n{line}\n")
    job = ways.sh("login", "cd ~; sbatch --parsable -o /dev/null -N1 -n1 : -N1 -n1 het.sh", user="me")
    ways.until(lambda: ways.state(f"{job}").split() == ["RUNNING"] * 2)
    named = dkdbg(tmp_path, "ps", f"slurm://login/{job}")
    assert f"job {job} has several parts: {job}+0, {job}+1" in named.stderr
    for part in f"{job}+0", f"{job}+1":
        target = f"slurm://login/{part}"
        ways.until(lambda target=target: dkdbg(tmp_path, "ps", target).stdout.count(" waiting ") == 1)
        with attach_proxy(tmp_path, target) as proxy, editor(proxy.port, tmp_path, CODE) as debugger:
            debugger.wait_stopped(300)
            assert proxy.end() == 0
    ways.cancel_all()
    for node in NODES:  # in a container, which a test's node is, the agent stays for other programs
        ways.sh(node, "pkill -f '[a]ccompany'", check=False)
        ways.until(lambda node=node: not ways.sh(node, "pgrep -f '[a]ccompany'", check=False))
        ways.sh(node, "rm -rf /tmp/dkdbg-1000/*-*")


def test_a_job_with_two_programs_on_a_node_is_answered_with_an_address_for_each(laptop, job, tmp_path):
    write(tmp_path, **{"train.py": LOOP})
    target = f"slurm://login/{job}"
    laptop.put(f"{CODE}/train.py", (tmp_path / "train.py").read_text())
    with ExitStack() as stack:
        for _ in range(2):
            words = ("run", "--on", f"{target}/node-22", "--wait", "300", "--", "python3", "train.py")
            program = stack.enter_context(started(tmp_path, *words))
            assert any("waiting" in line for line in program.stderr)
        asked = dkdbg(tmp_path, "why", "train.py:6", "--on", target)
        assert asked.returncode == 2
        named = re.search(rf"--on ({target}/node-22:\S+)", asked.stderr)
        assert named, asked.stderr
        assert "waits for an editor" in dkdbg(tmp_path, "why", "train.py:6", "--on", named[1]).stdout


def test_a_job_without_nodes_to_enter_is_named_with_its_cause(laptop, tmp_path):
    """On the words of the real squeue, scancel and sshd."""
    held = laptop.job(options="--hold")
    ended = laptop.job()
    laptop.sh("login", f"scancel {ended}", user="me")
    laptop.until(lambda: laptop.state(ended) == "CANCELLED")
    strangers = laptop.job(user="other")
    mine = laptop.job(options="-w node-12")
    array = laptop.job(options="--array=1-2 --hold")
    cases = {
        held: "has no nodes yet: it is PENDING (JobHeldUser)",
        ended: "has ended: CANCELLED",
        "4711": "Slurm has no job 4711",
        strangers: "belongs to other, not to you (me)",
        f"{mine}/node-22": "node-22 is not a node of job",
        f"{mine}_9": "Slurm has no job",
        "x": "'x' is not a job",
        f"{mine}/-oProxyCommand=x": "names no target",
    }
    for rest, cause in cases.items():
        done = dkdbg(tmp_path, "run", "--on", f"slurm://login/{rest}", "--", "hostname")
        assert done.returncode, rest
        assert cause in done.stderr, (rest, done.stderr)
        assert "hint: " in done.stderr
        assert not done.stdout
    assert array


def test_what_is_asked_on_the_login_node_itself_is_answered(laptop, tmp_path):
    """The command line of `slurm:///JOB`, run there by hand: dkdbg is not installed in the image."""
    number = laptop.job(nodes=2)
    place = registry.target_of(f"slurm:///{number}", tmp_path)
    try:
        asked = place._line._system.show(number)
        said = laptop.sh("login", asked, user="me")
        found = place._line._system.read(number, 0, said, "")
        assert (found.phase, found.nodes) == ("running", ("node-12", "node-22"))
    finally:
        place.close()
