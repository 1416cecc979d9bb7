"""The dev container CLI, installed once by npm, outside the repository."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

VERSION = "0.89.0"


def cache() -> Path:
    return Path(os.environ.get("DKDBG_TEST_CACHE") or Path.home() / ".cache" / "dkdbg-tests")


@pytest.fixture(scope="session")
def devcontainer_cli() -> str:
    """Path of the `devcontainer` command; without npm and without the cached copy the test is skipped, in CI it fails."""
    folder = cache() / f"devcontainers-cli-{VERSION}"
    command = folder / "node_modules" / ".bin" / "devcontainer"
    if not command.exists():
        give_up = pytest.fail if os.environ.get("CI") else pytest.skip
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
        if not folder.exists():
            scratch.rename(folder)
    return str(command)
