"""Real inotify, real editors' habits: what a watcher and a scanner together make of them."""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dkdbg.sync.tree.scan import Scanner
from dkdbg.sync.watch.watcher import Watcher
from tests.unit.sync.trees import Tree, fresh, git, put

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify")


class Follower:
    def __init__(self, root) -> None:
        self.root = str(root)
        self.watcher = Watcher(self.root)
        self.scanner = Scanner(self.root, enter=self.watcher.watch)
        for path in self.scanner.rules.files:
            self.watcher.source.watch_file(path)
        self.index = self.scanner.scan()
        self.lost: list[str] = []
        self.changes = []

    def step(self, timeout: float) -> bool:
        batch = self.watcher.batch(timeout)
        if batch is None:
            return False
        if batch.lost:
            self.lost.append(batch.lost)
        changes = self.scanner.rescan(self.index, [""] if batch.lost else batch.paths)
        self.index.apply(changes)
        if changes:
            self.changes.append(changes)
        return True

    def equal(self) -> bool:
        return self.index.entries == Scanner(self.root).scan().entries

    def catch_up(self, done=lambda: True) -> None:
        """Until the index is what a whole scan finds and `done` holds; the index must get there by events."""
        end = time.monotonic() + 300
        while not (done() and self.equal()):
            self.step(0.5)
            assert time.monotonic() < end, sorted(
                set(self.index.entries) ^ set(Scanner(self.root).scan().entries)
            )

    @property
    def written(self) -> list[str]:
        return [path for changes in self.changes for path in changes.written]

    @property
    def removed(self) -> list[str]:
        return [path for changes in self.changes for path in changes.removed]


@pytest.fixture
def follow(root):
    followers = []

    def start():
        followers.append(Follower(root))
        return followers[-1]

    yield start
    for follower in followers:
        follower.watcher.close()


def batches_until(path, watcher):
    """What comes until `path` does, which was changed last: nothing that happened before it comes later."""
    found = []
    while not found or path not in found[-1]:
        batch = watcher.batch(20)
        assert batch is not None, found
        found.append(batch.paths)
    return found


def truncate_and_write(file):
    file.write_text("new")


def write_beside_and_rename(file):
    file.with_suffix(".tmp123").write_text("new")
    file.with_suffix(".tmp123").rename(file)


def rename_to_backup_and_write_anew(file):
    """As vim with 'backupcopy=no' and emacs do."""
    file.rename(file.with_name(file.name + "~"))
    file.write_text("new")
    file.with_name(file.name + "~").unlink()


def copy_to_backup_and_write(file):
    shutil.copy2(file, file.with_name(file.name + "~"))
    file.write_text("new")


def write_sync_and_replace(file):
    beside = file.with_name(".goutputstream-X")
    with beside.open("w") as out:
        out.write("new")
        out.flush()
        os.fsync(out.fileno())
    beside.replace(file)


def delete_and_write(file):
    """As git does at a checkout."""
    file.unlink()
    file.write_text("new")


SAVES = [
    truncate_and_write, write_beside_and_rename, rename_to_backup_and_write_anew, copy_to_backup_and_write,
    write_sync_and_replace, delete_and_write,
]  # fmt: skip


@pytest.mark.parametrize("save", SAVES)
def test_every_way_to_save_is_seen_and_the_file_is_never_seen_missing(root, follow, save):
    put(root, {"pkg/a.py": "old"})
    follower = follow()
    before = follower.index.entries["pkg/a.py"]
    save(root / "pkg/a.py")
    follower.catch_up(lambda: follower.index.entries["pkg/a.py"] != before)
    assert "pkg/a.py" not in follower.removed


@pytest.mark.parametrize("save", SAVES)
def test_a_save_is_due_before_the_file_would_have_to_be_quiet(root, save):
    """The clock of the inbox stands still: only what is due at once can come."""
    put(root, {"a.py": "old"})
    watcher = Watcher(str(root))
    Scanner(str(root), enter=watcher.watch).scan()
    watcher._inbox.clock = lambda: 0.0
    try:
        save(root / "a.py")
        seen: set[str] = set()
        while "a.py" not in seen:
            batch = watcher.batch()
            seen |= batch.paths
        assert (root / "a.py").read_text() == "new"
    finally:
        watcher.close()


def test_creations_deletions_renames_also_of_case_alone_modes_and_links_are_followed(root, follow):
    put(root, {"a": "1", "b": "2", "d/e/f": "3", "x.sh": ""})
    follower = follow()
    put(root, {"new": "", "empty/": ""})
    (root / "a").unlink()
    (root / "b").rename(root / "d/b2")
    (root / "x.sh").chmod(0o755)
    (root / "link").symlink_to("d/b2")
    (root / "d/e").rename(root / "g")
    follower.catch_up(lambda: follower.index.entries["x.sh"].mode == 0o755)
    assert {"new", "empty", "link", "g", "g/f", "d/b2"} <= set(follower.index.entries)
    put(fresh(root), {"Model.py": "x", "Pkg/a": ""})
    follower = follow()
    (root / "Model.py").rename(root / "model.py")
    (root / "Pkg").rename(root / "pkg")
    follower.catch_up()
    assert set(follower.index.entries) == {"model.py", "pkg", "pkg/a"}


