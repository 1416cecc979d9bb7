"""What is left of a real torchrun job whose ranks are held when one of its processes, or all of them, end: nothing."""

import os
import signal

import pytest

from dkdbg.agent.state import procfs
from tests.agent.dap_probe import wait_for
from tests.agent.test_ranks_together import job  # noqa: F401


def gone(pids: set[int]) -> bool:
    return not any(procfs.alive(pid) for pid in pids)


@pytest.mark.parametrize("what", ["a rank is killed", "the launcher is killed", "Ctrl-C"])
def test_held_ranks_do_not_outlive_their_job(job, what):  # noqa: F811
    one = job(2)
    editor = one.attach()
    one.steps(editor)
    record = one.running.record()
    processes = {each["pid"] for each in record["processes"]}
    ranks = one.pids()
    if what == "a rank is killed":
        os.kill(ranks[1], signal.SIGKILL)
    elif what == "the launcher is killed":
        os.kill(record["child"], signal.SIGKILL)
    else:  # the terminal sends it to its foreground process group
        os.killpg(one.running.process.pid, signal.SIGINT)
    one.running.process.wait(300)
    wait_for(lambda: gone(processes), bool)
    wait_for(lambda: [each.closed for each in editor.sessions.values()], all)
