"""What the operations of the stream do on a real file system."""

import contextlib
import os
import py_compile
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dkdbg.sync.receiver import boot, wire
from tests.agent.sync.host import NOW, Host, digest, entry, operations
from tests.commands import command


def test_ready_says_what_the_host_has_to_know(host, root):
    (root.parent / "way").symlink_to("root")
    ready = host.hello(root.parent / "way")
    (root.parent / "way").unlink()
    assert ready == {
        "version": wire.VERSION, "python": sys.version.split()[0], "pid": host.process.pid, "user": ready["user"], "root": str(root),
        "probe": "", "empty": True, "case_sensitive": True, "former": "", "mounts": [],
    }  # fmt: skip
    assert host.entries(wire.LISTING) == []
    host.bye()


@pytest.mark.parametrize("former", [False, True], ids=["new", "synced before"])
def test_a_host_that_goes_during_the_greeting_leaves_the_root_as_it_was(start, root, former):
    if former:
        host = start()
        host.open(root, source="/here")
        host.put("a", b"x")
        host.bye()
    before = sorted(root.rglob("*"))
    hello = {"version": wire.VERSION, "root": str(root), "probe": True, "source": "/here"}
    read, write = os.pipe()
    os.close(read)
    argv = boot.command(sys.executable)
    done = subprocess.run(
        argv,
        check=False,
        input=boot.payload() + wire.encode(wire.HELLO, hello),
        stdout=write,
        stderr=subprocess.PIPE,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")
    assert sorted(root.rglob("*")) == before


def test_the_probe_of_a_killed_receiver_goes_with_the_next_one(start, root):
    first = start()
    probe = root / first.hello(root, probe=True)["probe"]
    first.process.kill()
    first.process.wait()
    assert probe.exists()
    start(at=root).bye()
    assert not probe.exists()


def test_a_file_gets_content_mode_and_time(live, root):
    live.put("a/b/c.sh", b"#!/bin/sh\n", mode=0o755, mtime_ns=1_600_000_000_123_456_789)
    info = (root / "a/b/c.sh").stat()
    assert (info.st_mode & 0o7777, info.st_mtime_ns) == (0o755, 1_600_000_000_123_456_789)
    assert (root / "a/b/c.sh").read_bytes() == b"#!/bin/sh\n"
    live.put("a/b/c.sh", b"")
    assert (root / "a/b/c.sh").read_bytes() == b""
    live.put("old", b"1969", mtime_ns=-5)
    assert (root / "old").stat().st_mtime_ns == -5


def test_the_listing_of_the_next_start_is_what_was_put(start, root):
    host = start(at=root)
    name = os.fsdecode(b"odd \xff\n'\"name \xc3\xa9")
    host.put(name, b"x", stamp="1:2:3")
    host.do(wire.MKDIR, {"path": "empty", "mode": 0o555})
    host.do(wire.LINK, {"path": "l", "target": name, "stamp": "4"})
    host.bye()
    assert (root / name).read_bytes() == b"x"
    listing = start().open(root)
    target = name.encode("utf-8", "surrogateescape")
    assert listing == {
        name: [name, "f", 0o644, 1, digest(b"x"), "1:2:3"],
        "empty": ["empty", "d", 0o555, 0, "", ""],
        "l": ["l", "l", 0o777, len(target), digest(target), "4"],
    }
    assert (root / "empty").stat().st_mode & 0o777 == 0o755


def test_names_that_look_like_the_ledgers_own_signs_survive_in_it(start, root):
    host = start(at=root)
    files = {f"],[/{name}": b"x" for name in ("],[", 'a],["', "],\n[", "\\", "\udcff", "caf\u00e9", "a\n,b")}
    assert host.put_all(files) == []
    host.bye()
    assert set(start().open(root)) == {"],[", *files}


@pytest.mark.parametrize("name", [b"/home/\xff\xe9", b"/" + 5000 * b"a"], ids=["no UTF-8", "long"])
def test_the_listing_of_the_next_start_from_a_folder_of_an_odd_name_is_what_was_put(start, root, name):
    source = os.fsdecode(name)
    host = start()
    host.open(root, source=source)
    host.put("a.py", b"x")
    host.bye()
    host = start()
    assert host.hello(root, source=source)["former"] == ""
    assert [each[0] for each in host.entries(wire.LISTING)] == ["a.py"]


def test_local_wins_and_what_was_made_or_changed_there_is_kept(live, root):
    def put(*names, data):
        live.put_all({f"d/{name}": data for name in names})

    ours = ("edited", "touched", "same", "folder", "link")
    put(*ours, "deleted", data=b"from here")
    at = root / "d"
    (at / "edited").write_bytes(b"work of somebody")
    (at / "deleted").write_bytes(b"more work")
    (at / "touched").touch()
    (at / "theirs").write_bytes(b"their own")
    (at / "equal").write_bytes(b"second")
    for name in ("folder", "link"):
        (at / name).unlink()
    (at / "folder").mkdir()
    (at / "folder" / "work").write_bytes(b"in a folder")
    (at / "link").symlink_to("edited")
    put(*ours, "theirs", "equal", "new", data=b"second")
    for name in (*ours, "theirs", "equal", "new"):
        assert ((at / name).read_bytes(), (at / name).is_symlink()) == (b"second", False), name
    live.do(wire.DELETE, {"path": "d/deleted"})
    assert not (at / "deleted").exists()
    assert live.failed == []
    first = 7  # the second time
    names = ["edited", "folder", "link", "theirs", "deleted"]
    ids = [first + [*ours, "theirs", "equal", "new", "deleted"].index(name) for name in names]
    assert [(one["path"], one["id"]) for one in live.kept] == [
        (f"d/{name}", id_) for name, id_ in zip(names, ids, strict=True)
    ]
    where = {one["path"].removeprefix("d/"): root / one["where"] for one in live.kept}
    kept = {"edited": b"work of somebody", "theirs": b"their own", "deleted": b"more work"}
    assert {name: where[name].read_bytes() for name in kept} == kept
    assert (where["folder"] / "work").read_bytes() == b"in a folder"
    assert where["link"].is_symlink()


def test_a_folder_in_the_way_of_a_file_is_kept_whole(host, root):
    (root / "a" / "deep").mkdir(parents=True)
    (root / "a" / "deep" / "work").write_text("theirs")
    host.open(root)
    host.put("a/ours", b"1")
    host.put("a", b"file")
    assert (root / "a").read_bytes() == b"file"
    (one,) = host.kept
    assert (root / one["where"] / "deep" / "work").read_text() == "theirs"
    assert "not created by sync" not in str(host.do(wire.DELETE, {"path": "a/ours"}))
    host.bye()


def test_a_file_or_symlink_in_the_way_of_a_folder_is_kept(host, root):
    (root / "a").write_text("theirs")
    (root / "l").symlink_to("a")
    os.mkfifo(root / "pipe")
    host.open(root)
    host.put("ours", b"1")
    for path in ("a", "l", "pipe", "ours"):
        host.put(f"{path}/f", b"1")
        assert (root / path / "f").read_bytes() == b"1"
        assert not (root / path).is_symlink()
    assert {one["path"] for one in host.kept} == {"a", "l", "pipe"}
    assert host.failed == []
    host.bye()


def test_a_file_that_fails_takes_no_other_with_it(live, root):
    (root / "d" / "in the way").mkdir(parents=True)
    wrong = ["..", ".", "", ".dkdbg-sync", "n" * 300, "a\0b", "\ud800"]
    files = {f"d/{name}": b"x" for name in ("first", *wrong, "last")}
    failed = live.put_all(files)
    assert [(one["id"], one["path"]) for one in failed] == [*enumerate((f"d/{each}" for each in wrong), 2)]
    assert sorted(one.name for one in (root / "d").iterdir()) == ["first", "in the way", "last"]
    assert list((root / ".dkdbg-sync" / "tmp").iterdir()) == []


def test_a_folder_that_is_removed_while_files_come_is_made_again(live, root):
    for index in range(50):
        assert live.put_all({"d/e/a": b"%d" % index, "d/e/b": b"2"}) == []
        assert (root / "d/e/a").read_bytes() == b"%d" % index
        shutil.rmtree(root / "d")


def test_a_folder_that_is_there_is_not_replaced_by_a_new_one(live, root):
    """Somebody may stand in it."""
    (root / "d").mkdir()
    before = (root / "d").stat().st_ino
    assert live.do(wire.MKDIR, {"path": "d", "mode": 0o700}) == []
    assert ((root / "d").stat().st_ino, (root / "d").stat().st_mode & 0o777) == (before, 0o700)


def test_a_new_folder_inherits_what_the_folder_above_hands_on(live, root):
    """Its group where that is setgid, its access control list where it has one."""
    for name in ("shared", "listed"):
        (root / name).mkdir()
    os.chown(root / "shared", -1, 4711)
    (root / "shared").chmod(0o2775)
    # Version 2; user::rwx user:4711:rwx group::r-x mask::rwx other::r-x: linux/posix_acl_xattr.h
    rows = [
        (1, 7, 0xFFFFFFFF),
        (2, 7, 4711),
        (4, 5, 0xFFFFFFFF),
        (0x10, 7, 0xFFFFFFFF),
        (0x20, 5, 0xFFFFFFFF),
    ]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)
    os.setxattr(root / "listed", "system.posix_acl_default", acl)
    for name in ("shared", "listed"):
        assert live.do(wire.MKDIR, {"path": f"{name}/d", "mode": 0o755}) == []
    assert ((root / "shared/d").stat().st_gid, (root / "shared/d").stat().st_mode & 0o7777) == (4711, 0o2755)
    assert os.getxattr(root / "listed/d", "system.posix_acl_default") == acl