def test_a_folder_that_moved_out_and_back_is_followed(root, follow):
    put(root, {"d/f": "3"})
    follower = follow()
    (root / "d").rename(root.parent / "away")
    follower.catch_up()
    (root.parent / "away/f").write_text("unseen")
    (root.parent / "away").rename(root / "d")
    follower.catch_up()
    (root / "d/f").write_text("1")
    follower.catch_up(lambda: follower.index.entries["d/f"].size == 1)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_changes_meanwhile_is_found_by_events_alone(seed):
    """Another thread changes the tree at random while it is followed."""
    root = Path(tempfile.mkdtemp())
    tree = Tree(root, random.Random(seed))
    follower = Follower(root)
    changing = threading.Thread(target=lambda: [tree.change() for _ in range(150)])
    changing.start()
    try:
        while changing.is_alive():
            follower.step(0.01)
        follower.catch_up()
        assert not follower.lost
    finally:
        changing.join()
        follower.watcher.close()
        shutil.rmtree(root)


def test_a_folder_removed_and_made_again_at_once_is_watched(root, follow):
    put(root, {"d/a": ""})
    follower = follow()
    for _ in range(20):
        shutil.rmtree(root / "d")
        put(root, {"d/a": "x"})
    follower.catch_up()
    (root / "d/a").write_text("later")
    follower.catch_up(lambda: follower.index.entries["d/a"].size == 5)


def test_a_folder_made_again_while_somebody_has_the_old_one_open_is_watched(root, follow):
    """The kernel drops the old one's watch only when the last one closes it."""
    put(root, {"d/a": ""})
    follower = follow()
    opened = os.open(root / "d", os.O_RDONLY)
    shutil.rmtree(root / "d")
    put(root, {"d/a": "x"})
    follower.catch_up(lambda: follower.index.entries["d/a"].size == 1)
    while follower.step(0.5):
        pass
    os.close(opened)
    (root / "d/a").write_text("later")
    follower.catch_up(lambda: follower.index.entries["d/a"].size == 5)


def test_a_branch_switch_is_followed(root, follow):
    git(root, "init", "-q")
    put(root, {f"pkg{n % 7}/m{n}.py": "main" for n in range(300)})
    git(root, "add", ".")
    git(root, "commit", "-qm", "main")
    git(root, "checkout", "-qb", "other")
    shutil.rmtree(root / "pkg3")
    put(root, {f"pkg{n % 5}/m{n}.py": "other" for n in range(300)} | {"deep/new/x.py": ""})
    git(root, "add", "-A")
    git(root, "commit", "-qm", "other")
    follower = follow()
    git(root, "checkout", "-q", "main")
    follower.catch_up(lambda: "deep" not in follower.index.entries)
    git(root, "checkout", "-q", "other")
    follower.catch_up(lambda: "deep/new/x.py" in follower.index.entries)
    assert not follower.lost


def test_git_add_of_an_ignored_file_brings_it_in(root, follow):
    git(root, "init", "-q")
    put(root, {".gitignore": "*.log\n", "a.log": ""})
    follower = follow()
    git(root, "add", "-f", "a.log")
    follower.catch_up(lambda: "a.log" in follower.index.entries)


def test_ignored_folders_cost_no_watch_and_no_work(root, follow):
    names = ("a.py", ".venv/lib/x.py", "env/pyvenv.cfg", "env/lib/y.py", ".git/objects/x")
    put(root, dict.fromkeys(names, ""))
    follower = follow()
    assert sorted(follower.watcher.source._wd_of) == ["", "env"]
    put(root, {".venv/lib/y.py": "", "env/lib/z.py": "", ".git/objects/y": "", "last": ""})
    assert set().union(*batches_until("last", follower.watcher)) == {"last"}


def test_a_changed_gitignore_starts_and_stops_the_watching_of_a_folder(root, follow):
    put(root, {".gitignore": "data/\n", "data/a": ""})
    follower = follow()
    put(root, {".gitignore": "\n"})
    follower.catch_up(lambda: "data/a" in follower.index.entries)
    (root / "data/a").write_text("seen")
    follower.catch_up(lambda: follower.index.entries["data/a"].size == 4)
    put(root, {".gitignore": "data/\n"})
    follower.catch_up(lambda: "data/a" not in follower.index.entries)


def test_a_file_that_stays_open_is_seen_while_it_is_written(root, follow):
    put(root, {"log.txt": ""})
    follower = follow()
    with (root / "log.txt").open("w") as file:
        file.write("line\n")
        file.flush()
        follower.catch_up(lambda: follower.index.entries["log.txt"].size == 5)


