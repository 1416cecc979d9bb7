"""PACK: each file of it is done, fails or is kept by itself, as if it had come alone."""

import os
import shutil
import struct

import pytest

from dkdbg.sync.receiver import wire
from tests.agent.sync.host import digest, entry, operations, packed

ODD = ["],[", 'a],["', "],\n[", "\\", "\udcff", "caf\u00e9", "a\n,b"]


def test_files_get_content_mode_and_time_and_are_listed_at_the_next_start(start, root):
    host = start(at=root)
    files = {f"f{index}": b"%d" % index * index for index in range(150)}
    time = 1_600_000_000_123_456_789
    assert host.pack("a/b", files, mode=0o751, mtime_ns=time, stamp="1") == []
    assert host.pack("", {"top": b"", "other": b"2"}) == []
    for name, data in files.items():
        at = root / "a/b" / name
        info = at.stat()
        assert (at.read_bytes(), info.st_mode & 0o7777, info.st_mtime_ns) == (data, 0o751, time)
    host.bye()
    assert list((root / ".dkdbg-sync" / "tmp").iterdir()) == []
    listing = start().open(root)
    assert listing.pop("a")[1] == listing.pop("a/b")[1] == "d"
    assert listing.pop("top") == ["top", "f", 0o644, 0, digest(b""), "s"]
    assert listing.pop("other") == ["other", "f", 0o644, 1, digest(b"2"), "s"]
    expected = {f"a/b/{name}": ["f", 0o751, len(data), digest(data), "1"] for name, data in files.items()}
    assert {path: one[1:] for path, one in listing.items()} == expected


def test_names_that_look_like_the_ledgers_own_signs_survive_in_it(start, root):
    host = start(at=root)
    assert host.pack("],[", dict.fromkeys(ODD, b"x")) == []
    host.bye()
    assert set(start().open(root)) == {"],[", *(f"],[/{name}" for name in ODD)}


@pytest.mark.parametrize("make", [None, 0o755], ids=["a folder that is there", "a new folder"])
def test_a_file_that_fails_takes_no_other_with_it(live, root, make):
    there = ["in the way"] if make is None else []
    for name in there:
        (root / "d" / name).mkdir(parents=True)
    wrong = ["bad", "..", ".", "", ".dkdbg-sync", "n" * 300, "a\0b", "\ud800"]
    files = {name: b"%d" % index for index, name in enumerate(["first", *wrong, "last"])}
    head, body = packed(1, "d", files, make=make)
    head["files"][1][5] = digest(b"something else")
    live.number = head["files"][-1][0]
    live.send(wire.PACK, head, body)
    live.settle()
    ids = {name: number for number, name, *_ in head["files"]}
    assert [(one["id"], one["path"]) for one in live.failed] == [(ids[name], f"d/{name}") for name in wrong]
    assert sorted(one.name for one in (root / "d").iterdir()) == ["first", *there, "last"]
    assert list((root / ".dkdbg-sync" / "tmp").iterdir()) == []


def test_a_folder_that_is_removed_while_packs_come_is_made_again(live, root):
    for index in range(50):
        assert live.pack("d/e", {"a": b"%d" % index, "b": b"2"}) == []
        assert (root / "d/e/a").read_bytes() == b"%d" % index
        shutil.rmtree(root / "d")


def test_a_folder_that_is_there_is_not_replaced_by_a_new_one(root):
    """Somebody may stand in it."""
    work, _, _ = operations(root)
    (root / "d").mkdir()
    before = (root / "d").stat().st_ino
    assert work.pack(*packed(1, "d", {"a": b"1", "b": b"2"}, make=0o700), lambda _number: None) == []
    assert ((root / "d").stat().st_ino, (root / "d").stat().st_mode & 0o777) == (before, 0o700)


def test_a_new_folder_that_cannot_be_made_fails_with_all_that_is_in_it(live, root):
    head, body = packed(1, "../d", {"a": b"1", "b": b"2"}, make=0o755)
    live.number = 3
    live.send(wire.PACK, head, body)
    live.settle()
    assert [(one["id"], one["path"]) for one in live.failed] == [(1, "../d"), (2, "../d/a"), (3, "../d/b")]
    assert not (root.parent / "d").exists()


def test_a_new_folder_inherits_what_the_folder_above_hands_on(root):
    """Its group where that is setgid, its access control list where it has one: as if it had been made there."""
    work, _, _ = operations(root)
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
        assert work.pack(*packed(1, f"{name}/d", {"a": b"1"}, make=0o755), lambda _number: None) == []
    assert ((root / "shared/d").stat().st_gid, (root / "shared/d").stat().st_mode & 0o7777) == (4711, 0o2755)
    assert os.getxattr(root / "listed/d", "system.posix_acl_default") == acl


def test_a_link_in_the_place_of_the_folder_that_is_filled_leads_nowhere(root, monkeypatch):
    """A hostile target swaps it in the moment after it was made: nothing is written outside, and the files arrive."""
    work, state, _ = operations(root)
    outside = root.parents[1] / "empty"
    make = state.tree.make_folder

    def swapped(folder, name, mode):
        make(folder, name, mode)
        if folder == state.temporary:
            os.rmdir(name, dir_fd=folder)
            os.symlink(outside, name, dir_fd=folder)

    monkeypatch.setattr(state.tree, "make_folder", swapped)
    assert work.pack(*packed(1, "d", {"a": b"1", "b": b"2"}, make=0o755), lambda _number: None) == []
    assert list(outside.iterdir()) == []
    assert {path.name: path.read_bytes() for path in (root / "d").iterdir()} == {"a": b"1", "b": b"2"}
    assert not (root / "d").is_symlink()


def test_a_log_that_is_due_to_be_written_anew_keeps_what_is_intended(root):
    _, _, book = operations(root)
    book._lines = 10**6
    book.intend([*entry("a", b"1").values()])  # any six
    assert len((root / ".dkdbg-sync" / "ledger").read_text().splitlines()) == 1
    book.flush()


def test_done_comes_after_the_last_file(live, root):
    live.send(wire.PACK, *packed(5, "d", {"a": b"1", "b": b"2"}))
    live.number = 6
    assert live.expect(wire.DONE) == {"upto": 6}
    assert (root / "d" / "b").exists()
