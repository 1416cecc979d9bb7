"""`dkdbg ps`, `dkdbg pdb` and `dkdbg where` reach sessions in containers."""

import json

import pytest

from tests.agent.dap_probe import wait_for
from tests.engine.attach_proxies import Containers, docker, lay_out
from tests.engine.projects import dkdbg, must

pytestmark = pytest.mark.engine

CODE = "import time\nn = 0\nwhile True:\n    n += 1\n    time.sleep(0.01)\n"


def test_a_session_in_a_container_is_listed_entered_and_seen_to_end(base_image, tmp_path):
    containers = Containers(lay_out(tmp_path, loop=CODE), base_image)
    name = containers.name()
    target = f"container {name}"

    def listed(*words):
        found = json.loads(must(dkdbg(tmp_path, "ps", "--json", *words)).stdout)
        assert found["engine"] is None
        return next((each for each in found["sessions"] if each["target"] == target), {"state": "none"})

    try:
        containers.run("python3", "loop.py", name=name, DKDBG_WAIT="0")
        row = wait_for(listed, lambda row: row["state"] == "running" and row["processes"])
        assert (row["name"], row["endpoint"], row["client"]) == (name, docker("port", name, "5678"), False)
        assert "True\n" in must(dkdbg(tmp_path, "pdb", name, text="p n > 0\nq\n")).stdout
        # It may answer late.
        said = wait_for(lambda: dkdbg(tmp_path, "where", name).stdout, lambda said: "in <module> at " in said)
        assert f"{name} (container {name}): 1 process" in said
        docker("kill", name)
        assert listed()["state"] == "none"
        assert listed("--all")["state"] == "exited"
    finally:
        containers.remove()
