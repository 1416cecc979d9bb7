"""Comparing with the disk and writing all or nothing, against real files."""

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from dkdbg.errors import EXIT_CONFLICT, DkdbgError
from dkdbg.setup.render.changes import Change, FileWanted, Journal, apply, between, diff, kept
from tests.checkout import snapshot as tree


def generated(content, **more):
    return FileWanted(content=content, reason="test", **more)


def edit(content):
    return FileWanted(content=content, reason="test", owned=False)


def init(root, wanted):
    changes = between(root, wanted)
    apply(root, changes, Journal(root=root))
    return [str(change.path) for change in changes]


def test_a_generated_file_is_written_with_its_record_and_then_nothing_is_left_to_do(tmp_path):
    wanted = {"compose/a.yaml": generated(b"a\n"), "run.sh": generated(b"#!/bin/sh\n", executable=True)}
    assert init(tmp_path, wanted) == ["compose/a.yaml", "run.sh", ".dkdbg/manifest.json", ".dkdbg/.gitignore"]
    assert (tmp_path / "compose/a.yaml").read_bytes() == b"a\n"
    assert (tmp_path / "run.sh").stat().st_mode & 0o111
    assert between(tmp_path, wanted) == ()
    assert not [path for path in tree(tmp_path) if "dkdbg-" in path]


def test_new_files_get_the_mode_of_the_umask(tmp_path):
    old = os.umask(0o027)
    try:
        init(tmp_path, {"a": generated(b""), "b": generated(b"", executable=True)})
    finally:
        os.umask(old)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"] == [0o640, 0o750]


def test_a_generated_file_is_overwritten_by_the_next_init_unless_edited_or_older_than_dkdbg(tmp_path):
    (tmp_path / "older").write_bytes(b"theirs\n")
    init(tmp_path, {"a": generated(b"1\n")})
    init(tmp_path, {"a": generated(b"2\n")})
    assert (tmp_path / "a").read_bytes() == b"2\n"
    (tmp_path / "a").write_bytes(b"mine\n")
    wanted = {"a": generated(b"3\n"), "older": generated(b"ours\n")}
    assert between(tmp_path, wanted) == ()
    why = {"a": "you changed it", "older": "it was there before dkdbg"}
    assert {str(each.path): each.reason for each in kept(tmp_path, wanted)} == why


def test_a_colleagues_clone_knows_generated_files_without_the_journal(tmp_path):
    init(tmp_path, {"a": generated(b"1\n")})
    (tmp_path / ".dkdbg/undo.json").unlink()
    (tmp_path / "a").write_bytes(b"1\r\n")  # core.autocrlf
    assert between(tmp_path, {"a": generated(b"1\n")}) == ()
    assert next(str(change.path) for change in between(tmp_path, {"a": generated(b"2\n")})) == "a"


def test_an_edit_of_the_users_file_keeps_its_mode(tmp_path):
    (tmp_path / "launch.json").write_bytes(b"{}")
    (tmp_path / "launch.json").chmod(0o604)
    init(tmp_path, {"launch.json": edit(b'{"a": 1}')})
    assert tree(tmp_path)["launch.json"] == ("file", 0o604, b'{"a": 1}')


def test_a_file_that_changed_since_it_was_compared_stops_everything(tmp_path):
    (tmp_path / "b").write_bytes(b"1")
    changes = between(tmp_path, {"a": generated(b"a"), "b": edit(b"2")})
    (tmp_path / "b").write_bytes(b"mine")
    before = tree(tmp_path)
    with pytest.raises(DkdbgError, match="b changed while") as caught:
        apply(tmp_path, changes, Journal(root=tmp_path))
    assert caught.value.exit_code == EXIT_CONFLICT
    assert tree(tmp_path) == before


