"""`dkdbg verify --on` proves a run two hops away, with the files copied there, and leaves nothing there."""

import json

import pytest

from tests.engine.projects import LOOP, dkdbg, repo

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("far")]


@pytest.mark.usefixtures("laptop")
def test_a_run_behind_two_hops_is_proven(tmp_path):
    root = repo(tmp_path / "shop", {"train.py": LOOP})
    done = dkdbg(
        root, "verify", "--on", "ssh://login,node1/~/shop", "--sync", "--json", "--", "python3", "train.py"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout)
    assert said["stop"]["function"] == "step"
    assert "/home/me/shop/train.py (disk)" in next(
        each["seen"] for each in said["links"] if each["link"] == "mapping"
    )
