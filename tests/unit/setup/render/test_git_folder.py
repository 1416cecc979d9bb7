"""The undo journal lies in git's own folder, which git never commits and `git clean` never empties."""

import os
import stat

import pytest

from dkdbg.repository.folders import git_folder
from dkdbg.setup.render.changes import FileWanted, Journal, apply, between
from tests.checkout import git, snapshot


@pytest.fixture
def repo(tmp_path):
    root = tmp_path / "repo"
    root.mkdir()
    git(root, "init", "-q")
    (root / "mine.txt").write_text("mine\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    return root


def init(root, content=b"1\n"):
    wanted = {".dkdbg/a": FileWanted(content=content, reason="test")}
    apply(root, between(root, wanted), Journal(root=root))


def test_a_checkout_keeps_it_in_dot_git_readable_by_its_owner_alone(repo):
    init(repo)
    journal = repo / ".git/dkdbg/undo.json"
    assert stat.S_IMODE(journal.stat().st_mode) == 0o600
    assert sorted(path.name for path in (repo / ".dkdbg").iterdir()) == ["a", "manifest.json"]


def test_git_clean_leaves_undo_possible(repo):
    before = snapshot(repo)
    (repo / "mine.txt").write_text("edited\n")
    edited = snapshot(repo)
    assert edited != before
    init(repo)
    git(repo, "clean", "-qxdf")
    Journal(root=repo).undo()
    assert snapshot(repo) == edited
    assert not (repo / ".git/dkdbg").exists()


def test_undo_goes_back_to_what_an_init_after_git_clean_has_found(repo):
    """A file that the user has made since counted as edited since dkdbg wrote it, and undo refused."""

    def init_of(mine):
        wanted = {
            "dkdbg.toml": FileWanted(content=b"made", reason="test"),
            "mine.txt": FileWanted(content=mine, reason="test", owned=False),
        }
        apply(repo, between(repo, wanted), Journal(root=repo))

    first = snapshot(repo)
    init_of(b"mine and ours\n")
    git(repo, "clean", "-qxdf")
    (repo / "dkdbg.toml").write_text("the user's own\n")
    found = snapshot(repo)
    init_of(b"mine and ours again\n")
    Journal(root=repo).undo()
    assert snapshot(repo) == {**found, "mine.txt": first["mine.txt"]}  # that one was as dkdbg had written it


def test_a_worktree_has_its_own(repo):
    other = repo.parent / "other"
    git(repo, "worktree", "add", "-q", str(other))
    init(other)
    assert git_folder(other) == repo / ".git/worktrees/other"
    assert (repo / ".git/worktrees/other/dkdbg/undo.json").is_file()
    assert not (repo / ".git/dkdbg").exists()
    Journal(root=other).undo()
    assert git(other, "status", "--porcelain") == ""


def test_a_submodule_has_its_own(repo):
    top = repo.parent / "top"
    top.mkdir()
    git(top, "init", "-q")
    git(top, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repo), "sub")
    assert git_folder(top / "sub") == top / ".git/modules/sub"


def test_folders_of_one_checkout_have_one_each(repo):
    for name in ("one", "two"):
        (repo / name).mkdir()
        init(repo / name)
    assert len(list((repo / ".git/dkdbg").iterdir())) == 2
    before = snapshot(repo / "two")
    Journal(root=repo / "one").undo()
    assert snapshot(repo / "two") == before
    Journal(root=repo / "two").undo()
    assert list((repo / "two").iterdir()) == []


@pytest.mark.parametrize("empty", [False, True])
def test_without_git_or_with_an_empty_folder_of_its_name_it_lies_beside_and_is_ignored(tmp_path, empty):
    if empty:
        (tmp_path / ".git").mkdir()
    init(tmp_path)
    assert stat.S_IMODE((tmp_path / ".dkdbg/undo.json").stat().st_mode) == 0o600
    assert "/undo.json" in (tmp_path / ".dkdbg/.gitignore").read_text().splitlines()


@pytest.mark.parametrize("again", [True, False])
def test_undo_goes_behind_the_journal_of_an_earlier_version_taken_over_or_alone(tmp_path, *, again):
    before = snapshot(tmp_path)
    init(tmp_path)
    git(tmp_path, "init", "-q")
    if again:
        init(tmp_path, b"2\n")
        assert sorted(path.name for path in (tmp_path / ".dkdbg").iterdir()) == ["a", "manifest.json"]
    Journal(root=tmp_path).undo()
    assert snapshot(tmp_path) == before


def test_a_link_in_the_git_folder_is_not_followed(repo):
    outside = repo.parent / "outside"
    outside.mkdir()
    (repo / ".git/dkdbg").symlink_to(outside)
    with pytest.raises(Exception, match="leads out of the repository"):
        init(repo)
    assert list(outside.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_somebody_elses_repository_around_ours_does_not_get_our_files(tmp_path):
    git(tmp_path, "init", "-q")
    os.chown(tmp_path / ".git", 12345, 12345)
    root = tmp_path / "ours"
    root.mkdir()
    init(root)
    assert (root / ".dkdbg/undo.json").is_file()
    assert not (tmp_path / ".git/dkdbg").exists()
