"""A start builds when something has changed that the image is made of, and leaves nothing behind when it does."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from tests.engine.projects import (
    LOOP,
    dkdbg,
    launch_options,
    marked_line,
    must,
    repo,
    stop_in,
    take_away,
    unique,
)
from tests.hints import in_shell
from tests.ports import free_port
from tests.terminals import in_a_terminal

pytestmark = pytest.mark.engine

DOCKERFILE = """\
    FROM {base}
    RUN python3 -m venv --without-pip /app/.venv
    ENV PATH=/app/.venv/bin:$PATH
    WORKDIR /app
    COPY requirements.txt .
    RUN echo "$(cat requirements.txt)" >.venv/installed
    COPY . .
    RUN mkdir -p /var/lib/app
    CMD ["python3", "train.py"]
    """


def out(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def root(base_image, tmp_path, monkeypatch):
    """A repository whose Dockerfile copies all of it, its environment below the mount."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = repo(
        tmp_path / unique("built"),
        {
            "train.py": LOOP,
            "requirements.txt": "tqdm==1\n",
            "Dockerfile": DOCKERFILE.format(base=base_image),
            "dkdbg.toml": f"[debug]\nport = {free_port()}\n",
        },
    )
    must(dkdbg(root, "init", "--yes"))
    try:
        yield root
    finally:
        take_away(root, {})


def start(root, how):
    words = ["sh", ".dkdbg/up.sh"] if how == "up.sh" else ["dkdbg", "up"]
    if how == "up.sh":
        done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    else:
        done = dkdbg(root, "up")
    must(done)
    return "load build context" in done.stdout + done.stderr


def installed(root):
    argv = [
        "docker",
        "compose",
        "--profile",
        "debug",
        "exec",
        "-T",
        "app-debug",
        "cat",
        "/app/.venv/installed",
    ]
    return subprocess.run(argv, cwd=root, capture_output=True, text=True, check=True).stdout.strip()


def left_over(root):
    """Images without a name and volumes of the project, that are not of its one container."""
    label = f"label=com.docker.compose.project={root.name}"
    images = out("docker", "images", "--quiet", "--filter", "dangling=true", "--filter", label).split()
    return len(images)


def volumes(root):
    ids = out("docker", "ps", "--all", "--quiet", "--filter", f"label=com.docker.compose.project={root.name}")
    names = out("docker", "inspect", "--format", "{{range .Mounts}}{{println .Name}}{{end}}", *ids.split())
    return {name for name in names.split() if not name.endswith("_dkdbg-image")}


def exists(volume):
    return not subprocess.run(
        ["docker", "volume", "inspect", volume], capture_output=True, check=False
    ).returncode


@pytest.mark.parametrize("how", ["up.sh", "dkdbg up"])
def test_only_a_change_of_what_the_image_is_made_of_builds_it_and_nothing_old_stays(root, base_image, how):
    assert start(root, how)
    (first,) = volumes(root)
    with (root / "train.py").open("a") as file:
        file.write("# edited\n")
    (root / "data").mkdir()
    (root / "data" / "batch.bin").write_bytes(os.urandom(1 << 20))
    assert not start(root, how)
    assert installed(root) == "tqdm==1"

    (root / "requirements.txt").write_text("tqdm==2\n")
    assert start(root, how)
    assert installed(root) == "tqdm==2"  # not the folder of the former image
    assert left_over(root) == 0
    (second,) = volumes(root)
    assert not exists(first)

    must(dkdbg(root, "down"))
    assert not exists(second)
    out(
        "docker", "tag", base_image, f"{root.name}-app-debug"
    )  # the image is gone, and another one has its name
    assert start(root, how)
    assert installed(root) == "tqdm==2"
    if how == "dkdbg up":  # which files an image is made of was read from the Dockerfile that `init` saw
        with (root / "Dockerfile").open("a") as file:
            file.write("RUN cp train.py /var/lib/app/\n")
        assert start(root, how)
        with (root / "train.py").open("a") as file:
            file.write("# edited again\n")
        assert start(root, how)


UP = "import os; from dkdbg.main import main; os.chdir({!r}); assert bool(main(['up'])) is {}"


def test_in_a_terminal_a_build_is_one_line_and_one_that_fails_tells_all(root):
    shown = in_a_terminal(UP.format(str(root), False), 100)
    assert re.search(r"building \d/\d: COPY requirements.txt", shown)
    left = [line.rpartition("\r\x1b[2K")[2] for line in shown.strip("\n").split("\n")]
    assert not [line for line in left if line.startswith(("#", "building"))]
    assert "ready: attach to" in shown
    with (root / "Dockerfile").open("a") as file:
        file.write("RUN echo what went wrong && exit 3\n")
    shown = in_a_terminal(UP.format(str(root), True), 100)
    left = [line.rpartition("\r\x1b[2K")[2] for line in shown.split("\n")]
    assert [line for line in left if re.fullmatch(r"#\d+ [\d.]+ what went wrong", line)]
    assert "exit code: 3" in shown


def test_up_writes_a_port_that_a_person_has_chosen_to_launch_json(root):
    port = free_port()
    (root / ".env").write_text(f"DKDBG_PORT={port}  # mine\n")
    said = must(dkdbg(root, "up")).stdout
    assert launch_options(root).port == port
    assert f"using {port}, written to .vscode/launch.json" in said
    assert (root / ".env").read_text() == f"DKDBG_PORT={port}  # mine\n"
    assert stop_in(root, "train.py").line == marked_line(root / "train.py")
    assert must(dkdbg(root, "up")).stdout.count("launch.json") == 0


