"""The mapping as it is in the container: links get both of their names, mounts are told from the image."""

import json
import os
import subprocess
import sys

from dkdbg.agent.state import mapping, procfs

WORKSPACE = "${workspaceFolder}"


def test_a_linked_root_is_followed_by_its_real_path(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "app").symlink_to(tmp_path / "real")
    found = mapping.checked([(WORKSPACE, str(tmp_path / "app"))], ["/", str(tmp_path)])
    assert found == [
        {"localRoot": WORKSPACE, "remoteRoot": str(tmp_path / "app"), "exists": True, "kind": "mount"},
        {"localRoot": WORKSPACE, "remoteRoot": str(tmp_path / "real"), "exists": True, "kind": "mount"},
    ]


def test_a_root_under_the_images_own_file_system_is_no_mount_and_a_missing_one_is_said_to_be(tmp_path):
    assert mapping.checked([("a", "/no/such")], ["/"])[0]["exists"] is False
    points = ["/", "/proc", str(tmp_path)[:-1]]  # a longer name with the same beginning is another folder
    assert [entry["kind"] for entry in mapping.checked([("a", str(tmp_path))], points)] == ["image"]
    assert [entry["kind"] for entry in mapping.checked([("a", str(tmp_path))], None)] == ["unknown"]


def test_unreadable_settings_are_no_reason_to_fail():
    assert mapping.configured("") == mapping.configured("nonsense") == mapping.configured('{"a": 1}') == []
    assert mapping.configured('[{"localRoot": "x"}, 3, {"localRoot": "l", "remoteRoot": "/r"}]') == [
        ("l", "/r")
    ]


def test_mount_points_with_blanks_are_read(tmp_path):
    line = "36 35 98:0 /mnt1 /mnt\\040two rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"
    (tmp_path / "mountinfo").write_text(line)
    assert list(procfs.mounts(str(tmp_path / "mountinfo"))) == [("/mnt1", "/mnt two", "ext3")]


def test_the_command_prints_it(layout, tmp_path):
    pairs = [{"localRoot": WORKSPACE, "remoteRoot": str(tmp_path)}]
    environment = dict(os.environ, DKDBG_MAPPINGS=json.dumps(pairs), DKDBG_PYTHON=sys.executable)
    out = subprocess.check_output([str(layout / "agent.pyz"), "mapping"], env=environment)
    (entry,) = json.loads(out)
    assert entry["remoteRoot"] == str(tmp_path)
    assert entry["exists"] is True
