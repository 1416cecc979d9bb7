"""`dkdbg ps`, `dkdbg pdb` and `dkdbg where` reach sessions in containers."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from dkdbg.delivery import single_file
from tests.engine.projects import dkdbg, unique

pytestmark = pytest.mark.engine

CODE = "import time\nn = 0\nwhile True:\n    n += 1\n    time.sleep(0.01)\n"


@pytest.fixture
def container(base_image, tmp_path):
    """A container with the agent as a debug service has it."""
    folder = tmp_path / ".dkdbg"
    folder.mkdir()
    (folder / single_file.NAME).write_bytes(single_file.build((3, 11)))
    name = unique("dkdbg-test-ps")
    subprocess.run(
        [
            "docker", "run", "-d", "--name", name, "--label", "dev.dkdbg.session=ps-test", "-v", f"{folder}:/opt/dkdbg:ro",
            "-e", "DKDBG_HOST=0.0.0.0", "-e", "DKDBG_NAME=ps-test", "-e", "DKDBG_RUNTIME_DIR=/tmp/dkdbg",
            "-p", "127.0.0.1:0:5678", base_image, "sh", "/opt/dkdbg/agent.pyz", "launch", "--", "python3", "-c", CODE,
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    yield name
    subprocess.run(["docker", "rm", "-f", name], check=False, capture_output=True)


def listed(name, *words):
    done = dkdbg("/", "ps", "--json", *words)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["engine"] is None
    return next((each for each in found["sessions"] if each["target"] == f"container {name}"), None)


def test_a_session_in_a_container_is_listed_entered_and_seen_to_end(container):
    end = time.monotonic() + 300
    while not ((row := listed(container)) and row["state"] == "running" and row["processes"]):
        assert time.monotonic() < end, row
        time.sleep(0.1)
    port = subprocess.run(
        ["docker", "port", container, "5678"], check=True, capture_output=True, text=True
    ).stdout.strip()
    assert (row["name"], row["endpoint"], row["client"]) == ("ps-test", port, False)
    done = subprocess.run(
        [sys.executable, "-m", "dkdbg", "pdb", container], input="p n > 0\nq\n", capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, "True\n" in done.stdout) == (0, True), done.stdout + done.stderr
    end = time.monotonic() + 300
    while (
        "in <module> at <string>:" not in (where := dkdbg("/", "where", container)).stdout
    ):  # it may answer late
        assert time.monotonic() < end, where.stdout + where.stderr
    assert f"ps-test (container {container}): 1 process" in where.stdout, where.stdout + where.stderr
    subprocess.run(["docker", "kill", container], check=True, capture_output=True)
    assert listed(container) is None
    assert listed(container, "--all")["state"] == "exited"