def test_what_the_compose_file_says_renews_the_folders_of_the_image_without_dkdbg(root):
    head = (root / "compose.yaml").read_text().partition("services:")[0]
    up, renew = (
        next(line for line in head.splitlines() if words in line).strip("# ").partition("  ")[0]
        for words in ("compose --profile debug up", "compose --profile debug rm")
    )
    assert "/app/.venv of the former" in head
    subprocess.run(up, shell=True, cwd=root, capture_output=True, check=True)
    (first,) = volumes(root)
    (root / "requirements.txt").write_text("tqdm==2\n")
    for line in (renew, up):
        subprocess.run(line, shell=True, cwd=root, capture_output=True, check=True)
    assert installed(root) == "tqdm==2"
    assert not exists(first)


def test_down_of_all_leaves_the_users_other_containers_and_no_folder_of_the_image(root, base_image):
    (root / "other.yaml").write_text(
        f"services: {{notebook: {{image: '{base_image}', command: sleep 600, init: true}}}}\n"
    )
    other = ["docker", "compose", "--file", "other.yaml"]
    subprocess.run([*other, "up", "--detach"], cwd=root, capture_output=True, check=True)
    must(dkdbg(root, "up"))
    words = ["docker", "compose", "--profile", "devcontainer", "up", "--detach", "app-debug-devcontainer"]
    subprocess.run(words, cwd=root, capture_output=True, check=True)
    both = volumes(root) - {""}
    assert len(both) == 2
    must(dkdbg(root, "down", "--all"))
    assert not any(exists(each) for each in both)
    left = out(
        "docker",
        "ps",
        "--filter",
        f"label=com.docker.compose.project={root.name}",
        "--format",
        '{{.Label "com.docker.compose.service"}}',
    )
    assert left == "notebook"
    subprocess.run([*other, "down", "--timeout", "1"], cwd=root, capture_output=True, check=True)


def test_an_undo_says_what_removes_the_dev_container_too(root):
    words = ["docker", "compose", "--profile", "devcontainer", "up", "--detach", "app-debug-devcontainer"]
    subprocess.run(words, cwd=root, capture_output=True, check=True)
    (volume,) = volumes(root)
    said = must(dkdbg(root, "init", "--undo")).stdout
    line = said.partition("its container is still there: ")[2].strip()
    must(in_shell(root, line))
    assert not exists(volume)


def test_an_undo_says_what_removes_the_container_that_still_runs(root):
    must(dkdbg(root, "up"))
    (volume,) = volumes(root)
    said = must(dkdbg(root, "init", "--undo")).stdout
    line = said.partition("its container is still there: ")[2].strip()
    subprocess.run(["sh", "-c", line], cwd=root, capture_output=True, check=True)
    label = f"label=com.docker.compose.project={root.name}"
    assert out("docker", "ps", "--all", "--quiet", "--filter", label) == ""
    assert not exists(volume)
    must(dkdbg(root, "init", "--yes"))
    assert "still there" not in must(dkdbg(root, "init", "--undo")).stdout


INSTALLS = """\
    FROM {base}
    WORKDIR /app
    COPY . .
    RUN python3 -c "import shutil; shutil.copytree('ml', '/opt/site/ml')" && date +%s%N >/opt/site/installed
    CMD ["python3", "train.py"]
    """
TRAINS = "import sys, time\nfrom ml.core import ml\nwhile '--once' not in sys.argv:\n    time.sleep(0.02)\n"


def test_a_run_leaves_nothing_that_has_an_image_of_every_file_install_again(
    base_image, tmp_path, monkeypatch
):
    """`COPY . .` before `pip install .`, and no .dockerignore: what Python compiled would be another build context."""
    monkeypatch.setenv("DKDBG_WAIT", "0")
    root = repo(
        tmp_path / unique("again"),
        {
            "train.py": TRAINS, "ml/__init__.py": "", "ml/core.py": "ml = 1\n",
            "Dockerfile": INSTALLS.format(base=base_image),
            "dkdbg.toml": f"[debug]\nport = {free_port()}\n",
        },
    )  # fmt: skip
    must(dkdbg(root, "init", "--yes"))
    installed_at = ["docker", "compose", "--profile", "debug", "exec", "-T", "app-debug", "cat", "/opt/site/installed"]  # fmt: skip
    try:
        start(root, "up.sh")
        before = subprocess.run(installed_at, cwd=root, capture_output=True, text=True, check=True).stdout
        must(dkdbg(root, "run", "--wait", "0", "--", "python3", "-c", "import ml.core, sys; sys.exit()"))
        must(dkdbg(root, "run", "--wait", "0", "--", "train.py", "--once"))
        must(dkdbg(root, "sync", "--once"))
        must(dkdbg(root, "restart"))
        must(dkdbg(root, "down"))
        start(root, "dkdbg up")
        assert (
            subprocess.run(installed_at, cwd=root, capture_output=True, text=True, check=True).stdout
            == before
        )
        assert not [*root.rglob("*.pyc"), *root.rglob(".dkdbg-sync")]
    finally:
        take_away(root, {})
