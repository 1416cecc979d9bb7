"""What hinders PBS places, by Torque's own commands; behind them stands Slurm (Debian's slurm-wlm-torque), not a PBS.

test_recipes.py has what works.
"""

import pytest

from tests.engine.projects import dkdbg

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("slurm")]

ON = ("--on", "pbs://login")


def test_what_hinders_has_its_cause(laptop, tmp_path):
    held = laptop.job(options="--hold")
    cases = {
        held: f"job {held} has no nodes yet: it is queued",
        "4711": "PBS has no job 4711",
        "x": "'x' is not a job",
    }
    for job, cause in cases.items():
        done = dkdbg(tmp_path, "run", "--on", f"pbs://login/{job}", "--", "hostname")
        assert cause in done.stderr
        assert "hint: " in done.stderr
    refused = dkdbg(tmp_path, "submit", *ON, "-q", "nope", "--", "hostname")
    assert "there is no such partition" in refused.stderr
    laptop.close_ssh()
    try:
        running = laptop.job()
        done = dkdbg(tmp_path, "run", "--on", f"pbs://login/{running}", "--", "hostname")
        assert "no command can be run on node-12" in done.stderr
        assert "Connection refused" in done.stderr
    finally:
        laptop.open_ssh()
