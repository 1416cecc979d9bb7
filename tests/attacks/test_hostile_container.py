"""A hostile container: an image of a stranger, or a target that has been taken over, and what it does to the host by `dkdbg sync`."""

from __future__ import annotations

import json
import secrets
import subprocess
import textwrap
from typing import TYPE_CHECKING

import pytest

from tests.engine.synced import Box, docker, following, run_box, sync, take_away

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.engine

SECRET = "the-secret-of-the-host"
DEEP = "[" * 60_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository, with what must not leave the host around it."""
    outside = tmp_path / "home"
    repository = outside / "repository"
    (repository / "pkg").mkdir(parents=True)
    (repository / "train.py").write_text("print(1)\n")
    (repository / "pkg" / "model.py").write_text("x = 1\n")
    (outside / "key").write_text(SECRET)
    (outside / ".ssh").mkdir()
    (outside / ".ssh" / "id").write_text(SECRET)
    subprocess.run(["git", "init", "-q"], cwd=repository, check=True)
    return repository


@pytest.fixture
def hostile(base_image: str, tmp_path: Path) -> Iterator[Callable[..., Box]]:
    """Make an image with settings of an attacker, and run it."""
    made: list[str] = []

    def run(*lines: str, flags: tuple[str, ...] = (), files: dict[str, str] | None = None) -> Box:
        name = f"dkdbg-hostile-{secrets.token_hex(4)}"
        made.append(name)
        folder = tmp_path / name
        folder.mkdir()
        for path, text in (files or {}).items():
            (folder / path).write_text(textwrap.dedent(text))
        (folder / "Dockerfile").write_text("\n".join([f"FROM {base_image}", *lines]) + "\n")
        docker("build", "-q", "-t", name, str(folder))
        return run_box(name, name, *flags)

    yield run
    for name in made:
        take_away(name)
        docker("rmi", "-f", name, check=False)


def mapped(local: object, remote: object = "/loot") -> str:
    """The line of a Dockerfile that names a folder of the host."""
    text = json.dumps([{"localRoot": local, "remoteRoot": remote}])
    return "ENV DKDBG_MAPPINGS=" + json.dumps(text).replace("$", "\\$")


def loot(box: Box) -> str:
    """All that the container has got, as text."""
    return box.sh("cat /loot/* /loot/*/* /loot/.*/* /ws/* /ws/*/* /ws/*/*/* 2>/dev/null || true")


@pytest.mark.attack(5)
@pytest.mark.parametrize(
    "local", ["/..", "/pkg/../..", "/pkg/../../.ssh", "/./../.ssh", "/../repository/../.ssh"]
)
def test_a_mapping_of_the_image_that_leads_out_of_the_repository_is_refused(
    root: Path, hostile: Callable[..., Box], local: str
) -> None:
    """The image says that its code is a folder above the repository: refused, and nothing is read or sent."""
    box = hostile(mapped("${workspaceFolder}" + local), "WORKDIR /ws")
    done = sync(root, f"docker://{box.name}", "--once")
    assert done.returncode == 2
    assert "names a folder outside of this repository" in done.stderr
    assert "Traceback" not in done.stderr
    assert SECRET not in loot(box)
    again = sync(root, f"docker://{box.name}", "--to", "/ws", "--once")  # what the hint says
    assert again.returncode == 0
    assert SECRET not in loot(box)
    assert box.read("/ws/train.py") == "print(1)\n"


@pytest.mark.attack(5)
def test_a_mapping_through_a_symlink_of_the_repository_is_refused(
    root: Path, hostile: Callable[..., Box]
) -> None:
    """Image and repository together name a symlink that leads out of the repository: refused, nothing is read or sent."""
    (root / "data").symlink_to("../.ssh")
    box = hostile(mapped("${workspaceFolder}/data"))
    done = sync(root, f"docker://{box.name}", "--once")
    assert done.returncode == 2
    assert f"which is not in {root}" in done.stderr
    assert SECRET not in loot(box)


@pytest.mark.attack(5)
@pytest.mark.parametrize(
    "text",
    [
        "[1]", "[[]]", "{}", "null", DEEP, '[{"localRoot": 5, "remoteRoot": "/loot"}]', '[{"localRoot": "/", "remoteRoot": "/loot"}]',
        '[{"localRoot": "${workspaceFolder}//", "remoteRoot": "/loot"}]', '[{"localRoot": {"a": []}, "remoteRoot": []}]',
        '[{"localRoot": "${workspaceFolder}/\\ud800", "remoteRoot": "/loot"}]',
    ],
    ids=range(10),
)  # fmt: skip
def test_a_mapping_of_odd_json_names_the_repository_or_nothing(
    root: Path, hostile: Callable[..., Box], text: str
) -> None:
    """The image's mapping is no mapping: no traceback, and what is synced is the repository or nothing."""
    box = hostile("ENV DKDBG_MAPPINGS=" + json.dumps(text).replace("$", "\\$"), "WORKDIR /ws")
    done = sync(root, f"docker://{box.name}", "--once")
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode in {0, 1, 2}
    assert SECRET not in loot(box)


@pytest.mark.attack(5)
def test_the_folder_that_is_sent_is_said_at_the_start(root: Path, hostile: Callable[..., Box]) -> None:
    """The image chooses a folder of the repository: the first line says which one goes where."""
    box = hostile(mapped("${workspaceFolder}/pkg", "/loot"))
    done = sync(root, f"docker://{box.name}", "--once")
    first = f"syncing {root}/pkg -> {box.name}:/loot"
    assert done.stdout.startswith(first), done.stdout
    assert box.read("/loot/model.py") == "x = 1\n"


SWAP = """
import os, sys, time
os.chdir("/shared")
os.mkdir("real") if not os.path.exists("real") else None
while True:
    for name in ("key", "id"):
        with open("d/" + name, "a") as file: file.write("x")  # a change, so that the host looks
    os.rename("d", "aside"); os.symlink("../..", "d")
    time.sleep(0.0005)
    os.unlink("d"); os.rename("aside", "d")
    time.sleep(0.0002)
"""


@pytest.mark.attack(5)
def test_a_folder_that_becomes_a_symlink_while_it_is_read_is_not_followed(
    root: Path, hostile: Callable[..., Box]
) -> None:
    """A container that mounts a part of the repository swaps a folder there for a symlink to the host's files, over and over:
    nothing outside the repository is read, whenever it hits."""
    shared = root / "shared" / "d"
    shared.mkdir(parents=True)
    (shared / "key").write_text("mine\n")
    (shared / "id").write_text("mine\n")
    box = hostile(flags=("-v", f"{root}/shared:/shared"))
    with following(root, f"docker://{box.name}", "--to", "/ws") as followed:
        swapper = subprocess.Popen(["docker", "exec", box.name, "python3", "-c", SWAP])
        try:
            followed.wait(lambda: len(followed.named("changed")) >= 40, "forty changes are followed", 120)
        finally:
            box.sh("kill $(pgrep -f os.chdir) 2>/dev/null || true")
            swapper.kill()
            swapper.wait()
        assert SECRET not in loot(box)
        assert SECRET not in box.sh("grep -rl -e the-secret /ws || true")