def test_thousands_of_events_come_in_few_batches(root, follow):
    put(root, {f"d{n % 10}/f{n}": "" for n in range(1000)})
    follower = follow()
    for n in range(1000):
        (root / f"d{n % 10}/f{n}").write_text("x")
    follower.catch_up(lambda: all(e.size for e in follower.index.entries.values() if e.kind == "f"))
    assert len(follower.changes) < 200


def test_odd_names_come_through_the_watch(root, follow):
    follower = follow()
    names = ["new\nline", " blanks ", "émoji-🐍", os.fsdecode(b"bytes-\xff")]
    put(root, {f"d/{name}": "x" for name in names} | dict.fromkeys(names, "x"))
    follower.catch_up(lambda: set(names) <= set(follower.index.entries))


def test_a_file_that_is_only_read_does_not_come(root, follow):
    put(root, {"a": ""})
    follower = follow()
    (root / "a").read_text()
    put(root, {"last": ""})
    assert set().union(*batches_until("last", follower.watcher)) == {"last"}


def test_wake_ends_a_wait_from_another_thread(follow):
    watcher = follow().watcher
    threading.Timer(0.05, watcher.wake).start()
    assert watcher.batch() is None


def test_a_root_that_is_moved_away_is_lost_with_a_reason(root, follow):
    put(root, {"a": ""})
    watcher = follow().watcher
    root.rename(root.with_name("elsewhere"))
    assert watcher.batch(10).lost == "the local root was moved, deleted or unmounted"


def test_an_overflow_is_said_and_everything_is_looked_at_again(root, follow):
    """The kernel's queue is filled while watchdog's thread is kept from reading it."""
    put(root, {"d/a": "", "e/a": ""})
    follower = follow()
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    source = follower.watcher.source
    with source._lock:
        (root / "d/a").write_text("the thread reads this one and waits for the lock")
        handles = [(root / "e/a").open("w"), (root / "e/b").open("w")]
        for number in range(limit // 2 + 2000):
            for handle in handles:
                os.truncate(handle.fileno(), number % 2)
        for handle in handles:
            handle.close()
        put(root, {"f/late": "", "e/c": ""})
    follower.catch_up(lambda: bool(follower.lost))
    assert follower.lost[0].startswith(f"more than {limit} changes at once (fs.inotify.max_queued_events)")
    put(root, {"f/late": "watched again", "d/a": "1"})
    follower.catch_up(lambda: follower.index.entries["f/late"].size == 13)


FOLLOWED = """
import sys, threading, time
from pathlib import Path
from dkdbg.sync.roots import Roots
from dkdbg.sync.session import Session
from dkdbg.core.target import Local
here, there = Path(sys.argv[1]), Path(sys.argv[1] + ".there")
said = threading.Event()
def report(event):
    if event.name == "in_sync":
        said.set()
    if event.name == "polled":
        print(event.facts["reason"])
roots = Roots(local=str(here), remote=str(there), pythons=(sys.executable,))
session = Session(roots, Local, report=report)
following = threading.Thread(target=session.follow, daemon=True)
following.start()
assert said.wait(300)
for folder in "abc":
    (here / folder / "x").write_text("1")
while not all((there / folder / "x").read_text() for folder in "abc"):
    time.sleep(0.01)
session.stop()
following.join(300)
"""


def _can_limit() -> bool:
    probe = ["unshare", "-Ur", "sh", "-c", "echo 5 > /proc/sys/user/max_inotify_watches"]
    return shutil.which("unshare") and not subprocess.run(probe, capture_output=True, check=False).returncode


@pytest.mark.skipif(not _can_limit(), reason="no user namespaces here")
@pytest.mark.parametrize(
    ("name", "value", "polled", "more"),
    [("max_inotify_watches", 4, "1 folder is", 524288), ("max_inotify_instances", 0, "5 folders are", 512)],
)
def test_a_limit_of_inotify_is_said_once_and_the_rest_is_polled(root, name, value, polled, more):
    """The limit is that of a user namespace of its own: nobody else is limited."""
    put(root, {"a/x": "", "b/x": "", "c/x": "", "d/": ""})
    script = f'echo {value} > /proc/sys/user/{name} && exec "$@"'
    argv = ["unshare", "-Ur", "sh", "-c", script, "sh", sys.executable, "-c", FOLLOWED, str(root)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    said = f"user.{name} is {value}, all in use; to raise it: sudo sysctl user.{name}={more}"
    assert done.stdout == f"{polled} polled every 2 s: {said}\n", done.stderr
    assert done.returncode == 0, done.stderr


def test_what_the_library_warns_of_is_not_printed_beside_what_sync_says():
    program = (
        "import logging, dkdbg.sync.watch.inotify\n"
        "logging.getLogger('watchdog.observers.inotify_c').warning('Inotify queue overflowed')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""
