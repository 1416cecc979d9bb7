"""`dkdbg doctor` on the other side of ssh: the same checks, by the same script."""

import json

import pytest

from tests.engine.projects import dkdbg, must

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("far")]


def test_the_other_side_of_ssh_is_examined(laptop, tmp_path):
    rows = json.loads(must(dkdbg(tmp_path, "doctor", "--on", "ssh://login,node1", "--json")).stdout)[
        "findings"
    ]
    assert {each["check"] for each in rows} == {"shm"}  # a container stands for the node
    assert {each["target"] for each in rows} == {"ssh://login,node1"}
    laptop.sh("node1", "for each in /usr/bin/python3*; do chmod -x $each; done")
    try:
        done = dkdbg(tmp_path, "doctor", "ssh://login,node1")
        assert done.returncode == 1
        assert (
            "error: python: ssh://login,node1: no Python 3.8 or newer for the agent (none on PATH)"
            in done.stdout
        )
    finally:
        laptop.sh("node1", "for each in /usr/bin/python3*; do chmod +x $each; done")
    missing = dkdbg(tmp_path, "doctor", "ssh://login,nowhere")
    assert missing.returncode
    assert "hint: " in missing.stderr
