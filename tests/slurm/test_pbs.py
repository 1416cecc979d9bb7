"""PBS places, by Torque's own commands; behind them stands Slurm (Debian's slurm-wlm-torque), not a PBS."""

from __future__ import annotations

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.engine.projects import LOOP, dkdbg, marked_line, must, write
from tests.ports import free_port
from tests.slurm.test_submit import CODE, listening, submitted

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("slurm")]

ON = ("--on", "pbs://login")


def test_a_job_of_qsub_is_waited_for_and_stops_at_a_breakpoint_that_was_set_here(laptop, tmp_path):
    write(tmp_path, **{"train.py": LOOP})
    laptop.put(f"{CODE}/train.py", (tmp_path / "train.py").read_text())
    words = ("-l", "nodes=node-22:ppn=2:gpus=1", "--in", CODE, "--wait", "300", "--port", str(free_port()))
    with submitted(tmp_path, *words, "--", "python3", "train.py", on=ON) as events:
        job = str(events.wait("job", 300)["job"])
        port = int(listening(events)["port"])
        options = AttachOptions(host="127.0.0.1", port=port, path_mappings=((str(tmp_path), CODE),))
        with Debugger(options) as debugger:
            debugger.set_breakpoints(str(tmp_path / "train.py"), [marked_line(tmp_path / "train.py")])
            debugger.attach()
            top = debugger.stack(debugger.wait_stopped(300))[0]
            assert top.name == "step"
            assert debugger.evaluate("__import__('os').environ['CUDA_VISIBLE_DEVICES']", top) == "'0'"
        assert events.end() == 0
    target = f"pbs://login/{job}"
    assert f"pbs {job}/node-22" in must(dkdbg(tmp_path, "ps", target)).stdout
    ran = must(dkdbg(tmp_path, "run", "--on", target, "--", "hostname"))
    assert ran.stdout == "node-22\n"
    assert (
        "node-12 is not a node of job"
        in dkdbg(tmp_path, "run", "--on", f"{target}/node-12", "--", "x").stderr
    )


def test_what_hinders_has_its_cause(laptop, tmp_path):
    held = laptop.job(options="--hold")
    cases = {
        held: f"job {held} has no nodes yet: it is queued",
        "4711": "PBS knows no job 4711",
        "x": "'x' is no job",
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