@pytest.mark.parametrize("link", ["out", "out/deeper", "file"])
def test_a_path_that_leads_out_of_the_repository_is_refused(tmp_path, link):
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "out").symlink_to(outside)
    (root / "file").symlink_to(outside / "new")
    with pytest.raises(DkdbgError, match="leads out of the repository"):
        between(root, {link if link == "file" else f"{link}/a": generated(b"")})


@pytest.mark.parametrize("path", ["../a", "/etc/a", "a/../../b", "."])
def test_a_path_that_is_not_inside_is_refused(tmp_path, path):
    with pytest.raises(DkdbgError, match="not a path inside"):
        between(tmp_path, {path: generated(b"")})


def test_a_link_inside_the_repository_is_read_and_not_written_through(tmp_path):
    (tmp_path / "real.json").write_bytes(b"1")
    (tmp_path / "link.json").symlink_to("real.json")
    assert init(tmp_path, {"link.json": edit(b"1")}) == []
    before = tree(tmp_path)
    with pytest.raises(DkdbgError, match=r"link\.json: it is a symbolic link") as caught:
        init(tmp_path, {"a": generated(b""), "link.json": edit(b"2")})
    assert "a real file" in caught.value.hint
    assert tree(tmp_path) == before


GITS_OWN = [".git/hooks/x", "a/.GIT/x", "sub/.git", ".g\u200cit/config", "git~1/config", ".git /x"]


@pytest.mark.parametrize("path", [*GITS_OWN, ".git::$DATA"])
def test_nothing_of_gits_own_is_written(tmp_path, path):
    with pytest.raises(DkdbgError, match="git's own"):
        init(tmp_path, {path: generated(b"")})
    assert [*tmp_path.iterdir()] == []


WANTED = {
    "a/b/new": generated(b"n"),
    "old": edit(b"2"),
    "gone": None,
    "run": generated(b"z", executable=True),
}


@pytest.fixture
def repo(tmp_path):
    init(tmp_path, {"gone": generated(b"g")})
    (tmp_path / "old").write_bytes(b"1")
    return tmp_path


@pytest.mark.parametrize("function", ["open", "fsync", "replace", "mkdir", "unlink"])
@pytest.mark.parametrize("nth", range(1, 14))
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_whatever_fails_nothing_is_left_half_written(repo, monkeypatch, function, nth, code):
    """The nth call of one system call fails, once: the tree is the old or the new one, never between."""
    changes = between(repo, WANTED)
    before = tree(repo)
    real, calls = getattr(os, function), []

    def failing(*args, **more):
        calls.append(args)
        if len(calls) == nth:
            raise OSError(code, os.strerror(code))
        return real(*args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, function, failing)
        caught = None
        try:
            apply(repo, changes, Journal(root=repo))
        except DkdbgError as error:
            caught = error
    if caught:
        assert os.strerror(code) in str(caught)
        assert caught.hint
        assert tree(repo) == before
    else:
        assert between(repo, WANTED) == ()
    Journal(root=repo).undo()
    assert tree(repo) == {"old": before["old"]}


