"""A start builds when something has changed that the image is made of, and leaves nothing behind when it does."""

import contextlib
import os
import re
import sys

import pytest

from tests.engine.attach_proxies import docker
from tests.engine.projects import LOOP, command, dkdbg, must, project, started, unique
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


@pytest.fixture
def root(base_image, tmp_path):
    """A repository whose Dockerfile copies all of it, its environment below the mount."""
    files = {
        "train.py": LOOP,
        "requirements.txt": "tqdm==1\n",
        "dkdbg.toml": f"[debug]\nport = {free_port()}\n",
    }
    files["Dockerfile"] = DOCKERFILE.format(base=base_image)
    with project(tmp_path / unique("built"), files, "init", "--yes") as root:
        yield root


UP, F5 = [sys.executable, "-m", "dkdbg", "up"], ["sh", ".dkdbg/up.sh"]
DEV = ("--profile", "devcontainer", "up", "--detach", "app-debug-devcontainer")


def builds(root, start):
    """Start the service; whether that has built its image."""
    done = command(start, root)
    return "load build context" in done.stdout + done.stderr


def compose(root, *words):
    return docker("compose", "--project-directory", str(root), *words)


def installed(root, file="/app/.venv/installed"):
    return compose(root, "--profile", "debug", "exec", "-T", "app-debug", "cat", file)


def label(root):
    return f"label=com.docker.compose.project={root.name}"


def volumes(root):
    ids = docker("ps", "--all", "--quiet", "--filter", label(root)).split()
    names = docker("inspect", "--format", "{{range .Mounts}}{{println .Name}}{{end}}", *ids)
    return {name for name in names.split() if "_dkdbg-image" not in name}


def exists(volume):
    return not command(["docker", "volume", "inspect", volume], check=False).returncode


def test_only_a_change_of_what_the_image_is_made_of_builds_it_and_nothing_old_stays(root, base_image):
    """By `dkdbg up` and by F5, in turn."""
    assert builds(root, F5)
    with (root / "train.py").open("a") as file:
        file.write("# edited\n")
    (root / "data").mkdir()
    (root / "data" / "batch.bin").write_bytes(os.urandom(1 << 20))
    for number, start in enumerate((UP, F5), 2):
        (former,) = volumes(root)
        assert not builds(root, start)  # the other one has built it
        (root / "requirements.txt").write_text(f"tqdm=={number}\n")
        assert builds(root, start)
        assert installed(root) == f"tqdm=={number}"  # not the folder of the former image
        # No image without a name, and no volume but that of its one container.
        assert not docker("images", "--quiet", "--filter", "dangling=true", "--filter", label(root))
        (volume,) = volumes(root)
        assert not exists(former)
        must(dkdbg(root, "down"))
        assert not exists(volume)
        # The image is gone, and another one has its name.
        docker("tag", base_image, f"{root.name}-app-debug")
        assert builds(root, start)
        assert installed(root) == f"tqdm=={number}"
    # Which files an image is made of was read from the Dockerfile that `init` saw.
    with (root / "Dockerfile").open("a") as file:
        file.write("RUN cp train.py /var/lib/app/\n")
    assert builds(root, UP)
    with (root / "train.py").open("a") as file:
        file.write("# edited again\n")
    assert builds(root, UP)


TYPED = "import os; from dkdbg.main import main; os.chdir({!r}); assert bool(main(['up'])) is {}"


def test_in_a_terminal_a_build_is_one_line_and_one_that_fails_tells_all(root):
    shown = in_a_terminal(TYPED.format(str(root), False), 100)
    assert re.search(r"building \d/\d: COPY requirements.txt", shown)
    left = [line.rpartition("\r\x1b[2K")[2] for line in shown.strip("\n").split("\n")]
    assert not [line for line in left if line.startswith(("#", "building"))]
    assert "ready: attach to" in shown
    with (root / "Dockerfile").open("a") as file:
        file.write("RUN echo what went wrong && exit 3\n")
    shown = in_a_terminal(TYPED.format(str(root), True), 100)
    left = [line.rpartition("\r\x1b[2K")[2] for line in shown.split("\n")]
    assert [line for line in left if re.fullmatch(r"#\d+ [\d.]+ what went wrong", line)]
    assert "exit code: 3" in shown


