"""Hints about jobs are typed, and lead on, on a real Slurm."""

import os
import shutil
import time
from pathlib import Path

import pytest

from dkdbg import hints
from tests.engine.attach_proxies import attach_proxy, typed_proxy
from tests.engine.projects import dkdbg, must
from tests.engine.running import Running
from tests.hints import hinted
from tests.typed import typed

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("slurm")]

ON = ("--on", "slurm://login")
TRAIN = "import time\nprint('trains', flush=True)\nwhile True:\n    time.sleep(0.02)\n"
#: Answers as squeue does, and then something happens, once, before anybody acts on the answer.
SQUEUE = """\
#!/bin/sh
/usr/bin/squeue "$@"; code=$?
case "$*" in *--format=%N) if rm /tmp/then 2>/dev/null; then {then}; fi ;; esac  # the last call of an answer
exit $code
"""


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
    with typed(root, line, root / f"{time.monotonic_ns()}.log") as submitted:
        submitted.wait(f": {ranks} of {ranks} ranks are up", "attach your editor to")
        assert submitted.end() == 0, submitted.said
        return submitted.said


@pytest.mark.usefixtures("site")
def test_a_submission_without_a_command_says_a_whole_one(tmp_path):
    [line] = hinted(dkdbg(tmp_path, "submit", *ON).stderr, hints.SUBMIT)
    [line] = hinted(comes_up(tmp_path, line), hints.JOB_GOES_ON)
    with typed_proxy(tmp_path, line) as proxy:
        proxy.wait("target", target="rank0 on node-12")
        assert proxy.end() == 0


@pytest.mark.usefixtures("site")
@pytest.mark.skipif(shutil.which("squeue") is not None, reason="this machine has Slurm")
def test_where_there_is_no_slurm_the_login_node_is_to_be_named(tmp_path):
    refused = dkdbg(tmp_path, "submit", "--", "python", "train.py")
    assert refused.returncode
    assert "dkdbg submit --on slurm://LOGIN" in refused.stderr


def test_a_place_that_is_no_queue_says_where_jobs_go_and_how_to_run_at_once(site, tmp_path):
    refused = dkdbg(tmp_path, "submit", "--on", "ssh://login", "--", "hostname")
    assert "dkdbg run --on ssh://login" in refused.stderr
    assert must(dkdbg(tmp_path, "run", "--on", "ssh://login", "--", "hostname")).stdout == "login\n"
    target = f"slurm://login/{site.job()}"
    assert f"dkdbg run --on {target}" in dkdbg(tmp_path, "submit", "--on", target, "--", "hostname").stderr
    assert must(dkdbg(tmp_path, "run", "--on", target, "--", "hostname")).stdout == "node-12\n"


def test_a_job_that_has_ended_says_how_to_start_another(site, tmp_path):
    ended = site.job()
    site.sh("login", f"scancel {ended}", user="me")
    site.until(lambda: site.state(ended) == "CANCELLED")
    for scheme in ("slurm", "pbs"):
        done = dkdbg(tmp_path, "run", "--on", f"{scheme}://login/{ended}", "--", "hostname")
        [line] = hinted(done.stderr, hints.JOB_ANOTHER)
        assert f"--on {scheme}://login " in line
    comes_up(tmp_path, line)


def test_a_job_that_waits_is_kept_and_waited_for_by_what_is_said(site, tmp_path):
    submitted = Running(tmp_path, *ON, "--hold", "--", "python", "train.py", terminal=True, verb="submit")
    try:
        submitted.wait_for("JobHeldUser")
        os.write(submitted.keys, b"\x03")
        submitted.wait_for("[Y/n]")
        os.write(submitted.keys, b"n\n")
        assert submitted.process.wait(300) == 130
        submitted.wait_for("dkdbg attach slurm://")
    finally:
        submitted.end()
    job = site.sh("login", "squeue -h --me -o %i", user="me")
    target = f"slurm://login/{job}"
    assert f"dkdbg attach {target}" in submitted.said
    assert "dkdbg attach" in dkdbg(tmp_path, "run", "--on", target, "--", "hostname").stderr
    with attach_proxy(tmp_path, target) as proxy:
        proxy.wait_for(lambda each: "has no nodes yet" in str(each.get("text")))
        site.sh("login", f"scontrol release {job}", user="me")
        proxy.wait("target")
        assert proxy.end() == 0


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


def test_a_job_that_ends_or_shrinks_while_it_is_entered_is_refused(closed, tmp_path):
    job = closed.job(nodes=2)
    right_after_squeue(closed, f"scontrol update JobId={job} NodeList=node-12")
    done = dkdbg(tmp_path, "run", "--on", f"slurm://login/{job}/node-22", "--", "hostname")
    assert done.returncode
    assert "hint: squeue" in done.stderr
    over = f"scancel {job}; until /usr/bin/squeue -h -t all -j {job} -o %T | grep -q CANCELLED; do sleep 0.1; done"
    right_after_squeue(closed, over)
    done = dkdbg(tmp_path, "run", "--on", f"slurm://login/{job}", "--", "hostname")
    assert done.returncode
    assert "hint: squeue" in done.stderr
