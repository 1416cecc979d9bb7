"""Undo: the tree from before the first init, byte for byte, and nothing of the user's lost."""

import contextlib
import fcntl
import json
import os
import stat
import time

import pytest

from dkdbg.errors import EXIT_CONFLICT, DkdbgError
from dkdbg.repository import transaction
from dkdbg.setup.render.changes import FileWanted, Journal, apply, between


def snapshot(root):
    """Everything below `root` with mode, bytes and, for files, time of change."""
    found = {}
    for path in root.rglob("*"):
        content = (path.read_bytes(), path.stat().st_mtime_ns) if path.is_file() else None
        found[path.relative_to(root).as_posix()] = (stat.S_IMODE(path.stat().st_mode), content)
    return found


def init(root, **contents):
    wanted = {
        "gen/deep/a": FileWanted(content=contents.get("a", b"a\n"), reason="test"),
        "launch.json": FileWanted(content=contents.get("launch", b"{1}"), reason="test", owned=False),
    }
    apply(root, between(root, wanted), Journal(root=root))


@pytest.fixture
def repo(tmp_path):
    (tmp_path / "launch.json").write_bytes(b"\xef\xbb\xbf{\r\n}")
    (tmp_path / "launch.json").chmod(0o640)
    os.utime(tmp_path / "launch.json", ns=(10**18, 10**18))
    (tmp_path / "src").mkdir()
    return tmp_path


def test_undo_leaves_the_tree_as_it_was_and_a_second_one_says_there_is_nothing_to_undo(repo):
    before = snapshot(repo)
    init(repo)
    undone = Journal(root=repo).undo()
    assert snapshot(repo) == before
    assert [str(path) for path in undone.restored] == ["launch.json"]
    ours = ["gen/deep/a", ".dkdbg/manifest.json", ".dkdbg/.gitignore"]
    assert [str(path) for path in undone.removed] == ours
    init(repo)
    Journal(root=repo).undo()
    with pytest.raises(DkdbgError, match="nothing to undo"):
        Journal(root=repo).undo()


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_undo_ends_well_where_the_lock_beside_our_dev_container_is_no_file(tmp_path, kind):
    """A hostile repository has it: undo read it, and ended with an error."""
    root, outside = tmp_path / "repo", tmp_path / "outside"
    root.mkdir()
    outside.write_text('{"features": {}}')
    wanted = {".devcontainer/dkdbg/devcontainer.json": FileWanted(content=b"{}", reason="test")}
    apply(root, between(root, wanted), Journal(root=root))
    lock = root / ".devcontainer/dkdbg/devcontainer-lock.json"
    {"folder": lock.mkdir, "link": lambda: lock.symlink_to(outside), "pipe": lambda: os.mkfifo(lock)}[kind]()
    assert Journal(root=root).undo().left
    assert (lock.parent.exists(), outside.exists()) == (True, True)


@pytest.mark.parametrize("lock", ['{\n  "features": {}\n}\n', '{"features": {"x": {}}}'])
def test_undo_removes_the_lock_that_tools_write_beside_our_dev_container_unless_it_locks_a_feature(
    tmp_path, lock
):
    wanted = {".devcontainer/dkdbg/devcontainer.json": FileWanted(content=b"{}", reason="test")}
    apply(tmp_path, between(tmp_path, wanted), Journal(root=tmp_path))
    (tmp_path / ".devcontainer/dkdbg/devcontainer-lock.json").write_text(lock)
    assert bool(Journal(root=tmp_path).undo().left) is ("x" in lock)
    assert (tmp_path / ".devcontainer").exists() is ("x" in lock)


def test_undo_goes_back_to_before_the_first_of_several_inits(repo):
    before = snapshot(repo)
    for n in (b"1", b"2", b"3"):
        init(repo, a=n, launch=n)
    Journal(root=repo).undo()
    assert snapshot(repo) == before


def test_force_saves_the_edited_version_beside_the_restored_one(repo):
    before = snapshot(repo)
    init(repo)
    (repo / "launch.json").write_bytes(b"mine")
    (repo / "launch.json.dkdbg-saved").write_bytes(b"from an earlier undo")
    Journal(root=repo).undo(force=True)
    after = snapshot(repo)
    assert after.pop("launch.json.dkdbg-saved")[1][0] == b"from an earlier undo"
    assert after.pop("launch.json.dkdbg-saved-2")[1][0] == b"mine"
    assert after == before