def test_an_empty_folder_of_ours_gives_way_to_a_file(live, root):
    live.do(wire.MKDIR, {"path": "a", "mode": 0o755})
    live.put("a", b"file")
    live.do(wire.DELETE, {"path": "a"})
    live.do(wire.LINK, {"path": "a", "target": "b", "stamp": ""})
    live.do(wire.MKDIR, {"path": "a", "mode": 0o755})
    assert (root / "a").is_dir()
    assert live.failed + live.kept == []


def test_a_folder_goes_only_when_nothing_is_left_in_it(start, root):
    host = start(at=root)
    host.put("d/a", b"1")
    (root / "d" / "made there").write_text("theirs")
    host.do(wire.DELETE, {"path": "d/a"})
    host.do(wire.DELETE, {"path": "d"})
    assert (root / "d" / "made there").read_text() == "theirs"
    assert host.kept == [{"id": host.number, "path": "d", "where": "d"}]
    host.bye()
    assert start().open(root) == {}


def test_a_folder_that_took_the_place_of_our_file_is_not_deleted(live, root):
    for name in ("empty", "full"):
        live.put(name, b"1")
        (root / name).unlink()
        (root / name).mkdir()
    (root / "full" / "theirs").touch()
    for name in ("empty", "full"):
        live.do(wire.DELETE, {"path": name})
        assert (root / name).is_dir()
    assert (root / "full" / "theirs").exists()
    assert [one["where"] for one in live.kept] == ["empty", "full"]


