"""The local tree as an index: all kinds of entries and names, and what is said of those that cannot travel."""

import os
import socket
import subprocess
import sys

import pytest

from dkdbg.errors import DkdbgError
from dkdbg.sync.rules.rules import Rules
from dkdbg.sync.tree.scan import Scanner
from tests.checkout import without_privileges
from tests.unit.sync.trees import fresh, put

ODD = ["new\nline.py", " both ends ", "trailing. ", "émoji-🐍.py", "e\u0301.py", "\u00e9.py"]
ODD += ["-rf", "*", "back\\slash", "'q\""]


def scan(root, **options):
    return Scanner(str(root), rules=lambda where: Rules(where, **options)).scan()


def test_files_folders_and_links_are_in_with_what_the_other_side_needs_and_odd_names_survive(root):
    put(root, {"pkg/run.sh": "echo", "empty/": ""})
    (root / "pkg/run.sh").chmod(0o750)
    (root / "here").symlink_to("pkg/run.sh")
    os.utime(root / "pkg/run.sh", ns=(5, 1_600_000_000_123_456_789))
    entries = scan(root).entries
    assert set(entries) == {"pkg", "pkg/run.sh", "empty", "here"}
    file = entries["pkg/run.sh"]
    assert (file.kind, file.mode, file.size, file.mtime_ns) == ("f", 0o750, 4, 1_600_000_000_123_456_789)
    assert (entries["empty"].kind, entries["here"].kind, entries["here"].target) == ("d", "l", "pkg/run.sh")
    fresh(root)
    for name in ODD:
        (root / name).write_text(name)
    (root / os.fsdecode(b"bytes-\xff\xfe.py")).write_text("x")
    entries = scan(root).entries
    assert set(entries) == {*ODD, os.fsdecode(b"bytes-\xff\xfe.py")}
    assert all((root / path).exists() for path in entries)


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.write_text("b"),
        lambda file: (file.with_name("t").write_text("b"), file.with_name("t").rename(file)),
        lambda file: os.utime(file, ns=(1, 1)),
        lambda file: file.chmod(0o600),
    ],
    ids=["truncate and write", "rename over it", "touch", "chmod"],
)
def test_every_way_to_change_a_file_changes_its_stamp(root, change):
    put(root, {"a": "a"})
    os.utime(root / "a", ns=(7, 7))
    before = scan(root).entries["a"].stamp
    change(root / "a")
    assert scan(root).entries["a"].stamp != before


@pytest.mark.parametrize(
    ("link", "text", "target"),
    [
        ("a", "b", "b"),
        ("d/e/a", "../../b", "../../b"),
        ("a", "./d//b", "d/b"),
        ("a", "{root}/d/b", "d/b"),
        ("d/a", "{root}/d/b", "b"),
        ("d/e/a", "{root}/x/b", "../../x/b"),
        ("d/a", "{root}/d", "../d"),
        ("a", "does/not/exist", "does/not/exist"),
        ("a", "{alias}/b", "b"),
        ("d/a", ".", "../d"),
        ("a", "a", "a"),
        ("a", "d/../b", "b"),
        ("d/a", "..", None),
        ("a", "../b", None),
        ("d/a", "../../root/b", None),
        ("a", "/etc/passwd", None),
        ("a", "{root}", None),
        ("a", "{root}/../other", None),
        ("a", "away/../b", None),
        ("a", "{root}2/b", None),
    ],
)
def test_a_link_inside_travels_as_relative_text_and_one_outside_is_refused(root, link, text, target):
    put(root, {"b": "", "d/e/f": "", "x/": ""})
    (root.parent / "far/away").mkdir(parents=True)
    (root / "away").symlink_to(root.parent / "far/away")
    (root.parent / "alias").symlink_to(root)
    text = text.format(root=root, alias=root.parent / "alias")
    (root / link).symlink_to(text)
    index = scan(root)
    if target is None:
        assert link not in index.entries
        assert index.skipped[link].reason == f"a symlink that leads out of the root, to {text}"
        assert not index.skipped[link].unknown
    else:
        assert index.entries[link].target == target
        assert os.path.realpath(root / link) == os.path.realpath((root / link).parent / target)


def test_a_loop_of_links_is_not_followed_and_special_and_large_files_are_left_out_with_a_reason(root):
    put(root, {"d/x": ""})
    (root / "d/up").symlink_to("../d")
    assert set(scan(root).entries) == {"d", "d/x", "d/up"}
    os.mkfifo(fresh(root) / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "sock"))
    with (root / "big").open("wb") as file:
        file.truncate(101_000_000)
    put(root, {"a": ""})
    index = scan(root)
    assert set(index.entries) == {"a"}
    assert index.skipped["pipe"].reason == "a named pipe, which has no content to copy"
    assert index.skipped["sock"].reason == "a socket, which has no content to copy"
    assert index.skipped["big"].reason == "101 MB, more than max_size of [sync] in dkdbg.toml, 100 MB"
    assert set(scan(root, max_size=200_000_000).entries) == {"a", "big"}


UNREADABLE = """
import os, sys
from dkdbg.sync.tree.scan import Scanner
root = sys.argv[1]
scanner = Scanner(root)
index = scanner.scan()
os.chmod(root + "/closed", 0)
now = scanner.scan()
changes = scanner.rescan(index, ["closed", "closed/b"])
print(now.skipped["closed"], "a" in now.entries, changes.removed, sorted(changes.skipped))
"""


def test_a_folder_that_cannot_be_read_is_unknown_and_nothing_in_it_counts_as_gone(root):
    put(root, {"a": "", "closed/b": ""})
    argv = [*without_privileges(), sys.executable, "-c", UNREADABLE, str(root)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    (root / "closed").chmod(0o755)
    expected = "Skip(reason='cannot be read: Permission denied', unknown=True) True () ['closed']\n"
    assert done.stdout == expected, done.stderr


def test_a_root_that_was_replaced_or_is_a_file_is_refused_and_one_behind_a_symlink_resolved_once(root):
    put(root, {"a": ""})
    scanner = Scanner(str(root))
    index = scanner.scan()
    root.rename(root.with_name("elsewhere"))
    with pytest.raises(DkdbgError, match="cannot read the folder"):
        scanner.rescan(index, ["a"])
    root.mkdir()
    with pytest.raises(DkdbgError, match="is no longer the folder"):
        scanner.scan()
    put(fresh(root), {"a": ""})
    alias = root.with_name("alias")
    alias.symlink_to(root)
    scanner = Scanner(str(alias))
    alias.unlink()
    assert (scanner.root, set(scanner.scan().entries)) == (str(root), {"a"})
    put(fresh(root), {"a": ""})
    with pytest.raises(DkdbgError, match="is not a folder"):
        Scanner(str(root / "a"))


def test_every_folder_that_takes_part_is_announced_before_it_is_listed_and_no_other(root):
    put(root, {"a/b/c.py": "", ".venv/lib/x.py": "", "node_modules/y/z.js": ""})
    announced = []

    def enter(folder):
        announced.append(folder)
        put(root, {f"{folder}/late.py" if folder else "late.py": ""})

    entries = Scanner(str(root), enter=enter).scan().entries
    assert sorted(announced) == ["", "a", "a/b"]
    assert {"late.py", "a/late.py", "a/b/late.py"} <= set(entries)
