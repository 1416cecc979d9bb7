"""Targets as they are: other users, other Pythons, full and read-only disks, mounts, names that fold."""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dkdbg.sync.receiver import boot, wire
from dkdbg.sync.receiver.problems import Refused
from tests.agent.sync.conftest import snapshot
from tests.agent.sync.host import digest, entry, operations
from tests.commands import command
from tests.needs import give_up
from tests.pythons import MINORS, need

USER = 12345
ROOT_ONLY = "only root can become another user, and mount"


@pytest.fixture
def as_root():
    """What a test needs that becomes another user or mounts. A missing right skips on a laptop, and fails in CI."""
    if os.geteuid() != 0:
        give_up(ROOT_ONLY)


@pytest.fixture
def as_user(open_root, start):
    """Start receivers as a user who is not root, with a Python that this user may run."""
    for python in (sys.executable, "/usr/local/bin/python3", "/usr/bin/python3"):
        with contextlib.suppress(OSError):
            if not subprocess.run(
                [python, "-c", "import json"], user=USER, cwd=open_root, check=False
            ).returncode:
                return lambda: start(python, user=USER)
    pytest.skip("no Python here that another user may run")


@pytest.fixture
def open_root(tmp_path_factory, as_root):  # noqa: ARG001
    """A root that another user can reach: pytest's own folders are private."""
    folder = Path("/var/tmp") / f"dkdbg-test-{os.getpid()}-{tmp_path_factory.mktemp('x').name}"
    folder.mkdir(mode=0o755)
    (folder / "root").mkdir()
    yield folder / "root"
    shutil.rmtree(folder)


@pytest.fixture
def mounted(tmp_path, as_root):  # noqa: ARG001
    """Mount a tmpfs; where mounts are not allowed, the test is skipped with the reason."""
    places: list[Path] = []

    def mount(place, options):
        place.mkdir(parents=True, exist_ok=True)
        done = command(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=False)
        if done.returncode:
            give_up(f"no mount here: {done.stderr.strip()}")
        places.append(place)
        return place

    yield mount
    for place in reversed(places):
        subprocess.run(["umount", str(place)], check=True)
    assert str(tmp_path) not in Path("/proc/mounts").read_text()


@pytest.mark.parametrize("minor", [MINORS[0], MINORS[-1]])
def test_it_runs_under_the_oldest_and_the_newest_python(start, root, minor):
    python = need(minor)
    for _ in range(2):
        host = start(python)
        host.hello(root, probe=True)
        listing = host.entries(wire.LISTING)
        host.put("d/a", os.urandom(20))
        host.put("d/b", b"1")
        host.do(wire.LINK, {"path": "d/l", "target": "../d/a", "stamp": ""})
        host.do(wire.DELETE, {"path": "d/b"})
        host.do(wire.MODE, {"path": "d/a", "mode": 0o600, "stamp": ""})
        host.large("big", b"12")
        assert len(host.verify()) == 4
        assert host.entries(wire.REMOTE) == []
        assert host.failed == []
        host.bye()
    assert sorted(one[0] for one in listing) == ["big", "d", "d/a", "d/l"]