def test_a_folder_that_was_moved_out_of_the_root_is_not_written_to(live, root):
    live.put("d/a", b"1")
    away = root.parent / "away"
    (root / "d").rename(away)
    live.put("d/a", b"2")
    assert (away / "a").read_bytes() == b"1"
    assert (root / "d" / "a").read_bytes() == b"2"
    shutil.rmtree(away)


def test_mode_changes_what_sync_holds_and_nothing_else(live, root):
    live.put("a", b"1")
    live.put("linked", b"1")
    os.link(root / "linked", root / "other name")
    (root / "theirs").write_text("x")
    live.do(wire.MKDIR, {"path": "d", "mode": 0o755})
    for path in ("a", "linked", "d"):
        assert live.do(wire.MODE, {"path": path, "mode": 0o700, "stamp": "2"}) == []
        assert (root / path).stat().st_mode & 0o777 == 0o700
    assert (root / "other name").stat().st_mode & 0o777 == 0o644
    assert (
        "no file or folder" in live.do(wire.MODE, {"path": "theirs", "mode": 0o700, "stamp": ""})[0]["reason"]
    )
    (root / "a").write_bytes(b"2")
    assert (
        "changed on the target" in live.do(wire.MODE, {"path": "a", "mode": 0o600, "stamp": ""})[0]["reason"]
    )
    assert live.verify()["linked"][2:] == [0o700, 1, digest(b"1"), "2"]


