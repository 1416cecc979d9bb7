"""What changes somewhere else than where a watch would tell: another name, the target's root, rules further up."""

import contextlib
import json
import os
import resource
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from dkdbg.core.target import Local
from dkdbg.errors import DkdbgError
from dkdbg.sync import session
from dkdbg.sync.remote import sender, stream
from dkdbg.sync.tree.scan import Scanner
from tests.unit.sync.followed import LIMIT, following
from tests.unit.sync.trees import fresh, git, put, scanned


def test_a_file_that_is_edited_in_place_is_new_under_all_its_names_and_a_save_by_rename_changes_one(root):
    put(root, {"a": "1", "other": "1", "d/e/": ""})
    (root / "d/b").hardlink_to(root / "a")
    scanner, index = scanned(root)
    (root / "d/e/c").hardlink_to(root / "a")
    index.apply(scanner.rescan(index, ["d/e/c"]))
    put(root, {"a": "2"})
    assert sorted(scanner.rescan(index, ["a"]).written) == ["a", "d/b", "d/e/c"]
    put(fresh(root), {"a": "1"})
    (root / "b").hardlink_to(root / "a")
    scanner, index = scanned(root)
    put(root, {"a": "2"})
    (root / "a").unlink()
    changes = scanner.rescan(index, ["a"])
    assert (list(changes.written), changes.removed) == (["b"], ("a",))
    put(fresh(root), {"a": "1", "new": "2"})
    (root / "b").hardlink_to(root / "a")
    scanner, index = scanned(root)
    (root / "new").replace(root / "a")
    index.apply(scanner.rescan(index, ["a", "new"]))
    assert index.entries == Scanner(str(root)).scan().entries


@pytest.mark.skipif(sys.platform != "linux", reason="inotify")
@pytest.mark.parametrize("elsewhere", ["other", "here/build/ignored", "here/.git/x"])
def test_an_edit_by_a_name_that_is_not_watched_arrives(roots, here, there, elsewhere):
    """A link of a cache or a store of packages: it arrived at the next start."""
    other = here.parent / elsewhere
    put(here, {".gitignore": "build/\n", "a": "1"})
    other.parent.mkdir(parents=True, exist_ok=True)
    other.hardlink_to(here / "a")
    with following(roots) as followed:
        other.write_text("two")
        followed.until(lambda: (there / "a").read_text() == "two")
        with other.open("a") as file:
            file.write("three")
            file.flush()
            followed.until(lambda: (there / "a").read_text() == "twothree")
        other.chmod(0o755)
        followed.until(lambda: (there / "a").stat().st_mode & 0o777 == 0o755)
        (here / "b").hardlink_to(other)
        followed.until((there / "b").exists)
        (here / "a").unlink()
        other.write_text("four")
        followed.until(lambda: (there / "b").read_text() == "four")
        assert not (there / "a").exists()


def test_a_root_that_is_replaced_on_the_target_gets_everything(roots, here, there):
    """Everything went to the folder that was moved away, and success was said."""
    put(here, {"a": "1", "d/b": "2"})
    with following(roots) as followed:
        there.rename(there.parent / "old")
        there.mkdir()
        put(here, {"a": "3"})
        followed.until(lambda: len(followed.named("in_sync")) == 2)
        assert "was replaced by another folder" in followed.named("lost")[0].facts["reason"]
        assert ((there / "a").read_text(), (there / "d/b").read_text()) == ("3", "2")


def test_the_end_of_the_first_connection_is_seen_at_once_and_not_at_the_next_ping(roots, there, monkeypatch):
    monkeypatch.setattr(session, "_PING_S", 10 * LIMIT)
    with following(roots) as followed:
        os.kill(json.loads((there / ".dkdbg-sync/lock").read_text())["pid"], signal.SIGKILL)
        followed.until(lambda: len(followed.named("in_sync")) == 2)
        assert "signal 9" in followed.named("lost")[0].facts["reason"]


