"""The agent's file that a program at a target was started with is found, by the name that its command line has."""

import subprocess
import sys

import pytest

from dkdbg.core import brought
from dkdbg.targets.batch import job_line


@pytest.mark.parametrize("name", ["agent.pyz", "./agent.pyz", ".dkdbg/agent.pyz"])
def test_an_agent_that_was_started_by_a_relative_path_is_found(tmp_path, name):
    """As a job script does, `srun sh .dkdbg/agent.pyz launch -- ...`: its session was not listed and not attached to."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    waits = "import sys; print(flush=True); sys.stdin.read()"
    words = [sys.executable, "-c", waits, name, "launch"]
    with subprocess.Popen(words, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout.readline()
        asked = [brought.finding_words(), ("sh", "-c", job_line.node_script("mark"))]
        found, told = (
            subprocess.run(each, capture_output=True, text=True, check=True).stdout for each in asked
        )
        running.stdin.close()
    assert f"{tmp_path}/{name}" in found.splitlines()
    assert brought.has_looked(found)
    assert str(path) in job_line.parse_node("mark", told).agents
