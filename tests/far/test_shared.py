"""Code that both machines have already, by a shared file system or sshfs: found, proved, compared, and nothing is sent."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from dkdbg.sync.shared import Mount, guesses, mounts
from tests.engine.projects import dkdbg
from tests.far.hosts import SHARED

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("far")]

NODE = "ssh://login,node1"


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


SHOWS = "import os\nprint(os.getcwd(), os.environ['DKDBG_MAPPINGS'])\n"


@pytest.fixture
def code(laptop):
    """The user's folder with two files, on a file system that this machine and both hosts have mounted, each elsewhere."""
    folder = laptop.shared / "my code"
    folder.mkdir()
    (folder / "train.py").write_text(SHOWS)
    (folder / "other.py").write_text("x = 1\n")
    for each in (folder, *folder.iterdir()):
        os.chown(each, 1000, 1000)
    yield folder
    shutil.rmtree(folder)


def test_a_shared_folder_is_recognised_or_computed_from_what_both_have_mounted_and_only_compared(code):
    before = names(code)
    there = f"{SHARED['node1']}/my code"
    for words, said in (
        (
            (NODE, "--to", there),
            f"{there} on the target and your local {code} are the same folder: nothing is sent",
        ),
        ((NODE,), f"{there} (it is mounted here)"),
        (("ssh://login",), f"{SHARED['login']}/my code (it is mounted here)"),
    ):
        done = dkdbg(code, "sync", *words, "--once")
        assert (done.returncode, done.stderr) == (0, ""), words
        assert said in done.stdout
        assert "2 equal, no difference" in done.stdout
    assert names(code) == before


def test_run_starts_in_the_folder_that_both_have_and_the_editor_is_told_where_it_lies(laptop, code):
    done = dkdbg(code, "run", "--sync", "--on", NODE, "--", "python3", "train.py")
    assert done.returncode == 0, done.stderr
    there = f"{SHARED['node1']}/my code"
    assert "is your local folder; files equal in both views: 2" in done.stderr
    folder, mappings = done.stdout.strip().split(" [")
    assert folder == there
    assert json.loads(f"[{mappings}") == [{"localRoot": "${workspaceFolder}", "remoteRoot": there}]
    assert names(code) == ["other.py", "train.py"]
    assert laptop.sh("node1", "ls -d /home/me/dkdbg 2>/dev/null", check=False) == ""


def test_a_folder_that_only_looks_the_same_is_not_taken_for_it(laptop, tmp_path):
    """The same path and the same files on both machines, but two folders."""
    (tmp_path / "train.py").write_text(SHOWS)
    laptop.sh("node1", f"install -d -o me -g me '{tmp_path}'")
    laptop.put("node1", f"{tmp_path}/train.py", SHOWS)
    done = dkdbg(tmp_path, "sync", NODE, "--once")
    assert done.returncode == 2
    assert "names no folder" in done.stderr
    assert laptop.sh("node1", f"ls -A '{tmp_path}'") == "train.py"
    laptop.sh("node1", f"rm -r '{tmp_path}'")


@pytest.mark.skipif(
    shutil.which("sshfs") is None and not os.environ.get("CI"), reason="no sshfs (apt install sshfs)"
)
def test_an_sshfs_mount_is_found_by_its_source_and_only_compared(laptop, tmp_path):
    laptop.put("node1", "/home/me/code/train.py", SHOWS)
    laptop.put("node1", "/home/me/code/deep/other.py", "x = 1\n")
    mounted = tmp_path / "code"
    mounted.mkdir()
    words = ["sshfs", "-o", f"ssh_command={laptop.bin}/ssh -J login", "node1:code", str(mounted)]
    subprocess.run(words, check=True, timeout=300)
    try:
        done = dkdbg(mounted, "sync", NODE, "--once")
        assert (done.returncode, done.stderr) == (0, "")
        assert "/home/me/code (it is mounted here)" in done.stdout
        assert "equal, no difference" in done.stdout
        ran = dkdbg(mounted / "deep", "run", "--sync", "--on", NODE, "--", "pwd")
        assert ran.stdout == "/home/me/code/deep\n", ran.stderr
    finally:
        subprocess.run(["fusermount3", "-u", str(mounted)], check=True, timeout=300)
        laptop.sh("node1", "rm -r /home/me/code")
    assert laptop.sh("node1", "ls -A /home/me | grep -v '^\\.'", check=False) == ""


HERE = """\
22 28 0:20 / /sys rw,nosuid - sysfs sysfs rw
28 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
40 28 0:45 /me /home/me\\040too rw shared:2 - nfs4 nas:/export/home rw,vers=4.2
41 28 0:46 / /mnt/box rw - fuse.sshfs me@login:/scratch/me rw
42 28 0:47 / /mnt/home rw - fuse.sshfs me@login: rw
43 28 0:48 / /tmp rw - tmpfs tmpfs rw
no mount - at all
"""
THERE = """\
28 1 8:1 / / rw - ext4 /dev/sda1 rw
31 28 0:33 / /cluster/home rw - nfs4 nas:/export/home/me rw
32 28 0:34 / /cluster/all rw - nfs nas:/export rw
33 28 0:35 / /tmp rw - tmpfs tmpfs rw
"""


def test_a_folder_is_looked_for_where_both_have_the_same_source():
    for folder, found in (
        ("/home/me too/code", ["/cluster/home/code", "/cluster/all/home/me/code", "/home/me too/code"]),
        ("/mnt/box/a/b", ["/scratch/me/a/b", "/mnt/box/a/b"]),
        ("/mnt/home/code", ["/home/there/code", "/mnt/home/code"]),
        ("/tmp/x", ["/tmp/x"]),
        ("/srv/code", ["/srv/code"]),
    ):
        assert guesses(folder, mounts(HERE), mounts(THERE), "/home/there") == found
    assert mounts("\0\n - \n" + "x " * 9 + "- a b\n" + "1 2 3:4 / relative rw - ext4 /dev/x rw\n") == []
    assert mounts("1 2 3:4 / / rw - ext4 /dev/x rw") == [
        Mount(source="/dev/x", root="/", at="/", kind="ext4")
    ]
