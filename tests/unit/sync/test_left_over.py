"""What sync put there and takes no part any more goes when it goes here, though nothing says so."""

import shutil
from contextlib import ExitStack

import pytest

from tests.unit.sync.followed import following
from tests.unit.sync.followed import learnt as connected
from tests.unit.sync.trees import put


class Learnt:
    """A replica in sync, which follows what a test names as changed."""

    def __init__(self, replica, scanner, index):
        self.replica, self.scanner, self.index = replica, scanner, index
        replica.converge(index)

    def see(self, *dirty):
        changes = self.scanner.rescan(self.index, dirty)
        self.index.apply(changes)
        paths = {*changes.written, *changes.removed, *dirty}
        self.replica.perform(self.replica.steps(self.index, paths, changes.scanned))


@pytest.fixture
def learnt(roots):
    with ExitStack() as at_the_end:
        yield lambda: Learnt(*at_the_end.enter_context(connected(roots)))


@pytest.mark.parametrize("ignored", ["", "d"])
def test_an_unwatched_ignored_folder_goes_with_all_that_sync_put_into_it(roots, here, there, ignored):
    """Of distant checkouts: .dockerignore came with the branch, and folders moved and went after it."""
    put(here, {"d/sub/f": "1", "d/g": "2", "kept": ""})
    with following(roots) as followed:
        (here / ".dockerignore").write_text(f"{ignored}\n")
        followed.until((there / ".dockerignore").exists)
        (here / "d/sub").rename(here.parent / "away")
        (here.parent / "away").rename(here / "d/sub")
        shutil.rmtree(here / "d")
        (here / "last").touch()
        followed.until(lambda: (there / "last").exists() and not (there / "d").exists())
        assert not followed.named("kept")
    assert (there / "kept").exists()


def test_what_went_while_a_rule_of_root_or_a_subfolder_ignored_it_goes_with_that_rule(learnt, here, there):
    put(here, {"d/sub/f": "1", "d/sub/g": "2", "d/h/i": "3", "p/e/f": "1", "p/e/g": "2"})
    sync = learnt()
    rules = {".gitignore": "d/\n", "p/.gitignore": "e\n"}
    put(here, rules)
    sync.see(*rules)
    (here / "d/sub/f").unlink()
    (here / "p/e/f").unlink()
    shutil.rmtree(here / "d/h")
    for rule in rules:
        (here / rule).unlink()
    sync.see(*rules)
    assert sorted(path.name for path in (there / "d").rglob("*")) == ["g", "sub"]
    assert [path.name for path in (there / "p/e").iterdir()] == ["g"]


def test_a_file_in_the_place_of_an_ignored_folder_leaves_nothing_of_it(learnt, here, there):
    put(here, {"d/sub/f": "1", ".gitignore": "d/\n"})
    (here / ".gitignore").unlink()
    sync = learnt()
    put(here, {".gitignore": "d/\n"})
    sync.see(".gitignore")
    shutil.rmtree(here / "d")
    (here / "d").write_text("a file")
    sync.see("d")
    assert (there / "d").read_text() == "a file"
    assert sync.replica.sender.failed == {}
    assert not (there / ".dkdbg-sync/kept").exists()


def test_what_is_still_here_and_ignored_stays_there(learnt, here, there):
    put(here, {"d/sub/f": "1", "d/g": "2"})
    sync = learnt()
    put(here, {".gitignore": "d/\n"})
    sync.see(".gitignore")
    (here / "d/g").unlink()
    sync.see("d")
    assert (there / "d/sub/f").read_text() == "1"
    assert not (there / "d/g").exists()


def test_a_folder_that_cannot_go_yet_goes_when_what_is_in_it_has_gone(learnt, here, there):
    """The ledger forgot the folder, and it stayed for good."""
    put(here, {"d/f": "1"})
    sync = learnt()
    shutil.rmtree(here / "d")
    hidden = sync.replica.view.pop("d/f")  # as if the file's own delete had failed
    sync.see("d")
    assert (there / "d/f").exists()
    assert "the folder still contains something that sync put into it" in sync.replica.sender.failed["d"]
    sync.replica.view["d/f"] = hidden
    sync.see("d")
    assert not (there / "d").exists()
    assert sync.replica.sender.failed == {}


def test_what_goes_from_within_an_ignored_folder_goes_there_too(roots, here, there):
    """Nobody watched that folder: it went at the next look at the folder above."""
    put(here, {"d/sub/f": "1", "d/sub/g": "2", "d/h": "3", "d/e/i/j": "4"})
    with following(roots) as followed:
        put(here, {".gitignore": "d/\n"})
        followed.until((there / ".gitignore").exists)
        put(here, {"d/sub/g": "other", "d/new": ""})
        (here / "d/sub/f").unlink()
        followed.until(lambda: not (there / "d/sub/f").exists())
        (here / "d/h").rename(here.parent / "away")
        followed.until(lambda: not (there / "d/h").exists())
        (here / "d/e").rename(here.parent / "away too")
        followed.until(lambda: not (there / "d/e").exists())
        assert (there / "d/sub/g").read_text() == "2"
        assert not (there / "d/new").exists()


def test_what_went_from_an_ignored_folder_of_an_earlier_session_goes_there_too(roots, here, there):
    put(here, {"d/f": "1", "d/g": "2"})
    with following(roots):
        pass
    put(here, {".gitignore": "d/\n"})
    with following(roots) as followed:
        (here / "d/f").unlink()
        followed.until(lambda: not (there / "d/f").exists())
        assert (there / "d/g").exists()
