"""What is said about jobs and tells somebody to type something, typed on a real Slurm: here, or in a shell on the login node."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.engine.host_doors import typed_door
from tests.engine.projects import dkdbg, must
from tests.far.test_reload import Running
from tests.hints import in_shell, to_type
from tests.pages import environment

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("slurm")]

ON = ("--on", "slurm://login")
TRAIN = "import time\nprint('trains', flush=True)\nwhile True:\n    time.sleep(0.02)\n"
#: Answers as squeue does, and then something happens, once, before anybody acts on the answer.
SQUEUE = (
    '#!/bin/sh\n/usr/bin/squeue "$@"; code=$?\nif rm /tmp/then 2>/dev/null; then {then}; fi\nexit $code\n'
)


@pytest.fixture
def site(laptop):
    """The cluster, where `python` is a name of Python's and ~/train.py trains."""
    for host in laptop.containers:
        laptop.sh(host, "ln -sf /usr/bin/python3 /usr/local/bin/python")
    laptop.put("/home/me/train.py", TRAIN)
    yield laptop
    laptop.cancel_all()
    # The script of one that is cancelled before it runs, or ends slowly, stays: the next submit would, after an hour.
    laptop.sh("login", "rm -rf ~/.cache/dkdbg/job-*", user="me")


def comes_up(root: Path, line: str, ranks: int = 1) -> str:
    """Type a `dkdbg submit ...`, see that as many ranks come up and are attached to, and leave: what it has said."""
    typed = subprocess.Popen(
        ["sh", "-c", f"exec {line}"], cwd=root, env=environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    said = ""
    try:
        assert typed.stdout is not None
        while f": {ranks} of {ranks} ranks are up" not in said or "attach your editor to" not in said:
            read = typed.stdout.readline()
            assert read, said
            said += read
    finally:
        typed.send_signal(signal.SIGINT)
        said += typed.communicate(timeout=300)[0]
    assert typed.returncode == 0, said
    return said


def there(site, line: str) -> str:
    """What comes of typing it on the login node."""
    said: str = site.sh("login", f"{line} 2>&1", user="me", check=False)
    return said


@pytest.mark.usefixtures("site")
def test_a_submission_without_a_command_says_a_whole_one(tmp_path):
    [line] = to_type(
        dkdbg(tmp_path, "submit", *ON).stderr,
        "dkdbg submit --on slurm://LOGIN --nodes 2 -- python train.py; --interactive needs none",
    )
    said = comes_up(tmp_path, line.replace("LOGIN", "login"), 2)
    [line] = to_type(said, "job {} goes on; dkdbg attach {} comes back to it")
    with typed_door(tmp_path, line) as door:
        for rank in ("rank0 on node-12", "rank1 on node-22"):
            door.wait("target", target=rank)
        assert door.end() == 0


@pytest.mark.usefixtures("site")
@pytest.mark.skipif(shutil.which("squeue") is not None, reason="this machine has Slurm")
def test_where_there_is_no_slurm_the_login_node_is_to_be_named(tmp_path):
    [line] = to_type(
        dkdbg(tmp_path, "submit", "--", "python", "train.py").stderr,
        "name the login node: dkdbg submit --on {}://LOGIN ... -- python train.py",
    )
    comes_up(tmp_path, line.replace("LOGIN", "login").replace(" ...", ""))


def test_a_place_that_is_no_queue_says_where_jobs_go_and_how_to_run_at_once(site, tmp_path):
    new, inside = to_type(
        dkdbg(tmp_path, "submit", "--on", "ssh://login", "--", "hostname").stderr,
        "dkdbg submit --on slurm://LOGIN; what runs at once: dkdbg run --on {}",
    )
    assert must(in_shell(tmp_path, f"{inside} -- hostname")).stdout == "login\n"
    comes_up(tmp_path, new.replace("LOGIN", "login") + " -- python train.py")
    job = site.sh("login", "squeue -h --me -o %i", user="me")
    new, inside = to_type(
        dkdbg(tmp_path, "submit", "--on", f"slurm://login/{job}", "--", "hostname").stderr,
        "a new one: dkdbg submit --on {}://{}; in this one: dkdbg run --on {}",
    )
    assert must(in_shell(tmp_path, f"{inside} -- hostname")).stdout == "node-12\n"
    site.cancel_all()
    comes_up(tmp_path, f"{new} -- python train.py")


@pytest.mark.parametrize("scheme", ["slurm", "pbs"])
def test_a_job_that_has_ended_says_how_to_start_another(site, tmp_path, scheme):
    ended = site.job()
    site.sh("login", f"scancel {ended}", user="me")
    site.until(lambda: site.state(ended) == "CANCELLED")
    done = dkdbg(tmp_path, "run", "--on", f"{scheme}://login/{ended}", "--", "hostname")
    [line] = to_type(done.stderr, "start another: dkdbg submit --on {} -- python train.py")
    comes_up(tmp_path, line)


def test_a_job_that_waits_is_waited_for_by_attach(site, tmp_path):
    must(dkdbg(tmp_path, "submit", *ON, "--no-attach", "--hold", "--", "python", "train.py"))
    job = site.sh("login", "squeue -h --me -o %i", user="me")
    done = dkdbg(tmp_path, "run", "--on", f"slurm://login/{job}", "--", "hostname")
    attach, _ = to_type(done.stderr, "wait for it: dkdbg attach waits by itself, and so does dkdbg submit")
    with typed_door(tmp_path, f"{attach} slurm://login/{job}") as door:
        door.wait_for(lambda each: "has no nodes yet" in str(each.get("text")))
        site.sh("login", f"scontrol release {job}", user="me")
        door.wait("target")
        assert door.end() == 0


def test_who_keeps_a_job_that_waits_comes_back_to_it_by_what_is_said(site, tmp_path):
    submitted = Running(tmp_path, *ON, "--hold", "--", "python", "train.py", terminal=True, verb="submit")
    try:
        submitted.wait_for("JobHeldUser")
        os.write(submitted.keys, b"\x03")
        submitted.wait_for("[Y/n]")
        os.write(submitted.keys, b"n\n")
        assert submitted.process.wait(300) == 130
        submitted.wait_for("waits for it")
    finally:
        submitted.end()
    [line] = to_type(submitted.said, "job {} stays; dkdbg attach {} waits for it")
    with typed_door(tmp_path, line) as door:
        site.sh("login", "scontrol release $(squeue -h --me -o %i)", user="me")
        door.wait("target")
        assert door.end() == 0


def test_what_slurm_refuses_is_looked_up_by_the_command_that_is_said(site, tmp_path):
    def refused(*options: str) -> str:
        return dkdbg(tmp_path, "submit", *ON, *options, "--", "python", "train.py").stderr

    [line] = to_type(refused("--partition", "nope"), "sinfo there lists them: --partition NAME")
    assert "batch" in there(site, line)
    comes_up(tmp_path, "dkdbg submit --on slurm://login --partition batch -- python train.py")
    [line] = to_type(refused("--mem", "10T"), "sinfo -N -l there shows what they have")
    assert "1000" in there(site, line)  # megabytes
    site.cancel_all()
    comes_up(tmp_path, "dkdbg submit --on slurm://login --mem 900 -- python train.py")
    [line] = to_type(refused("--nope"), "sbatch --help there shows its options")
    assert "--mem" in there(site, line)


def test_jobs_that_are_not_there_and_those_that_are_are_listed_by_what_is_said(site, tmp_path):
    mine = site.job(options="-w node-12")
    for job in ("4711", f"{mine}_9"):
        done = dkdbg(tmp_path, "run", "--on", f"slurm://login/{job}", "--", "hostname")
        [line] = to_type(done.stderr, "squeue --me there shows your jobs")
        assert mine in there(site, line)
    done = dkdbg(tmp_path, "run", "--on", "pbs://login/4711", "--", "hostname")
    [line] = to_type(done.stderr, "qstat -u $USER there shows your jobs")
    assert mine in there(site, line)
    strangers = site.job(user="other", options="-w node-22")
    done = dkdbg(tmp_path, "run", "--on", f"slurm://login/{strangers}", "--", "hostname")
    [line] = to_type(done.stderr, "squeue --me there shows those")
    assert (mine in there(site, line), strangers in there(site, line)) == (True, False)


@pytest.fixture
def closed(site):
    """Only steps of a job get to its nodes; what is written to `then` happens right after squeue's next answer."""
    site.close_ssh()
    yield site
    site.sh("login", "rm -f /usr/local/bin/squeue /tmp/then", check=False)
    site.open_ssh()


def right_after_squeue(site, then: str) -> None:
    """Between squeue's next answer and what is done by it, something happens: once."""
    site.put("/tmp/squeue", SQUEUE.format(then=then))
    site.sh("login", "install -m 755 /tmp/squeue /usr/local/bin/squeue; rm /tmp/squeue")
    site.put("/tmp/then", "")


def test_a_job_that_ends_or_shrinks_while_it_is_entered_says_where_to_look(closed, tmp_path):
    job = closed.job(nodes=2)
    right_after_squeue(closed, f"scontrol update JobId={job} NodeList=node-12")
    done = dkdbg(tmp_path, "run", "--on", f"slurm://login/{job}/node-22", "--", "hostname")
    [line] = to_type(done.stderr, "squeue --me there shows which nodes it has")
    assert "node-12" in there(closed, line)
    over = f"scancel {job}; until /usr/bin/squeue -h -t all -j {job} -o %T | grep -q CANCELLED; do sleep 0.1; done"
    right_after_squeue(closed, over)
    done = dkdbg(tmp_path, "run", "--on", f"slurm://login/{job}", "--", "hostname")
    [line] = to_type(done.stderr, "squeue --me there shows your jobs and their nodes")
    assert job not in there(closed, line)


def test_a_node_of_pbs_that_lets_nobody_in_is_tried_by_what_is_said(closed, tmp_path):
    done = dkdbg(tmp_path, "run", "--on", f"pbs://login/{closed.job()}", "--", "hostname")
    [line] = to_type(done.stderr, "try on {}: ssh {} true")
    assert "Connection refused" in there(closed, line)
    closed.open_ssh()
    assert there(closed, line) == ""


def test_a_controller_that_does_not_answer_is_asked_by_what_is_said(site, tmp_path):
    job = site.job()
    site.sh("login", "pkill -x slurmctld; while pgrep -x slurmctld >/dev/null; do sleep 0.05; done")
    try:
        done = dkdbg(tmp_path, "run", "--on", f"slurm://login/{job}", "--", "hostname")
        [line] = to_type(done.stderr, "scontrol ping there says the same; ask whoever runs it, or try again")
        assert "DOWN" in there(site, line)
    finally:
        site.sh("login", "slurmctld")
    site.until(lambda: "UP" in there(site, line))
    assert (
        must(dkdbg(tmp_path, "run", "--on", f"slurm://login/{job}", "--", "hostname")).stdout == "node-12\n"
    )


def test_what_slurm_says_that_nobody_knows_is_tried_there(site, tmp_path):
    """Its programs without munged, for a moment."""
    job = site.job()
    site.sh("login", "pkill -x munged; while pgrep -x munged >/dev/null; do sleep 0.05; done")
    try:
        done = dkdbg(tmp_path, "run", "--on", f"slurm://login/{job}", "--", "hostname")
        [line] = to_type(done.stderr, "try there: squeue --jobs={}")
        assert "error" in there(site, line)
    finally:
        site.sh("login", "su -s /bin/sh munge -c /usr/sbin/munged")
    assert job in there(site, line)
