"""F5 on the host while the same repository is open in its dev container: neither takes anything from the other."""

from __future__ import annotations

import subprocess

import pytest

from tests.engine.devcontainer_cli import devcontainer_cli
from tests.engine.projects import must

__all__ = ["devcontainer_cli"]

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("editor-2")]

TRAIN = """\
    import time

    while True:
        loss = 0.5
        time.sleep(0.01)
    """


@pytest.fixture
def devcontainer(devcontainer_cli, base_image, monkeypatch):
    """Run the dev container CLI on a folder; the images that it has built are removed."""
    monkeypatch.setenv("DKDBG_BASE", base_image)
    opened = set()

    def run(root, command, *words):
        opened.add(root.name)
        argv = [devcontainer_cli, command, "--workspace-folder", str(root), *words]
        return must(subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False))

    yield run
    for name in opened:
        listing = ["docker", "images", "-q", "--filter", f"reference=vsc-{name}-*"]
        for image in subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split():
            subprocess.run(["docker", "rmi", "-f", image], capture_output=True, check=False)


def test_the_editor_stays_attached_while_the_dev_container_opens_and_f5_leaves_that_open(
    devcontainer, repository, open_editor
):
    root = repository(**{"train.py": TRAIN})
    editor = open_editor(root, "train.py", line=5)
    editor.toggle_breakpoint()
    editor.press("F5")
    editor.stops_at("train.py", 5)
    devcontainer(root, "up")
    editor.press("F5")  # Continue: still attached
    editor.stops_at("train.py", 5, loss="0.5")
    editor.end_sessions()
    editor.press("F5")
    editor.stops_at("train.py", 5)
    devcontainer(root, "exec", "true")