def test_an_edit_between_two_inits_is_not_forgotten(repo):
    init(repo)
    (repo / "launch.json").write_bytes(b"{1, mine}")
    init(repo, launch=b"{2, mine}")
    with pytest.raises(DkdbgError, match=r"launch\.json"):
        Journal(root=repo).undo()


def test_a_removed_file_and_a_manifest_that_a_merge_changed_are_no_obstacle(repo):
    before = snapshot(repo)
    init(repo)
    (repo / "gen/deep/a").unlink()
    (repo / ".dkdbg/manifest.json").write_bytes(b'{"version": 1, "files": {}}')
    Journal(root=repo).undo()
    assert snapshot(repo) == before


class Killed(BaseException):
    """The process is gone: nothing may run after it, so going back is switched off in the test."""


@pytest.mark.parametrize("nth", range(1, 5))
def test_undo_works_after_a_crash_at_any_rename(repo, monkeypatch, nth):
    before = snapshot(repo)
    init(repo, a=b"1", launch=b"1")
    calls, real = [], os.replace

    def killed(*args, **more):
        calls.append(args)
        if len(calls) == nth:
            raise Killed
        return real(*args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        patch.setattr("dkdbg.repository.transaction.Transaction._roll_back", lambda *_: None)
        patch.setattr("dkdbg.setup.render.journal.Journal.revert", lambda _: None)
        try:
            init(repo, a=b"2", launch=b"2")
        except Killed:
            pass
        else:
            pytest.skip("fewer renames than that")
    Journal(root=repo).undo()
    assert snapshot(repo) == before


def test_after_a_crash_the_generated_file_is_still_known_as_ours(repo, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("dkdbg.repository.transaction.Transaction._roll_back", lambda *_: None)
        patch.setattr("dkdbg.setup.render.journal.Journal.revert", lambda _: None)
        patch.setattr("dkdbg.repository.transaction.sync_directory", lambda _: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            init(repo)
    (repo / ".dkdbg/manifest.json").unlink()
    init(repo, a=b"2")
    assert (repo / "gen/deep/a").read_bytes() == b"2"


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", json.dumps({"files": {"a": {}}, "directories": []}).encode()]
)
def test_a_broken_journal_is_named(repo, content):
    (repo / ".dkdbg").mkdir()
    (repo / ".dkdbg/undo.json").write_bytes(content)
    with pytest.raises(DkdbgError, match=r"undo\.json cannot be read") as caught:
        Journal(root=repo).undo()
    assert "git" in caught.value.hint


def test_a_second_dkdbg_that_writes_waits_for_the_first_and_is_refused_after_a_while(
    script, dkdbg, monkeypatch
):
    """The journal of one of the two was lost, and with it the undo."""
    monkeypatch.setattr(transaction, "LOCK_TIMEOUT_S", 0.1)
    with transaction.locked(script):
        before = snapshot(script)
        done = dkdbg(script, "init", "--yes")
        assert (done.code, snapshot(script) == before) == (EXIT_CONFLICT, True)
        assert f"another dkdbg has been writing into {script}" in done.err
    assert dkdbg(script, "init", "--yes").code == 0
    with transaction.locked(script):
        assert dkdbg(script, "init", "--undo").code == EXIT_CONFLICT
    monkeypatch.setattr(transaction, "LOCK_TIMEOUT_S", 60.0)
    held = contextlib.ExitStack()
    held.enter_context(transaction.locked(script))
    sleep = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: (held.close(), sleep(seconds)))
    assert dkdbg(script, "init", "--undo").code == 0


def test_a_lock_that_somebody_else_has_on_the_repository_stops_nothing(script, dkdbg, monkeypatch):
    """A program in a container that mounts the folder can lock it, and so does `flock . dkdbg init`."""
    monkeypatch.setattr(transaction, "LOCK_TIMEOUT_S", 0.1)
    held = os.open(script, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert dkdbg(script, "init", "--yes").code == 0
    finally:
        os.close(held)