def test_adopt_notes_only_what_is_really_there(start, root):
    host = start()
    (root / "a").write_bytes(b"same")
    (root / "d").mkdir()
    (root / "l").symlink_to("a")
    before = (root / "a").stat()[:7], (root / "a").stat().st_ctime_ns  # all but atime
    host.open(root)
    host.send(wire.STAT, {"paths": ["a", "d", "l", "none", "a/b"]})
    there = {one[0]: one for one in host.entries(wire.STATS)}
    assert sorted(there) == ["a", "d", "l"]
    for path, kind, mode, size, known, _ in there.values():
        head = {"path": path, "kind": kind, "mode": mode, "size": size, "digest": known, "stamp": "adopted"}
        assert host.do(wire.ADOPT, head) == []
    assert host.do(wire.ADOPT, {**entry("a", b"SAME"), "kind": "f"})[0]["reason"]
    assert host.do(wire.ADOPT, {**entry("a", b""), "kind": "d", "digest": ""})[0]["reason"]
    assert host.do(wire.ADOPT, {**entry("none", b"x"), "kind": "f"})[0]["reason"]
    assert ((root / "a").stat()[:7], (root / "a").stat().st_ctime_ns) == before
    host.bye()
    listing = start().open(root)
    assert {path: one[5] for path, one in listing.items()} == dict.fromkeys("adl", "adopted")


def test_a_file_that_changed_between_stat_and_adopt_is_not_noted(host, root):
    (root / "a").write_bytes(b"same")
    host.open(root)
    host.send(wire.STAT, {"paths": ["a"]})
    host.entries(wire.STATS)
    (root / "a").write_bytes(b"SAME")
    (failed,) = host.do(wire.ADOPT, {**entry("a", b"same"), "kind": "f"})
    assert "its content on the target has changed" in failed["reason"]
    host.bye()


def test_python_never_runs_an_old_pyc(live, root):
    """Saves of the same size and time: each must invalidate the .pyc that any of the earlier ones left."""
    for value in (1, 2, 3, 4):
        if value == 3:  # as an editor that moves the old file away before it writes the new one
            live.do(wire.DELETE, {"path": "module.py"})
        live.put("module.py", b"value = %d\n" % value)
        run = [sys.executable, "-c", "import module; print(module.value)"]
        result = subprocess.run(run, cwd=root, capture_output=True, text=True, check=True)
        assert result.stdout == f"{value}\n"
    py_compile.compile(str(root / "module.py"))
    live.put("longer.py", b"value = 10\n")
    assert (root / "longer.py").stat().st_mtime_ns == NOW


