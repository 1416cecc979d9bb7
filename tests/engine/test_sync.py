"""`dkdbg sync` into real containers that mount nothing."""

import json
import os
import re

import pytest

from tests.checkout import git
from tests.engine import projects
from tests.engine.synced import Box, docker, following, local_tree, run_box, sync, take_away

pytestmark = pytest.mark.engine

TO = ("--to", "/ws")


@pytest.fixture
def root(tmp_path):
    """A repository with everything that a file system can say about a file."""
    folder = tmp_path / projects.unique("repo")
    (folder / "pkg" / "deep").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "train.py").write_text("print(1)\n")
    (folder / "pkg" / "deep" / "model.py").write_text("x = 1\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "ünï cödé.py").write_text("")
    (folder / "new\nline").write_text("odd")
    (folder / "pkg" / "link").symlink_to("deep/model.py")
    (folder / "absolute").symlink_to(folder / "train.py")
    (folder / "outside").symlink_to("/etc/passwd")
    (folder / "weights.bin").write_bytes(os.urandom(3_000_001))
    git(folder, "init", "-q", "-b", "main")
    return folder


@pytest.fixture(scope="module")
def shared(base_image):
    name = projects.unique("dkdbg-sync")
    try:
        yield run_box(name, base_image)
    finally:
        take_away(name)


@pytest.fixture
def box(shared):
    """A container with Python and no /ws."""
    shared.sh("rm -rf /ws")
    return shared


def expected(root):
    tree = {**local_tree(root), "absolute": "l train.py"}
    del tree["outside"]  # leads out of the root
    return tree


@pytest.mark.core
def test_all_but_a_link_that_leads_outside_arrives_as_it_is_and_a_second_time_nothing_is_sent(root, box):
    done = sync(root, f"docker://{box.name}", *TO, "--once")
    assert (done.returncode, done.stderr) == (0, "")
    assert "left out: outside: a symlink that leads out of the root, to /etc/passwd" in done.stdout
    assert box.tree("/ws") == expected(root)
    again = sync(root, f"docker://{box.name}", *TO, "--once", "--json")
    events = [json.loads(line) for line in again.stdout.splitlines()]
    assert [each["event"] for each in events] == ["connected", "skipped", "in_sync"]
    assert events[-1]["did"] in {"", "1 found equal"}
    assert sync(root, f"docker://{box.name}", *TO, "--verify").returncode == 0


@pytest.mark.core
def test_saves_renames_deletes_and_branches_are_followed_and_a_second_sync_hears_of_the_first(root, box):
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    git(root, "checkout", "-qb", "other")
    (root / "train.py").write_text("print(2)\n")
    for number in range(300):
        (root / "pkg" / f"m{number}.py").write_text(f"{number}\n")
    (root / "pkg" / "deep" / "model.py").unlink()
    git(root, "add", ".")
    git(root, "commit", "-qm", "two")
    git(root, "checkout", "-q", "main")
    with following(root, f"docker://{box.name}", *TO) as followed:
        assert box.tree("/ws") == expected(root)

        def same(what):
            followed.wait(lambda: box.tree("/ws") == expected(root), what)

        (root / "train.py").write_text("print(3)\n")  # truncate and write
        same("a plain save")
        (root / "train.py.tmp").write_text("print(4)\n")
        (root / "train.py.tmp").replace(root / "train.py")
        same("a save by rename")
        (root / "train.py").rename(root / "train.py~")
        (root / "train.py").write_text("print(5)\n")
        (root / "train.py~").unlink()
        same("a save with a backup file")
        (root / "train.py").rename(root / "Train.py")
        (root / "Train.py").rename(root / "train.py")
        (root / "pkg").rename(root / "lib")
        same("a folder's new name")
        (root / "lib").rename(root / "Lib")
        same("a folder's new name that differs in case")
        (root / "Lib").rename(root / "pkg")
        (root / "run.sh").chmod(0o644)
        (root / "empty").rmdir()
        (root / "empty").write_text("a file now")
        same("a folder that became a file")
        git(root, "checkout", "-qf", "other")
        same("another branch")
        git(root, "checkout", "-qf", "main")
        same("and back")
        second = sync(root, f"docker://{box.name}", *TO, "--once")
        assert second.returncode == 1
        assert "another sync is writing to this folder on the target: pid" in second.stderr
        assert followed.stop() == 0
        assert followed.events[-1]["event"] == "stopped"
    assert sync(root, f"docker://{box.name}", *TO, "--verify").returncode == 0


def test_what_was_in_the_image_is_adopted_when_equal_and_kept_when_not_what_is_only_there_stays(root, box):
    box.sh(
        "mkdir -p /ws/pkg && echo 'print(1)' > /ws/train.py && echo old > /ws/run.sh && echo mine > /ws/pkg/only_there"
    )
    done = sync(root, f"docker://{box.name}", *TO, "--once")
    assert done.returncode == 0
    assert "kept: run.sh on the target did not come from sync; it is now .dkdbg-sync/kept/" in done.stdout
    (root / "pkg" / "link").unlink()
    (root / "pkg" / "deep" / "model.py").unlink()
    (root / "pkg" / "deep").rmdir()
    (root / "pkg").rmdir()
    done = sync(root, f"docker://{box.name}", *TO, "--once")
    assert (
        "kept: the folder pkg stays on the target, because something in it did not come from sync"
        in done.stdout
    )
    assert box.read("/ws/pkg/only_there") == "mine\n"
    tree = box.tree("/ws")
    assert tree == {**expected(root), "pkg": "d", "pkg/only_there": tree["pkg/only_there"]}
    assert box.sh("cat /ws/.dkdbg-sync/kept/*/run.sh") == "old\n"


def test_a_compose_service_is_found_by_its_name_after_a_restart_and_under_its_new_container(root, base_image):
    compose = f"services: {{app: {{image: '{base_image}', command: sleep 100000, init: true, working_dir: /srv/code}}}}\n"
    (root / "compose.yaml").write_text(compose)
    own = ("compose", "--project-directory", str(root))
    try:
        docker(*own, "up", "-d")
        with following(root, "app") as followed:
            assert followed.named("connected")[0]["root"] == "/srv/code"
            docker(*own, "restart", "-t", "0")
            followed.wait(lambda: len(followed.named("in_sync")) >= 2, "in sync after the restart")
            docker(*own, "rm", "-sf")
            (root / "train.py").write_text("while it was away\n")
            followed.wait(lambda: len(followed.named("lost")) >= 2, "the loss is said")
            docker(*own, "up", "-d")
            followed.wait(lambda: len(followed.named("in_sync")) >= 3, "in sync in the new container")
            assert followed.stop() == 0
        assert sync(root, "app", "--verify").returncode == 0
    finally:
        docker(*own, "down", "-t", "0", check=False)


def test_an_owner_of_the_workspace_needs_no_root_or_other_folder_and_hears_who_owns_it(root, start_container):
    own = start_container(
        "--read-only", "--user", "1000:1000", "--cap-drop", "ALL",
        "--tmpfs", "/ws:uid=1000,gid=1000,mode=755", "--tmpfs", "/theirs:uid=1234,gid=1234,mode=755",
    )  # fmt: skip
    box = Box(own)
    done = sync(root, f"docker://{own}", *TO, "--once")
    assert (done.returncode, done.stderr) == (0, "")
    assert "(as uid 1000" in done.stdout
    assert box.tree("/ws") == expected(root)
    assert box.sh("stat -c %u /ws/train.py") == "1000\n"
    for folder, said in (("/theirs", ("uid 1000", "1234", "hint:")), ("/elsewhere", ("/elsewhere",))):
        done = sync(root, f"docker://{own}", "--to", folder, "--once")
        assert done.returncode == 1
        assert [each for each in said if each not in done.stderr] == [], done.stderr


def test_a_workspace_of_another_user_stays_his_when_the_container_runs_as_root(root, box):
    box.sh("mkdir /ws && chown 1234:1234 /ws")
    assert sync(root, f"docker://{box.name}", *TO, "--once").returncode == 0
    assert box.sh("stat -c %u:%g /ws/train.py /ws/pkg /ws/pkg/link").split() == ["1234:1234"] * 3


def test_an_image_with_a_python_and_no_shell_is_enough(root, start_container, base_image, tmp_path):
    with projects.distroless(base_image, tmp_path) as image:
        own = start_container(image=image, words=())
        done = sync(root, f"docker://{own}", *TO, "--once")
        assert (done.returncode, done.stderr) == (0, "")
        assert sync(root, f"docker://{own}", *TO, "--verify").returncode == 0


def test_without_a_python_it_says_what_was_tried(root, box):
    done = sync(root, f"docker://{box.name}", *TO, "--once", "--python", "/opt/none/python3")
    assert done.returncode == 1
    assert f"there is no Python 3.8 or newer on docker://{box.name}: tried /opt/none/python3" in done.stderr
    assert "--python PATH" in done.stderr


def test_a_mounted_workspace_is_compared_and_nothing_is_sent(root, start_container):
    own = start_container("-v", f"{root}:/ws")
    done = sync(root, f"docker://{own}", *TO, "--once")
    assert (done.returncode, done.stderr) == (1, "")
    assert "are the same folder: nothing is sent, and both are compared" in done.stdout
    said = "differs: absolute is a symlink to an absolute local path, which is a different path on the target"
    assert said in done.stdout
    (root / "absolute").unlink()
    done = sync(root, f"docker://{own}", *TO, "--once")
    assert (done.returncode, done.stderr) == (0, "")
    assert "10 equal, no difference\n" in done.stdout


@pytest.mark.parametrize("place", ["pkg", "deep/way/pkg"])
def test_a_folder_that_is_mounted_inside_of_the_root_there_is_never_written_through(
    root, start_container, place
):
    (root / place).mkdir(parents=True, exist_ok=True)
    (root / place / "mine.py").write_text("")

    def files():
        found = (path for path in root.rglob("*") if ".git" not in path.parts)
        return {path: (path.lstat().st_ino, path.lstat().st_uid) for path in found}

    before = files()
    own = start_container("-v", f"{root / 'pkg'}:/ws/{place}")
    done = sync(root, f"docker://{own}", *TO, "--once")
    assert (done.returncode, done.stdout.count("in sync")) == (2, 0)
    assert (
        f"/ws/{place} on the target is your local {root}/pkg: sync would overwrite your own files in it"
        in done.stderr
    )
    assert files() == before
    [line] = re.findall(r"ignore = \[.*?\]", done.stderr)
    (root / "dkdbg.toml").write_text(f"[sync]\n{line}\n")
    assert sync(root, f"docker://{own}", *TO, "--once").returncode == 0
    assert files().items() > before.items()


def test_other_file_systems_below_the_root_there_are_written_to(root, start_container):
    own = start_container("--tmpfs", "/ws/pkg", "-v", f"{root / 'pkg'}:/ws/elsewhere")
    assert sync(root, f"docker://{own}", *TO, "--once").returncode == 0
    assert docker("exec", own, "ls", "-A", "/ws/pkg").split() == ["deep", "link"]


def test_verify_lists_what_differs_and_what_is_only_there(root, box):
    assert sync(root, f"docker://{box.name}", *TO, "--once").returncode == 0
    box.sh("echo more >> /ws/train.py; rm /ws/run.sh; echo x > /ws/only_there")
    done = sync(root, f"docker://{box.name}", *TO, "--verify")
    assert done.returncode == 1
    assert done.stdout.splitlines()[:-1] == [
        "differs: run.sh is missing on the target",
        "differs: train.py has different content on the target (9 bytes locally, 14 there)",
        "remote only: only_there",
    ]
    told = json.loads(sync(root, f"docker://{box.name}", *TO, "--verify", "--json").stdout)
    assert (sorted(told["differences"]), told["only_there"]) == (["run.sh", "train.py"], ["only_there"])
    assert box.read("/ws/only_there") == "x\n"


def test_pull_copies_folders_back_and_skips_what_is_here_already(root, box, tmp_path):
    assert sync(root, f"docker://{box.name}", *TO, "--once").returncode == 0
    box.sh(
        "mkdir -p /ws/outputs/run1 && head -c 2500000 /dev/urandom > /ws/outputs/run1/model.pt && echo 1 > /ws/outputs/log && ln -s log /ws/outputs/latest"
    )
    done = sync(root, f"docker://{box.name}", *TO, "--pull", "outputs/")
    assert done.returncode == 0, done.stderr
    assert "2 copied (2.5 MB), 0 unchanged" in done.stdout
    place = root / "dkdbg-pulled" / box.name / "outputs"
    assert (place / "log").read_text() == "1\n"
    assert (place / "run1" / "model.pt").stat().st_size == 2_500_000
    done = sync(root, f"docker://{box.name}", *TO, "--pull", "outputs")
    assert "0 copied (0 B), 2 unchanged" in done.stdout
    sync(root, f"docker://{box.name}", *TO, "--once")
    assert "dkdbg-pulled" not in box.tree("/ws")
    done = sync(root, f"docker://{box.name}", *TO, "--pull", "outputs", "--into", str(root / "pkg"))
    assert done.returncode == 2
    assert "local files that dkdbg sync sends" in done.stderr
    done = sync(root, f"docker://{box.name}", *TO, "--pull", "outputs", "--into", str(tmp_path / "elsewhere"))
    assert (tmp_path / "elsewhere" / "outputs" / "log").read_text() == "1\n"
