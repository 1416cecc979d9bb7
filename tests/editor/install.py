"""VS Code for the tests: code-server and its Node from npm, once, into the tests' cache folder; nothing is compiled."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.needs import browser, give_up
from tests.pythons import cache

HERE = Path(__file__).parent
#: No scripts: they compile a log writer, a watchdog, Kerberos and SQLite, without which VS Code goes on. What it needs
#: (terminals, file watching, the hash of the password) comes built.
NPM = ("npm", "install", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")


@dataclass(frozen=True, kw_only=True)
class Installed:
    """Absolute paths of what the editor needs."""

    node: str
    code_server: str
    browser: str


def installed() -> Installed:
    """Install what is missing; what cannot be had skips the test, in CI it fails it."""
    if sys.platform != "linux":
        give_up("tests/editor/package.json has a Node for Linux alone")
    chromium = browser()
    wanted = (HERE / "package.json").read_bytes()
    folder = cache() / f"code-server-{hashlib.sha256(wanted).hexdigest()[:12]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # beside other processes of tests
        if not folder.exists():
            _install(folder, wanted)
    modules = folder / "node_modules"
    return Installed(
        node=str(next(modules.glob("node-linux-*/bin/node"))),
        code_server=str(modules / "code-server/out/node/entry.js"),
        browser=chromium,
    )


def _install(folder: Path, package_json: bytes) -> None:
    if shutil.which("npm") is None:
        give_up("no npm to install VS Code with")
    # Into a folder of its own, renamed when whole: an install that broke off is not taken for a good one.
    scratch = folder.with_name(f"{folder.name}.{os.getpid()}")
    scratch.mkdir()
    try:
        (scratch / "package.json").write_bytes(package_json)
        _run(scratch, *NPM)
        _run(scratch / "node_modules/code-server/lib/vscode", *NPM)
        scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _run(folder: Path, *argv: str) -> None:
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=500, check=False)
    if done.returncode:
        give_up(f"{' '.join(argv)}: {(done.stderr or done.stdout)[-600:]}")