@pytest.mark.parametrize("year", [1890, 2200])
def test_a_file_of_a_wrong_clock_ends_no_stream(live, root, year):
    at = (year - 1970) * 31_556_952 * 10**9
    assert live.put("a", b"right", mtime_ns=at) == []
    assert (root / "a").read_bytes() == b"right"
    assert live.verify()["a"][4:] == [digest(b"right"), "s"]


def test_verify_reads_everything_anew_and_says_what_else_is_there(live, root):
    live.put("a", b"right")
    live.put("d/b", b"right")
    info = (root / "a").stat()
    (root / "a").write_bytes(b"WRONG")
    os.utime(root / "a", ns=(info.st_atime_ns, info.st_mtime_ns))
    (root / "d" / "theirs").write_text("12345")
    (root / "l").symlink_to("/etc")
    os.mkfifo(root / "pipe")
    listing = live.verify()
    assert listing["a"][4:] == [digest(b"WRONG"), ""]
    assert listing["d/b"][4:] == [digest(b"right"), "s"]
    assert sorted((one[0], one[1], one[3]) for one in live.entries(wire.REMOTE)) == [
        ("d/theirs", "f", 5),
        ("l", "l", 4),
    ]


def test_pull_lists_and_reads_without_following_symlinks(host, root):
    data = os.urandom((2 << 20) + 7)
    (root / "outputs" / "run").mkdir(parents=True)
    (root / "outputs" / "run" / "model.pt").write_bytes(data)
    (root / "outputs" / "last").symlink_to("run")
    host.open(root)
    host.send(wire.LIST, {"path": "outputs"})
    found = {one[0]: one for one in host.entries(wire.LISTING)}
    assert sorted(found) == ["outputs/last", "outputs/run", "outputs/run/model.pt"]
    info = (root / "outputs/run/model.pt").stat()
    assert found["outputs/run/model.pt"][3:] == [len(data), "", str(info.st_mtime_ns)]
    host.send(wire.GET, {"path": "outputs/run/model.pt"})
    assert host.expect(wire.FILE)["size"] == len(data)
    got = b""
    while (frame := host.next())[0] == wire.DATA:
        got += frame[2]
    assert got == data
    assert frame[:2] == (wire.END, {"digest": digest(data)})
    for path in ("outputs/last/model.pt", "outputs/last", "outputs", "none"):
        host.send(wire.GET, {"path": path})
    host.send(wire.LIST, {"path": "none"})
    host.send(wire.PING, {"n": 5})
    assert host.expect(wire.PONG) == {"n": 5}
    assert len(host.failed) == 5
    host.bye()


def test_the_probe_is_there_until_the_next_frame(host, root):
    probe = host.hello(root, probe=True)["probe"]
    assert (root / probe).is_file()
    host.entries(wire.LISTING)
    assert (root / probe).is_file()
    host.put("a", b"1")
    assert not (root / probe).exists()
    host.bye()


def test_a_receiver_that_was_told_nothing_leaves_nothing(start, root):
    host = start()
    host.open(root, probe=True)
    host.bye()
    assert list(root.iterdir()) == []
    host = start(at=root)
    host.put("a", b"1")
    host.bye()
    host = start()
    host.open(root, probe=True)
    host.process.stdin.close()  # the end of the stream means the same
    assert host.process.wait(300) == 0
    own = sorted(one.name for one in (root / ".dkdbg-sync").iterdir())
    assert own == [".gitignore", "ledger", "lock", "tmp"]
    assert (root / ".dkdbg-sync").stat().st_mode & 0o7777 == 0o700


def test_git_never_sees_syncs_folder(host, root):
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    host.open(root)
    host.put("a", b"1")
    status = command(["git", "-C", str(root), "status", "--short", "-uall"])
    assert status.stdout == "?? a\n"
    host.bye()


