"""The dev container CLI, installed once by npm, outside the repository."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.needs import give_up
from tests.pythons import cache

VERSION = "0.89.0"


@pytest.fixture(scope="session")
def devcontainer_cli() -> str:
    """Path of the `devcontainer` command; without npm and without the cached copy the test is skipped, in CI it fails."""
    folder = cache() / f"devcontainers-cli-{VERSION}"
    command = folder / "node_modules" / ".bin" / "devcontainer"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # beside other processes of tests
        if not command.exists():
            _install(folder)
    return str(command)


def _install(folder: Path) -> None:
    if shutil.which("npm") is None:
        give_up("no npm to install @devcontainers/cli with")
    # Into a folder of its own, renamed when whole: an install that broke off is not taken for a good one.
    scratch = folder.with_name(f"{folder.name}.{os.getpid()}")
    package = f"@devcontainers/cli@{VERSION}"
    argv = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(scratch), package]
    scratch.mkdir(parents=True)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        shutil.rmtree(scratch)
        give_up(f"{' '.join(argv)}: {done.stderr[-300:]}")
    scratch.rename(folder)
