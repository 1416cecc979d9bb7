"""`dkdbg attach ssh://... --pid N` enters a Python that dkdbg did not start, two hops away, and leaves it running."""

import pytest

from tests.agent.dap_probe import wait_for
from tests.engine.attach_proxies import attach_proxy
from tests.engine.projects import dkdbg
from tests.engine.test_entering import LOOP, stops

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("far")]

NODE = "ssh://login,node1"


@pytest.fixture
def program(laptop, tmp_path):
    """The number there of a program that runs without dkdbg, and how far it has come."""
    (tmp_path / "train.py").write_text(LOOP)
    laptop.put("node1", "/code/train.py", LOOP, user="root")
    begin = "cd /code; setsid python3 train.py >/tmp/steps </dev/null 2>&1 & echo $!"
    pid = laptop.sh("node1", begin, user="me")

    def steps():
        said = laptop.sh("node1", "tail -n 1 /tmp/steps").strip()
        return int(said) if said.isdigit() else 0

    wait_for(steps, bool)
    yield pid, steps
    laptop.sh("node1", "pkill -u me python3; rm -f /tmp/steps", check=False)


def test_a_running_python_two_hops_away_is_entered_left_and_entered_again(laptop, program, tmp_path):
    pid, steps = program
    seen = []
    for _ in range(2):
        with attach_proxy(tmp_path, NODE, options=("--pid", pid)) as proxy:
            seen.append(stops(tmp_path, proxy)[0])
            assert proxy.wait("entry")["entry"]["pathMappings"] == [
                {"localRoot": "${workspaceFolder}", "remoteRoot": "/code"}
            ]
            assert proxy.end() == 0
        after = steps()
        wait_for(lambda after=after: steps() > after, bool)
    assert seen == sorted(set(seen))
    assert "train.py" in "".join(laptop.processes("node1"))


def test_a_process_of_another_user_is_not_entered_and_the_reason_is_told(laptop, tmp_path):
    pid = laptop.sh("node1", "setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $!", user="other")
    try:
        done = dkdbg(tmp_path, "attach", NODE, "--pid", pid)
    finally:
        laptop.sh("node1", f"kill {pid}")
    assert done.returncode == 1
    assert "cannot be attached to: process" in done.stderr
    assert "belongs to user 1001, and this is user 1000" in done.stderr
    assert f"dkdbg run --on {NODE} --wait --attach" in done.stderr