@pytest.mark.parametrize("minor", [6, 7])
def test_an_older_python_names_its_version_and_counts_as_missing(minor):
    python = need(minor)
    argv, first = boot.command(python), boot.payload()
    done = subprocess.run(argv, input=first, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (127, b"", f"Python 3.{minor}\n".encode())


def test_a_locale_without_utf8_does_not_matter(root):
    argv, first = boot.command(sys.executable), boot.payload()
    name = "grün/é\udcff"
    frames = wire.encode(wire.HELLO, {"version": wire.VERSION, "root": str(root)})
    frames += wire.encode(wire.PUT, {"id": 1, **entry(name, b"x")}, b"x") + wire.encode(wire.VERIFY)
    posix = {"LC_ALL": "POSIX", "PYTHONUTF8": "0"}
    done = subprocess.run(argv, input=first + frames, capture_output=True, check=True, env=posix)
    assert done.stderr == b""
    assert (root / name).read_bytes() == b"x"
    (root / "grün").rename(root / "renamed")
    done = subprocess.run(argv, input=first + frames, capture_output=True, check=True, env={"LC_ALL": "C"})
    assert b"renamed" in done.stdout


def test_a_user_who_is_not_root_gets_files_of_their_own(as_user, open_root):
    os.chown(open_root, USER, USER)
    host = as_user()
    host.open(open_root)
    host.put("d/a", b"1")
    host.do(wire.LINK, {"path": "l", "target": "d", "stamp": ""})
    host.bye()
    assert {path.lstat().st_uid for path in open_root.rglob("*")} == {USER}


def test_what_root_writes_belongs_to_the_owner_of_the_root_folder(start, as_user, open_root):
    os.chown(open_root, USER, USER + 1)
    host = start()
    host.open(open_root)
    host.put("d/a", b"1", mode=0o750)
    host.do(wire.MKDIR, {"path": "e", "mode": 0o755})
    host.do(wire.LINK, {"path": "l", "target": "d", "stamp": ""})
    host.large("big", b"12")
    (open_root / "d" / "a").write_text("changed there")
    host.put("d/a", b"2")
    host.bye()
    owners = {(info.st_uid, info.st_gid) for info in (path.lstat() for path in open_root.rglob("*"))}
    assert owners == {(USER, USER + 1)}
    host = as_user()  # and the owner can go on with it
    assert set(host.open(open_root)) == {"d", "d/a", "e", "l", "big"}
    host.put("d/a", b"3")
    assert host.failed == []
    host.bye()


def test_all_in_a_setgid_root_has_the_group_of_the_root(as_user, open_root):
    """Files had the group of the user, folders that of the root, and what lay in folders that of the user again."""
    for folder, group in (
        (open_root, USER + 1),
        (open_root / "theirs", USER + 1),
        (open_root / "ours", USER),
    ):
        folder.mkdir(exist_ok=True)
        os.chown(folder, USER, group)
        folder.chmod(0o2755)
    host = as_user()
    host.open(open_root)
    host.do(wire.MKDIR, {"path": "ours", "mode": 0o750})
    host.do(wire.MKDIR, {"path": "theirs", "mode": 0o750})
    host.do(wire.MKDIR, {"path": "d", "mode": 0o755})
    host.put("d/e/a", b"1", mode=0o640)
    host.put("b", b"1")
    host.do(wire.LINK, {"path": "d/l", "target": "e", "stamp": ""})
    assert host.failed == []
    host.bye()
    found = {str(path.relative_to(open_root)): path.lstat() for path in open_root.rglob("*")}
    assert {name for name, info in found.items() if info.st_gid != USER + 1} == {"ours"}
    modes = {name: oct(found[name].st_mode & 0o7777) for name in ("ours", "theirs", "d", "d/e", "d/e/a", "b")}
    assert modes == {
        "ours": "0o2750", "theirs": "0o2755", "d": "0o2755", "d/e": "0o2755", "d/e/a": "0o640", "b": "0o644",
    }  # fmt: skip


def test_a_root_that_is_not_there_is_made_when_asked(start, open_root):
    os.chown(open_root, USER, USER)
    missing = open_root / "a" / "b"
    assert "does not exist on the target" in start().refused(missing)
    host = start()
    host.open(missing, create=True)
    host.put("f", b"1")
    host.bye()
    assert {path.lstat().st_uid for path in open_root.rglob("*")} == {USER}


def test_a_root_that_cannot_be_written_says_whose_it_is(as_user, open_root):
    reason = as_user().refused(open_root)
    assert reason.startswith(
        f"{open_root} is not writable: it belongs to uid 0 (root), mode 0755, and sync runs as"
    )
    assert f"uid {USER}" in reason
    assert "cannot be opened or created" in as_user().refused(open_root / "new", create=True)
    assert list(open_root.iterdir()) == []


def test_a_folder_of_another_user_says_that_permission_is_missing(as_user, open_root):
    os.chown(open_root, USER, USER)
    (open_root / "theirs").mkdir(mode=0o755)
    (open_root / "theirs" / "f").write_text("1")
    host = as_user()
    host.open(open_root)
    assert f"no permission: sync runs as uid {USER}" in host.put("theirs/f", b"2")[0]["reason"]
    assert host.put("ours", b"2") == []
    assert (open_root / "theirs" / "f").read_text() == "1"
    host.bye()


@pytest.mark.parametrize("mode", [0o000, 0o600])
def test_what_lies_in_a_folder_that_cannot_be_read_any_more_is_not_forgotten(as_user, open_root, mode):
    os.chown(open_root, USER, USER)
    (open_root / "theirs").mkdir(mode=0o777)
    (open_root / "theirs").chmod(0o777)
    host = as_user()
    host.open(open_root)
    host.put("theirs/d/f", b"1")
    host.put("ours", b"2")
    host.bye()
    (open_root / "theirs").chmod(mode)
    host = as_user()
    found = host.open(open_root)
    assert found["theirs/d/f"][1:] == ["f", 0o644, 1, digest(b"1"), ""]
    assert found["ours"][5] == "s"
    for failed in host.do(wire.DELETE, {"path": "theirs/d/f"}), host.put("theirs/d/f", b"3"):
        assert f"no permission: sync runs as uid {USER}" in failed[0]["reason"]
    host.send(wire.STAT, {"paths": ["theirs/x", "ours"]})
    assert [one[0] for one in host.entries(wire.STATS)] == ["ours"]
    assert host.verify()["theirs/d/f"][4] == ""
    host.entries(wire.REMOTE)
    host.bye()
    (open_root / "theirs").chmod(0o777)
    host = as_user()
    assert host.open(open_root)["theirs/d/f"][4:] == [digest(b"1"), "s"]
    assert host.do(wire.DELETE, {"path": "theirs/d/f"}) == []
    assert not (open_root / "theirs/d/f").exists()
    host.bye()


def test_syncs_folder_of_another_user_is_not_used(start, as_user, open_root):
    open_root.chmod(0o777)
    host = start()
    host.open(open_root)
    host.put("f", b"1")
    host.bye()
    assert "belongs to uid 0 (root), and sync runs as" in as_user().refused(open_root)
    (open_root / ".dkdbg-sync").rename(open_root / "away")
    (open_root / ".dkdbg-sync").mkdir()
    os.chown(open_root / ".dkdbg-sync", USER, USER)
    assert f"belongs to uid {USER}, and sync runs as uid 0" in start().refused(open_root)


def test_a_full_disk_is_said_and_the_stream_goes_on(tmp_path, mounted, start):
    root = mounted(tmp_path / "small", "size=1m")
    host = start(at=root)
    host.put("kept", b"old")
    data = os.urandom(900_000)
    host.put("fits", data[:400_000])
    (failed,) = host.put("kept", data)
    assert "no space left" in failed["reason"]
    assert failed["hint"]
    host.large("large", data * 3)
    assert "no space left" in host.failed[-1]["reason"]
    assert host.failed[-1]["path"] == "large"
    assert len(host.failed) == 2
    assert (root / "kept").read_bytes() == b"old"
    assert list((root / ".dkdbg-sync" / "tmp").iterdir()) == []
    assert host.put("small", b"still works") == []
    host.do(wire.DELETE, {"path": "fits"})
    assert host.put("kept", data[:600_000]) == []
    host.bye()
    assert start().open(root)["kept"][4] == digest(data[:600_000])


def test_a_disk_without_room_for_the_ledger_loses_no_truth(tmp_path, mounted, start):
    """tmpfs has pages of 4 KiB: empty files need none, but the log of them does."""
    root = mounted(tmp_path / "small", "size=64k,nr_inodes=3000")
    host = start(at=root)
    names = [f"empty{index}" for index in range(1000)]
    for first in range(0, 1000, 50):
        host.put_all(dict.fromkeys(names[first : first + 50], b""))
    assert 0 < len(host.failed) < 1000
    assert all("no space left" in one["reason"] for one in host.failed)
    there = {path.name for path in root.glob("empty*")}
    assert len(there) == 1000 - len(host.failed)
    host.bye()
    assert set(start().open(root)) == there


def test_a_disk_that_is_full_in_the_middle_of_a_folder_fails_the_files_that_do_not_fit(
    tmp_path, mounted, start
):
    root = mounted(tmp_path / "small", "size=256k")
    host = start(at=root)
    assert host.put_all({f"d/f{index}": b"old" for index in range(10)}) == []
    files = {f"d/f{index}": b"%d" % index * 8000 for index in range(40)}
    failed = host.put_all(files)
    assert 0 < len(failed) < 40
    assert all("no space left" in one["reason"] for one in failed)
    without = {one["path"] for one in failed}
    for path, data in files.items():
        at = root / path
        if path not in without:
            assert at.read_bytes() == data
        elif at.exists():
            assert at.read_bytes() == b"old"
    assert list((root / ".dkdbg-sync" / "tmp").iterdir()) == []
    there = {f"d/{path.name}": digest(path.read_bytes()) for path in (root / "d").iterdir()}
    host.bye()
    host = start()
    assert {path: one[4] for path, one in host.open(root).items() if one[1] == "f"} == there
    for path in [*files][:30]:
        host.begin(wire.DELETE, {"path": path})
    host.settle()
    assert host.put("d/f39", b"fits again") == []
    host.bye()


def test_a_read_only_file_system_is_said(tmp_path, mounted, start):
    root = mounted(tmp_path / "fixed", "size=1m")
    (root / "f").write_text("1")
    subprocess.run(["mount", "-o", "remount,ro", str(root)], check=True)
    assert "is on a read-only file system" in start().refused(root)
    host = start()
    assert host.open(root, write=False) == {}
    host.send(wire.LIST, {"path": ""})
    assert [one[0] for one in host.entries(wire.LISTING)] == ["f"]
    host.bye()


def test_a_file_system_mounted_below_the_root_gets_whole_files(tmp_path, mounted, start):
    root = tmp_path / "root"
    volume = mounted(root / "data", "size=4m")
    (volume / "theirs").write_text("work")
    host = start(at=root)
    assert host.put("data/a", b"1", mode=0o751) == []
    assert host.put("data/d/a", b"1") == []
    assert host.put("data/theirs", b"ours") == []
    assert host.do(wire.LINK, {"path": "data/l", "target": "a", "stamp": ""}) == []
    assert host.put("data/a", b"2", mode=0o751) == []
    assert "mount point" in host.put("data", b"1")[0]["reason"]
    with contextlib.suppress(OSError), (volume / "fill").open("wb", buffering=0) as out:
        while out.write(b"x" * 4096):
            pass
    assert "no space" in host.put("data/full", os.urandom(900_000))[0]["reason"]
    assert [one["path"] for one in host.kept] == ["data/theirs"]
    assert (root / host.kept[0]["where"]).read_text() == "work"
    (volume / "fill").unlink()
    host.bye()
    assert sorted(snapshot(volume)) == ["a", "d", "d/a", "l", "theirs"]
    assert ((volume / "a").stat().st_mode & 0o777, (volume / "a").read_bytes()) == (0o751, b"2")
    (volume / ".dkdbg-sync.0123456789abcdef").write_text("left by a kill")
    with (root / ".dkdbg-sync" / "ledger").open("a") as log:
        log.write(f'["data/b","f",420,1,"{digest(b"1")}","s"]\n')
    assert set(start().open(root)) == {"data/a", "data/d", "data/d/a", "data/l", "data/theirs"}
    assert not (volume / ".dkdbg-sync.0123456789abcdef").exists()


def test_two_names_that_the_file_system_folds_are_not_put_over_each_other(root):
    """Without a file system that folds names, only what the receiver makes of having found one can be shown."""
    work, state, _ = operations(root)
    state.case_sensitive = False

    def put(path):
        work.put(entry(path, b"1"), b"1")

    put("Readme")
    put("Readme")
    with pytest.raises(
        Refused, match="Readme exists on the target, and both names are the same to its file system"
    ):
        put("README")
    put("caf\u00e9")
    with pytest.raises(Refused, match="both names are the same"):
        put("cafe\u0301")
    work.delete({"path": "Readme"})
    put("README")
    with pytest.raises(Refused, match="both names are the same"):
        work.mkdir({"path": "readme", "mode": 0o755})


@pytest.fixture
def folding(tmp_path, as_root):  # noqa: ARG001
    """A file system that does not tell case: vfat, where the kernel has it."""
    image, place = tmp_path / "image", tmp_path / "vfat"
    place.mkdir()
    image.write_bytes(b"")
    os.truncate(image, 8 << 20)
    steps: list[list[Any]] = [["mkfs.vfat", image], ["mount", "-o", "loop", image, place]]
    for step in steps:
        try:
            done = subprocess.run(step, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            pytest.skip(str(error))
        if done.returncode:
            pytest.skip(f"no vfat here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_file_system_that_folds_names_is_found_out(folding, host):
    assert host.hello(folding)["case_sensitive"] is False
    host.entries(wire.LISTING)
    assert host.put("Readme", b"1", mode=0o755) == []
    assert "both names are the same" in host.put("README", b"2", mode=0o755)[0]["reason"]
    host.bye()
