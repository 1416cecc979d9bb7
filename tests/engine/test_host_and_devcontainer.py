"""The debug service on the host and the dev container of the same repository, in either order."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.engine.devcontainer_cli import devcontainer_cli
from tests.engine.projects import LOOP, dkdbg, marked_line, must, repo, stop_in, take_away, unique
from tests.ports import free_port

__all__ = ["devcontainer_cli"]

pytestmark = pytest.mark.engine


class Both:
    """One repository, started on the host as F5 does, and opened in its dev container."""

    def __init__(self, cli, root):
        self.cli, self.root, self.id = cli, root, ""

    def f5(self):
        argv = ["sh", ".dkdbg/up.sh"]
        must(subprocess.run(argv, cwd=self.root, capture_output=True, text=True, check=False))
        assert stop_in(self.root, "train.py").line == marked_line(self.root / "train.py")

    def reopen(self):
        self.id = json.loads(must(self.devcontainer("up")).stdout.splitlines()[-1])["containerId"]

    def devcontainer(self, command, *words):
        argv = [self.cli, command, "--workspace-folder", str(self.root), *words]
        return subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)

    def check_devcontainer(self):
        """It is the one that was opened, and it still has the repository."""
        done = must(self.devcontainer("exec", "sh", "-c", "touch made && hostname"))
        assert self.id.startswith(done.stdout.strip())
        (self.root / "made").unlink()

    def host_container(self):
        argv = ["docker", "compose", "--profile", "debug", "ps", "--all", "--quiet", "app-debug"]
        return subprocess.run(argv, cwd=self.root, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def both(base_image, devcontainer_cli, tmp_path, monkeypatch):
    monkeypatch.setenv("DKDBG_BASE", base_image)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files = {
        "train.py": LOOP,
        "requirements.txt": "# nothing\n",
        "dkdbg.toml": f"[debug]\nport = {free_port()}\n",
    }
    root = repo(tmp_path / unique("both"), files)
    must(dkdbg(root, "init", "--yes"))
    try:
        yield Both(devcontainer_cli, root)
    finally:
        take_away(root, {"DKDBG_BASE": base_image})
        built = ["docker", "images", "-q", "--filter", f"reference=vsc-{root.name}-*"]
        for image in subprocess.run(built, capture_output=True, text=True, check=True).stdout.split():
            subprocess.run(["docker", "rmi", "-f", image], capture_output=True, check=False)


def test_the_host_first_then_the_dev_container(both):
    both.f5()
    before = both.host_container()
    both.reopen()
    both.check_devcontainer()
    assert both.host_container() == before
    both.f5()  # and the host again, beside it
    both.check_devcontainer()


def test_the_dev_container_first_then_the_host(both):
    both.reopen()
    both.f5()
    both.check_devcontainer()
    must(dkdbg(both.root, "up"))
    must(dkdbg(both.root, "down"))
    both.check_devcontainer()


def test_a_left_over_container_of_the_host_does_not_hinder_the_dev_container(both):
    both.f5()
    subprocess.run(["docker", "stop", "-t", "2", both.host_container()], capture_output=True, check=True)
    both.reopen()
    both.check_devcontainer()
    both.f5()
    both.check_devcontainer()