def test_a_receiver_that_is_killed_during_the_first_copy_has_the_rest_sent_by_the_next_one(
    roots, here, there
):
    files = {f"p{number // 200}/m{number}": str(number) * 1000 for number in range(1500)}
    put(here, files)

    def kill():
        while not any(there.glob("p*/m*")):
            time.sleep(0.001)
        os.kill(json.loads((there / ".dkdbg-sync/lock").read_text())["pid"], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with following(roots) as followed:
        killer.join()
        followed.until(lambda: followed.named("lost") and followed.events[-1].name == "in_sync")
        assert {name: (there / name).read_text() for name in files} == files


def test_a_second_sync_is_told_which_process_of_which_machine_has_the_folder(roots):
    """The receiver's own pid says nothing to the user: it comes back when it is killed."""
    with following(roots), pytest.raises(DkdbgError) as caught:
        session.Session(roots, Local, report=lambda _: None).once()
    assert (
        f"is writing to this folder on the target: pid {os.getpid()} on {os.uname().nodename}, "
        in caught.value.message
    )


@pytest.mark.parametrize("size", [10, 20_000_000])
def test_a_target_that_answers_nothing_is_said_while_a_save_waits_and_given_up_later(
    roots, here, there, monkeypatch, size
):
    """A frozen container, or a network that drops all packets: an answer does not come, or a pipe stays full."""
    monkeypatch.setattr(stream, "QUIET_S", 0.2)
    with following(roots) as followed:
        pid = json.loads((there / ".dkdbg-sync/lock").read_text())["pid"]
        os.kill(pid, signal.SIGSTOP)
        (here / "a").write_bytes(b"x" * size)
        followed.until(lambda: followed.named("quiet"))
        os.kill(pid, signal.SIGCONT)
        followed.until((there / "a").exists)
        assert followed.named("lost") == []
        for each in (stream, sender):
            monkeypatch.setattr(each, "SILENCE_S", 1.0)
        os.kill(pid, signal.SIGSTOP)
        (here / "b").write_bytes(b"x" * size)
        followed.until(lambda: followed.named("lost"))
        assert followed.named("lost")[0].facts["reason"] == "no answer for 1 s"
        followed.until((there / "b").exists)


def test_a_save_waits_for_a_target_also_where_more_than_1024_files_are_open(roots, here, there, monkeypatch):
    monkeypatch.setattr(stream, "QUIET_S", 0.2)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    try:
        with contextlib.ExitStack() as opened:
            for _ in range(1024):
                opened.enter_context(Path(os.devnull).open())
            followed = opened.enter_context(following(roots))
            pid = json.loads((there / ".dkdbg-sync/lock").read_text())["pid"]
            os.kill(pid, signal.SIGSTOP)
            (here / "a").write_bytes(b"x" * 20_000_000)
            followed.until(lambda: followed.named("quiet"))
            os.kill(pid, signal.SIGCONT)
            followed.until((there / "a").exists)
            assert followed.named("lost") == []
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_folder_for_new_files_that_is_removed_on_the_target_is_made_again(roots, here, there):
    put(here, {"a": "1"})
    with following(roots) as followed:
        (there / ".dkdbg-sync/tmp").rmdir()
        put(here, {"a": "2"})
        followed.until(lambda: (there / "a").read_text() == "2")
        assert followed.named("failed") == []


def test_what_git_tracks_takes_part_whatever_bytes_its_name_has(root):
    git(root, "init", "-q")
    names = [os.fsdecode(name) for name in (b"caf\xe9.log", b"d\xff/x.log", b"carriage\rreturn.log")]
    put(root, {".gitignore": "*.log\n", **dict.fromkeys(names, "")})
    git(root, "add", "-f", ".")
    assert set(names) <= set(Scanner(str(root)).scan().entries)


def test_a_gitignore_above_the_root_is_followed(roots, here, there):
    git(here.parent, "init", "-q")
    put(here, {"a.log": "1", "b.py": "2"})
    put(here.parent, {".gitignore": "*.log\n"})
    with following(roots) as followed:
        assert not (there / "a.log").exists()
        put(here.parent, {".gitignore": "nothing\n"})
        followed.until((there / "a.log").exists)


def test_git_init_while_sync_runs_makes_what_git_tracks_take_part(roots, here, there):
    """Nothing of git was looked at again before the next start."""
    put(here, {"model.pt": "1", "a.py": "2"})
    with following(roots) as followed:
        git(here, "init", "-q")
        git(here, "add", "-f", "model.pt")
        followed.until((there / "model.pt").exists)
        put(here, {".git/info/exclude": "secret\n"})
        put(here, {"secret": "3", "b.py": "4"})
        followed.until((there / "b.py").exists)
        assert not (there / "secret").exists()


def test_a_clone_below_the_root_while_sync_runs_is_judged_by_its_own_rules(roots, here, there, root):
    put(root, {"lib/core.py": "1", ".gitignore": "*.tmp\n"})
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "x")
    git(here, "init", "-q")
    put(here, {".gitignore": "lib/\n"})
    with following(roots) as followed:
        git(here, "clone", "-q", str(root), "third/sm")
        followed.until((there / "third/sm/lib/core.py").exists)
        put(here / "third/sm", {"late.tmp": "1", "lib/next.py": "1"})
        followed.until((there / "third/sm/lib/next.py").exists)
        assert not (there / "third/sm/late.tmp").exists()
        git(here / "third/sm", "add", "-f", "late.tmp")
        followed.until((there / "third/sm/late.tmp").exists)


def test_a_repository_that_is_one_no_more_has_nothing_tracked(roots, here, there):
    git(here, "init", "-q")
    put(here, {"model.pt": "1"})
    git(here, "add", "-f", "model.pt")
    with following(roots) as followed:
        assert (there / "model.pt").read_text() == "1"
        shutil.rmtree(here / ".git")
        put(here, {"model.pt": "2", "a.py": ""})
        followed.until((there / "a.py").exists)
        followed.until(lambda: followed.session.files == 1)
        assert (there / "model.pt").read_text() == "1"