def test_what_the_compose_file_says_renews_the_folders_of_the_image_without_dkdbg(root):
    head = (root / "compose.yaml").read_text().partition("services:")[0]
    up, renew = (
        next(line for line in head.splitlines() if words in line).strip("# ").partition("  ")[0]
        for words in ("compose --profile debug up", "compose --profile debug rm")
    )
    assert "/app/.venv of the former" in head
    command(["sh", "-c", up], root)
    (first,) = volumes(root)
    (root / "requirements.txt").write_text("tqdm==2\n")
    for line in (renew, up):
        command(["sh", "-c", line], root)
    assert installed(root) == "tqdm==2"
    assert not exists(first)


def test_down_of_all_leaves_the_users_containers_and_an_undo_says_what_removes_each_of_ours(root, base_image):
    (root / "other.yaml").write_text(
        f"services: {{notebook: {{image: '{base_image}', command: sleep 600, init: true}}}}\n"
    )
    compose(root, "--file", str(root / "other.yaml"), "up", "--detach")
    must(dkdbg(root, "up"))
    compose(root, *DEV)
    both = volumes(root) - {""}
    assert len(both) == 2
    must(dkdbg(root, "down", "--all"))
    assert not any(exists(each) for each in both)
    left = docker("ps", "--filter", label(root), "--format", '{{.Label "com.docker.compose.service"}}')
    assert left == "notebook"
    compose(root, "--file", str(root / "other.yaml"), "down", "--timeout", "1")

    for start in (lambda: compose(root, *DEV), lambda: must(dkdbg(root, "up"))):
        start()
        (volume,) = volumes(root)
        said = must(dkdbg(root, "init", "--undo")).stdout
        must(in_shell(root, said.partition("container still exists; to remove it: ")[2].strip()))
        assert docker("ps", "--all", "--quiet", "--filter", label(root)) == ""
        assert not exists(volume)
        must(dkdbg(root, "init", "--yes"))
    assert "still exists" not in must(dkdbg(root, "init", "--undo")).stdout


INSTALLS = """\
    FROM {base}
    WORKDIR /app
    COPY . .
    RUN python3 -c "import shutil; shutil.copytree('ml', '/opt/site/ml')" && date +%s%N >/opt/site/installed
    CMD ["python3", "train.py"]
    """
TRAINS = "import sys, time\nfrom ml.core import ml\nwhile '--once' not in sys.argv:\n    time.sleep(0.02)\n"


def test_a_run_leaves_nothing_that_makes_an_image_of_all_files_reinstall(base_image, tmp_path, monkeypatch):
    """`COPY . .` before `pip install .`, and no .dockerignore: what Python compiled would be another build context."""
    monkeypatch.setenv("DKDBG_WAIT", "0")
    files = {"train.py": TRAINS, "ml/__init__.py": "", "ml/core.py": "ml = 1\n"}
    files |= {
        "dkdbg.toml": f"[debug]\nport = {free_port()}\n",
        "Dockerfile": INSTALLS.format(base=base_image),
    }
    with project(tmp_path / unique("again"), files, "init", "--yes") as root:
        builds(root, F5)
        before = installed(root, "/opt/site/installed")
        must(dkdbg(root, "run", "--wait", "0", "--", "python3", "-c", "import ml.core, sys; sys.exit()"))
        must(dkdbg(root, "run", "--wait", "0", "--", "train.py", "--once"))
        must(dkdbg(root, "sync", "--once"))
        must(dkdbg(root, "restart"))
        must(dkdbg(root, "down"))
        builds(root, UP)
        assert installed(root, "/opt/site/installed") == before
        assert not [*root.rglob("*.pyc"), *root.rglob(".dkdbg-sync")]


def test_two_repositories_with_one_port_are_proven_at_the_same_time(base_image, tmp_path):
    with contextlib.ExitStack() as stack:
        files = {"train.py": LOOP, "dkdbg.toml": f"[debug]\nport = {free_port()}\n"}
        files["Dockerfile"] = f'FROM {base_image}\nWORKDIR /app\nCMD ["python3", "train.py"]\n'
        roots = [tmp_path / unique(name) for name in ("one", "two")]
        for root in roots:
            stack.enter_context(project(root, files, "init", "--yes"))
        proofs = [stack.enter_context(started(root, "verify")) for root in roots]
        for each in proofs:
            assert "proven in " in each.communicate(timeout=300)[0]
