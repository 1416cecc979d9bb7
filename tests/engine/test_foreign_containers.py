"""`dkdbg attach docker://NAME` of a container that dkdbg did not start says what is there, and its advice works."""

from __future__ import annotations

import json
import re
import subprocess
import time

import pytest

from dkdbg.targets.container import Container
from dkdbg.targets.foreign import advice
from dkdbg.targets.pythons import pythons_in
from tests.engine.host_doors import host_door
from tests.engine.projects import dkdbg, must, unique

pytestmark = pytest.mark.engine

LINE = "7\t1\t\t/usr/bin/python3.11\tpython3\t-c\timport time; time.sleep(1e6)\t"


@pytest.fixture(scope="module")
def foreign(base_image, tmp_path_factory):
    """A container whose system lets nobody enter a process."""
    name = unique("dkdbg-test-foreign")
    profile = tmp_path_factory.mktemp("seccomp") / "profile.json"
    denied = {"names": ["ptrace"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [denied]}))
    command = [
        "docker",
        "run",
        "-d",
        "--init",
        "--security-opt",
        f"seccomp={profile}",
        "--name",
        name,
        base_image,
        "python3",
        "-c",
        "import time; time.sleep(1e6)",
    ]
    subprocess.run(command, check=True, capture_output=True)
    look = ["docker", "exec", name, "sh", "-c", "readlink /proc/[0-9]*/exe"]
    end = time.monotonic() + 300
    while b"python" not in (seen := subprocess.run(look, check=False, capture_output=True).stdout):
        assert time.monotonic() < end, seen
    yield name
    subprocess.run(["docker", "rm", "-f", name], check=False, capture_output=True)


def said_about(root, target, last):
    """What attach says of a target, up to a text."""
    with host_door(root, target) as door:
        with door.changed:
            there = door.changed.wait_for(lambda: any(last in each["text"] for each in door.events), 300)
        assert there, door.events
        assert door.end() == 0
        return "\n".join(each["text"] for each in door.events)


def test_a_container_without_an_agent_is_described_and_the_advice_works(tmp_path, foreign):
    said = said_about(tmp_path, f"docker://{foreign}", "dkdbg run --on")
    assert re.search(r"process \d+ \(Python 3\.11\): python3 -c 'import time; time.sleep\(1e6\)'", said), said
    words = re.search(r"dkdbg (run --on docker://\S+) --wait --attach -- ", said)[1]
    assert must(dkdbg(tmp_path, *words.split(), "--", "python3", "-c", "print(6 * 7)")).stdout == "42\n"


def test_a_typo_is_told_from_a_container_that_may_come(tmp_path, foreign):
    said = said_about(tmp_path, f"docker://{foreign[:-1]}x", "did you mean")
    assert f"did you mean docker://{foreign}?" in said


def container(**more):
    return Container(
        id="1",
        name="box",
        label="",
        running=True,
        host_network=False,
        published={5678: "0.0.0.0:41000"},
        **more,
    )


def test_a_plain_debugpy_in_it_is_reached_by_its_published_port():
    found = pythons_in(
        "1\t0\t\t/usr/bin/python3.12\tpython3\t-m\tdebugpy\t--listen\t0.0.0.0:5678\ttrain.py\t\n"
    )
    assert "dkdbg attach 127.0.0.1:41000" in advice(container(), found)[1]


def test_what_a_container_says_of_itself_commands_no_terminal_and_no_shell():
    hostile = "8\t1\t\t/usr/bin/python3\tpython3\t$(reboot)\t\n9\t1\t\t/usr/bin/python3\t\x1b[2J\t\n" + LINE
    found = pythons_in(hostile)
    assert [each.pid for each in found] == [7, 8]
    assert "-- python3 '$(reboot)'" in "\n".join(advice(container(), found[1:]))
