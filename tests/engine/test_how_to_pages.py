"""The tutorial and the how-tos, run as they are written, on small repositories and a real engine."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.engine.projects import must, repo, take_away, unique
from tests.pages import DOCS, Page
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("how-to")]

LOOP = "import time\nprint('begun', flush=True)\nwhile True:\n    time.sleep(0.1)\n"
TESTS = "import unittest\n\nclass T(unittest.TestCase):\n    def test_total(self):\n        self.assertEqual(1 + 1, 2)\n"


@pytest.fixture
def repository(tmp_path, base_image):
    """Make a repository, with ports of its own; its containers are taken away at the end."""
    made = []

    def make(port="", **files):
        root = repo(tmp_path / unique("how-to"), {"train.py": LOOP, **files})
        wait = "[debug]\nwait = 0\n"
        (root / "dkdbg.toml").write_text(wait)
        (root / ".env").write_text(f"DKDBG_BASE={base_image}\nDKDBG_PORT={free_port()}\n{port}")
        made.append(root)
        return root

    yield make
    for root in made:
        take_away(root, dict(os.environ))


def compose(base_image):
    """A project of a person's, with a server on port 8000."""
    return (
        f"services:\n  api:\n    image: {base_image}\n    working_dir: /workspace\n    volumes: ['.:/workspace']\n"
        "    command: [python3, -m, http.server, '8000']\n    ports: ['8000:8000']\n"
    )


def test_the_tutorial(repository):
    page = Page.of("tutorial.md")
    root = repository(**{"train.py": page.block("sh", "def step")})
    with page.all_run():
        must(page.run("dkdbg init --yes", cwd=root))
        assert "ready: attach to 127.0.0.1:" in must(page.run("dkdbg up", cwd=root)).stdout
        assert "set up" in must(page.run("dkdbg", cwd=root)).stdout
        assert "app-debug" in must(page.run("dkdbg ps", cwd=root)).stdout
        must(page.run("dkdbg logs", cwd=root))
        must(page.run("dkdbg restart", cwd=root))
        must(page.run("dkdbg down", cwd=root))
        must(page.run("dkdbg init --undo", cwd=root))
    assert not (root / ".dkdbg").exists()


def test_compose_and_one_test(repository, base_image):
    page, one = Page.of("how-to/compose.md"), Page.of("how-to/pytest.md")
    files = {"compose.yaml": compose(base_image), "tests/test_sums.py": TESTS}
    root = repository(f"DKDBG_APP_PORT_8000={free_port()}\n", **files)
    with page.all_run(), one.all_run():
        must(page.run("dkdbg init --service api --yes", cwd=root))
        assert "is port 8000 of your program" in must(page.run("dkdbg up", cwd=root)).stdout
        must(page.run("dkdbg logs", cwd=root))
        ran = one.run("dkdbg run -- python3 -m pytest", cwd=root)  # the base image of the tests has no pytest
        assert (ran.returncode, "No module named pytest" in ran.stderr) == (1, True), ran.stderr
        must(page.run("dkdbg down", cwd=root))


def test_a_container_that_runs_already(base_image, tmp_path):
    name = unique("how-to")
    file = DOCS / "how-to/existing-container.md"
    page = Page.read(file, file.read_text().replace("docker://trainer", f"docker://{name}"))
    subprocess.run(
        ["docker", "run", "-d", "--init", "--name", name, base_image, "sleep", "1000000"],
        check=True,
        capture_output=True,
    )
    try:
        with page.all_run():
            assert must(page.run("dkdbg run --on", cwd=tmp_path)).stdout == "from inside\n"
    finally:
        subprocess.run(["docker", "rm", "-f", name], check=False, capture_output=True)


@pytest.mark.parametrize(
    ("name", "writes", "says"),
    [
        ("dev-container", ".devcontainer/devcontainer.json", "app-debug-devcontainer"),
        ("torchrun", "compose.yaml", "torchrun"),
        ("shared-machine", ".vscode/launch.json", "dkdbgToken"),
    ],
)
def test_what_init_writes_for(repository, name, writes, says):
    page = Page.of(f"how-to/{name}.md")
    root = repository()
    if name == "shared-machine":
        (root / "dkdbg.toml").write_text(page.block("toml"))
    with page.all_run():
        must(page.run("dkdbg init", cwd=root))
    assert says in (root / writes).read_text()


def test_without_vs_code(repository):
    neovim, pycharm = Page.of("how-to/neovim.md"), Page.of("how-to/pycharm.md")
    root = repository()
    with neovim.all_run(), pycharm.all_run():
        must(neovim.run("dkdbg init --yes", cwd=root))
        must(neovim.run("dkdbg up", cwd=root))
        must(pycharm.run("dkdbg up", cwd=root))  # a second time: it runs on
        assert "app-debug" in must(pycharm.run("dkdbg ps", cwd=root)).stdout
