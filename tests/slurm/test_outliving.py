"""`dkdbg run` in a job, whose connection is cut: its input, output and exit code outlive that, and nothing outlives the job."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dkdbg.targets.batch.pbs import PBS
from dkdbg.targets.batch.slurm import SLURM
from tests.engine.projects import dkdbg, start
from tests.far.test_outliving import COUNTS, ECHO, passes_cuts
from tests.slurm.cluster import Cluster

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("slurm")]

CODE = "/home/me/code"
#: Ends all that belongs to the step of the srun through which we speak, as a site's cgroups (ProctrackType=proctrack/cgroup)
#: do at a step's end: this Slurm here has none, and lets go of what left its process group. A stand-in for them.
_END_OF_STEP = r"""
for each in /proc/[0-9]*; do
  case "$(tr '\0' ' ' <$each/cmdline 2>/dev/null)" in
    *agent*" relay "*" wait "|*agent*" relay "*" again ") sed -z -n 's/^SLURM_STEP_ID=//p' $each/environ | tr '\0' '\n' ;;
  esac
done 2>/dev/null | sort -u | while read -r step; do
  for each in /proc/[0-9]*; do
    tr '\0' '\n' <$each/environ 2>/dev/null | grep -qx "SLURM_STEP_ID=$step" && kill -9 "${each#/proc/}"
  done
done
exit 0
"""


@contextlib.contextmanager
def started(
    root: Path, cluster: Cluster, target: str, name: str, text: str
) -> Iterator[subprocess.Popen[bytes]]:
    """`dkdbg run` of a Python text; whatever happens, nothing of it stays."""
    cluster.put(f"{CODE}/{name}", text)
    words = ("run", "--on", target, "--", "python3", f"{CODE}/{name}")
    running = start(root, *words, bufsize=0, stdin=subprocess.PIPE, text=False)
    try:
        yield running
    finally:
        running.kill()
        running.communicate()
        cluster.kill_local_ssh()
        for host in cluster.containers:
            cluster.sh(
                host, "pkill -KILL -u me python3; rm -rf /tmp/dkdbg-relay-1000 /tmp/dkdbg-1000", check=False
            )
        for each in cluster.files_here():
            each.unlink(missing_ok=True)


@pytest.fixture
def job(laptop):
    laptop.put(f"{CODE}/here", "")
    return laptop.job(options=f"-D {CODE}")


@pytest.mark.parametrize("ways", ["ssh to nodes closed"], indirect=True)
def test_what_is_typed_and_printed_passes_cuts_once_and_in_order(ways, job, tmp_path):
    """With ssh to the nodes open it is what tests/far/test_outliving.py does."""
    with started(tmp_path, ways, f"slurm://login/{job}", "echo.py", ECHO) as running:
        assert running.stdout.readline() == b"up\n"
        cuts = (
            ways.kill_local_ssh,
            lambda: ways.sh("node-12", _END_OF_STEP),
            lambda: ways.sh("login", "pkill -KILL -u me -x sshd; pkill -KILL -u me -x ssh", check=False),
        )
        passes_cuts(running, cuts, ways.kill_local_ssh)


SLEEPS = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"


def test_programs_end_with_their_job_and_it_is_said_to_a_laptop_that_is_still_there(ways, job, tmp_path):
    target = f"slurm://login/{job}"
    with started(tmp_path, ways, target, "counts.py", COUNTS) as left:
        assert left.stdout.readline() == b"0\n"
        left.kill()
        left.wait()
        ways.kill_local_ssh()
        assert "counts.py" in dkdbg(tmp_path, "ps", target).stdout
        with started(tmp_path, ways, target, "sleeps.py", SLEEPS) as running:
            assert running.stdout.readline() == b"up\n"
            ways.sh("login", f"scancel {job}", user="me")
            _, err = running.communicate(timeout=300)
            assert running.returncode != 0
            assert f"job {job} has ended: C".encode() in err
            ways.until(lambda: "counts.py" not in ways.sh("node-12", "ps -u me -o args=", check=False))


@pytest.mark.parametrize("system", [SLURM, PBS], ids=["slurm", "pbs"])
def test_a_job_is_over_when_its_system_says_so_and_not_when_it_says_nothing(laptop, job, system):
    def over(number, shell=""):
        laptop.put(f"{CODE}/over.sh", f"{shell}\n{system.over(number)}\n")
        return laptop.sh("node-12", f"sh {CODE}/over.sh >/dev/null 2>&1; echo $?", user="me")

    assert over(job) == "1"
    assert over("4711") == "0"
    assert over(job, "squeue() { return 1; }; qstat() { return 1; }") == "1"
    laptop.sh("login", f"scancel {job}", user="me")
    laptop.until(lambda: over(job) == "0")
