"""A file is read whole or not at all, and a stamp is given only to what can be told from the next version."""

import hashlib
import os
import time

import pytest

from dkdbg.sync.tree.reading import FileChangedError, pieces, read
from dkdbg.sync.tree.scan import Scanner
from tests.unit.sync.trees import fresh, put

LATER = 10_000_000_000


def long_ago():
    return time.time_ns() + LATER


def test_a_file_is_read_with_its_digest_and_stamp_and_its_body_if_it_is_small(root):
    put(root, {"d/a": "text"})
    entry = Scanner(str(root)).scan().entries["d/a"]
    content = read(str(root), "d/a", now=long_ago)
    assert content[:3] == (entry, hashlib.sha256(b"text").hexdigest(), b"text")
    put(fresh(root), {"a": "x" * 11})
    content = read(str(root), "a", keep_bytes=10)
    assert (content.body, content.digest) == (None, hashlib.sha256(b"x" * 11).hexdigest())
    assert read(str(root), "a", keep_bytes=11).body == b"x" * 11


def test_a_file_read_in_the_moment_in_which_it_was_written_has_no_stamp_and_one_of_the_future_has(root):
    put(root, {"a": "1"})
    changed = (root / "a").stat().st_ctime_ns
    assert read(str(root), "a", now=lambda: changed).entry.stamp == ""
    assert read(str(root), "a", now=lambda: changed + 1_000_000).entry.stamp == ""
    assert read(str(root), "a", now=lambda: changed + LATER).entry.stamp != ""
    os.utime(root / "a", ns=(4_000_000_000 * 10**9,) * 2)
    assert read(str(root), "a", now=long_ago).entry.stamp != ""


def until_the_kernels_clock_has_ticked(folder):
    """Return when a file that is changed now gets another time than one that was changed before."""
    clock = folder / "clock"
    clock.write_text("")
    before = clock.stat().st_ctime_ns
    while clock.stat().st_ctime_ns == before:
        clock.write_text("")


def append(file):
    with file.open("a") as more:
        more.write("x")


def rewrite_in_place(file):
    file.write_text("B" * 3_000_000)


@pytest.mark.parametrize("change", [append, rewrite_in_place])
def test_a_file_that_changes_while_it_is_read_is_refused(root, change, monkeypatch):
    put(root, {"a": "a" * 3_000_000})
    real, calls = os.read, []

    def slow(fd, size):
        piece = real(fd, size)
        calls.append(size)
        if len(calls) == 2:
            until_the_kernels_clock_has_ticked(root)  # else nobody could tell
            change(root / "a")
        return piece

    monkeypatch.setattr(os, "read", slow)
    with pytest.raises(FileChangedError):
        read(str(root), "a")


@pytest.mark.parametrize("kind", ["gone", "folder", "link", "pipe", "below a file"])
def test_what_is_no_file_any_more_is_refused_and_never_followed(root, kind):
    put(root, {"other": "secret"})
    path = "a"
    if kind == "folder":
        (root / "a").mkdir()
    elif kind == "link":
        (root / "a").symlink_to("other")
    elif kind == "pipe":
        os.mkfifo(root / "a")
    elif kind == "below a file":
        path = "other/a"
    with pytest.raises(FileChangedError):
        read(str(root), path)


def test_pieces_go_on_from_an_offset_and_end_with_the_file_of_that_version(root):
    put(root, {"a": "0123456789" * 300_000})
    entry = read(str(root), "a").entry
    assert b"".join(pieces(str(root), "a", entry)) == b"0123456789" * 300_000
    assert b"".join(pieces(str(root), "a", entry, offset=2_999_998)) == b"89"
    put(root, {"a": "12"})
    entry = read(str(root), "a").entry
    put(root, {"a": "123"})
    with pytest.raises(FileChangedError):
        list(pieces(str(root), "a", entry))