def test_only_one_receiver_writes_and_the_second_says_who_the_first_is(start, root):
    first, second, third = start(), start(), start()
    first.open(root)
    first.put("a", b"1")
    second.send(wire.HELLO, {"version": wire.VERSION, "root": str(root)})
    assert list(third.open(root, write=False)) == ["a"]  # to look is allowed
    assert list(third.verify()) == ["a"]
    assert third.entries(wire.REMOTE) == []
    third.begin(wire.PUT, entry("b", b"1"), b"1")
    assert "nothing will be written" in third.error()
    reason = second.error()
    assert f"pid {first.process.pid} of uid {os.getuid()}" in reason
    first.put("a", b"2")
    first.bye()
    assert list(start().open(root)) == ["a"]


def opened_by(host: Host) -> list[Path]:
    found = []
    for one in Path("/proc", str(host.process.pid), "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.append(one.readlink())
    return found


def test_a_second_receiver_takes_over_as_soon_as_the_first_ends(start, root):
    first, second = start(), start()
    first.open(root)
    second.send(wire.HELLO, {"version": wire.VERSION, "root": str(root)})
    while root / ".dkdbg-sync" / "lock" not in opened_by(second):
        assert second.process.poll() is None
        time.sleep(0.01)
    first.process.kill()
    second.expect(wire.READY)


def test_a_receiver_that_hears_nothing_ends_when_the_host_asked_for_that(host, root):
    host.open(root, silence_s=1)
    assert host.process.wait(300) == 0


def test_reading_beside_nothing_makes_nothing(host, root):
    (root / "a").write_text("x")
    assert host.open(root, write=False) == {}
    assert host.verify() == {}
    assert [one[0] for one in host.entries(wire.REMOTE)] == ["a"]
    host.bye()
    assert [one.name for one in root.iterdir()] == ["a"]


def test_done_never_passes_a_file_that_is_still_coming(live, root):
    large = live.begin(wire.BEGIN, entry("large", b"12345678"))
    assert live.expect(wire.RESUME) == {"id": large, "offset": 0}
    live.send(wire.DATA, {"id": large}, b"1234")
    live.begin(wire.PUT, entry("small", b"1"), b"1")
    live.send(wire.PING, {"n": 1})
    heads = []
    while (frame := live.next())[0] != wire.PONG:
        heads.append(frame[1])
    assert all(head["upto"] < large for head in heads)
    assert (root / "small").exists()
    live.send(wire.DATA, {"id": large}, b"5678")
    live.send(wire.END, {"id": large})
    live.settle()
    assert (root / "large").read_bytes() == b"12345678"


@pytest.mark.parametrize("what", ["folder", "root"])
def test_a_ledger_that_is_gone_ends_the_stream(host, root, what, tmp_path):
    if what == "root":
        root = tmp_path / "other"
        root.mkdir()
    host.open(root)
    host.put("a", b"1")
    shutil.rmtree(root if what == "root" else root / ".dkdbg-sync")
    host.begin(wire.PUT, entry("b", b"1"), b"1")
    assert "was removed from the target" in host.error()


def test_a_log_of_many_saves_is_written_anew(start, root):
    host = start(at=root)
    host.put("a", b"1")
    frames = []
    for index in range(30_000):
        host.number += 1
        mode = {"id": host.number, "path": "a", "mode": 0o600 + index % 2, "stamp": str(index)}
        frames.append(wire.encode(wire.MODE, mode))
    host.raw(b"".join(frames))
    host.settle()
    log = root / ".dkdbg-sync" / "ledger"
    assert len(log.read_text().splitlines()) < 10_000
    host.bye()
    assert len(log.read_text().splitlines()) == 1
    assert start().open(root)["a"][4:] == [digest(b"1"), "29999"]


def test_a_log_that_is_due_to_be_written_anew_keeps_what_is_intended(root):
    _, _, book = operations(root)
    book._lines = 10**6
    book.intend([*entry("a", b"1").values()])  # any six
    assert len((root / ".dkdbg-sync" / "ledger").read_text().splitlines()) == 1
    book.flush()
