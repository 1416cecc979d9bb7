"""Looking again at what is dirty finds what a whole scan would find."""

import os
import random
import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from dkdbg.sync.rules.rules import Rules
from dkdbg.sync.tree.scan import Scanner
from tests.unit.sync.trees import Tree, fresh, put, scanned

IGNORE = ("!data/keep/x.py", "c/a")


@settings(max_examples=150 if os.environ.get("DKDBG_TEST_FULL") else 50, deadline=None)
@given(st.integers(0, 2**32))
def test_random_changes_looked_at_piecewise_give_what_a_whole_scan_gives(seed):
    chance = random.Random(seed)
    folder = tempfile.mkdtemp()
    try:
        tree = Tree(Path(folder), chance)
        scanner = Scanner(folder, rules=lambda where: Rules(where, ignore=IGNORE))
        index = scanner.scan()
        for _ in range(12):
            tree.dirty.clear()
            for _ in range(chance.randint(1, 4)):
                tree.change()
            changes = scanner.rescan(index, tree.dirty)
            before = dict(index.entries)
            index.apply(changes)
            whole = Scanner(folder, rules=lambda where: Rules(where, ignore=IGNORE)).scan()
            assert index.entries == whole.entries
            assert index.skipped == whole.skipped
            assert set(changes.removed) <= set(before)
    finally:
        shutil.rmtree(folder)


def test_what_is_inside_goes_before_its_folder_or_a_file_in_its_place_a_change_of_case_is_a_new_file(root):
    put(root, {"old/deep/x": ""})
    scanner, index = scanned(root)
    (root / "old").rename(root / "new")
    changes = scanner.rescan(index, ["old", "new"])
    assert changes.removed == ("old/deep/x", "old/deep", "old")
    assert list(changes.written) == ["new", "new/deep", "new/deep/x"]
    put(fresh(root), {"a": ""})
    scanner, index = scanned(root)
    (root / "a").unlink()
    put(root, {"a/b": ""})
    changes = scanner.rescan(index, ["a"])
    assert (changes.removed, list(changes.written)) == (("a",), ["a", "a/b"])
    put(fresh(root), {"Model.py": "x"})
    scanner, index = scanned(root)
    (root / "Model.py").rename(root / "model.py")
    changes = scanner.rescan(index, ["Model.py", "model.py"])
    assert (changes.removed, list(changes.written)) == (("Model.py",), ["model.py"])


def test_a_dirty_path_that_takes_no_part_or_has_not_changed_changes_nothing(root):
    put(root, {"a.py": "", ".gitignore": "*.log\n"})
    scanner, index = scanned(root)
    put(root, {"x.log": "", "__pycache__/a.pyc": "", "outputs/r/log.txt": ""})
    assert not scanner.rescan(
        index, ["x.log", "__pycache__", "__pycache__/a.pyc", "outputs", "outputs/r/log.txt"]
    )
    put(fresh(root), {"a/b": ""})
    scanner, index = scanned(root)
    assert not scanner.rescan(index, [])
    assert not scanner.rescan(index, ["a/b", "a", "", "gone", "gone/deep"])


def test_a_file_that_grows_over_the_limit_is_skipped_and_said(root):
    put(root, {"a": "12345"})
    scanner, index = scanned(root, rules=lambda where: Rules(where, max_size=5))
    put(root, {"a": "123456"})
    changes = scanner.rescan(index, ["a"])
    index.apply(changes)
    assert (changes.removed, list(changes.skipped)) == (("a",), ["a"])
    put(root, {"a": "1"})
    changes = scanner.rescan(index, ["a"])
    assert (list(changes.written), changes.cleared) == (["a"], ("a",))


def test_a_file_behind_a_folder_that_became_a_link_is_not_looked_at(root):
    put(root, {"d/x": "1"})
    (root.parent / "secret").mkdir()
    (root.parent / "secret/x").write_text("other")
    scanner, index = scanned(root)
    shutil.rmtree(root / "d")
    (root / "d").symlink_to(root.parent / "secret")
    assert scanner.rescan(index, ["d/x"]).removed == ("d/x",)