def test_a_first_init_that_fails_leaves_no_trace(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("dkdbg.repository.transaction.sync_directory", full)
        with pytest.raises(DkdbgError, match=r"cannot write .*: No space left on device"):
            init(tmp_path, WANTED)
    assert tree(tmp_path) == {}


def test_an_interrupt_while_writing_goes_back_too(repo, monkeypatch):
    changes, before = between(repo, WANTED), tree(repo)
    real, calls = os.replace, []

    def interrupted(source, target, **more):
        if Path(target).name == "old" and not calls:
            calls.append(target)
            raise KeyboardInterrupt
        return real(source, target, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            apply(repo, changes, Journal(root=repo))
    assert tree(repo) == before


def test_an_interrupt_after_the_last_rename_can_be_undone(repo, monkeypatch):
    changes, before, real = between(repo, WANTED), tree(repo), os.unlink

    def interrupted(name, **more):
        if str(name).endswith("-old") and tree(repo)["old"] != before["old"]:
            raise KeyboardInterrupt
        return real(name, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", interrupted)
        with pytest.raises(KeyboardInterrupt):
            apply(repo, changes, Journal(root=repo))
    assert between(repo, WANTED) == ()
    Journal(root=repo).undo()
    assert tree(repo) == {"old": before["old"]}


KILLED = """
import os, signal, sys
from pathlib import Path
from dkdbg.repository.folders import Folder
from tests.unit.setup.render.test_changes import WANTED, init

def replace(self, old, new):
    real(self, old, new)
    if new == "new":
        os.kill(os.getpid(), int(sys.argv[2]))

real, Folder.replace = Folder.replace, replace
init(Path(sys.argv[1]), WANTED)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_writing_ends_the_process_once_all_is_written(repo, number):
    before = tree(repo)
    child = subprocess.run([sys.executable, "-c", KILLED, str(repo), str(int(number))], check=False)
    assert child.returncode == -number
    assert between(repo, WANTED) == ()
    assert not [path for path in tree(repo) if "dkdbg-" in path]
    Journal(root=repo).undo()
    assert tree(repo) == {"old": before["old"]}


def test_what_a_killed_process_left_beside_the_files_is_removed_by_the_next_one(repo):
    init(repo, WANTED)
    (repo / ".old.dkdbg-old").write_bytes(b"1")
    (repo / ".theirs.dkdbg-old").write_bytes(b"1")
    apply(repo, (), Journal(root=repo))
    assert not (repo / ".old.dkdbg-old").exists()
    assert (repo / ".theirs.dkdbg-old").exists()


def test_a_file_system_without_hard_links_goes_back_by_copies(repo, monkeypatch):
    changes, before = between(repo, WANTED), tree(repo)

    def failing(*_, **__):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", failing)
        patch.setattr("dkdbg.repository.transaction.sync_directory", failing)
        with pytest.raises(DkdbgError):
            apply(repo, changes, Journal(root=repo))
    assert tree(repo) == before


def change(before, after, **more):
    return Change(path=PurePosixPath("dir/f.txt"), before=before, after=after, **more)


OLD, NEW, NONE = "--- a/dir/f.txt\n", "+++ b/dir/f.txt\n", "/dev/null\n"
END = "\\ No newline at end of file\n"
CRLF = change(b"a\x0cx\r\n", b"a\x0cx\r\nb\r\n", mode=0o755)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (change(None, b"a\nb"), f"new file mode 100644\n--- {NONE}{NEW}@@ -0,0 +1,2 @@\n+a\n+b\n{END}"),
        (change(b"a\n", None), f"deleted file mode 100644\n{OLD}+++ {NONE}@@ -1 +0,0 @@\n-a\n"),
        (CRLF, f"new mode 100755\nline ends: CRLF\n{OLD}{NEW}@@ -1 +1,2 @@\n a\x0cx\n+b\n"),
        (change(b"a\n", b"a\r\n"), f"{OLD}{NEW}@@ -1 +1 @@\n-a\n+a^M\n"),
        (change(b"a", b"\0\xff"), "Binary files a/dir/f.txt and b/dir/f.txt differ (1 -> 2 bytes)\n"),
        (change(b"a", b"a", mode=0o755), "new mode 100755\n"),
    ],
)
def test_a_change_is_shown_as_git_would(item, expected):
    assert diff([item]) == f"diff --git a/dir/f.txt b/dir/f.txt\n{expected}"


def test_the_diff_of_text_files_is_one_that_git_applies(tmp_path):
    (tmp_path / "f").write_bytes(b"one\ntwo\nthree")
    changes = between(tmp_path, {"f": edit(b"one\n2\nthree\n"), "d/g": generated(b"new")})
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=diff(changes).encode(), check=True)
    assert (tmp_path / "f").read_bytes() == b"one\n2\nthree\n"
    assert (tmp_path / "d/g").read_bytes() == b"new"
