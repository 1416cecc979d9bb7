"""Repositories of files for the tests: make one, compare two states of it, run `dkdbg` in it."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from tests.commands import command

TRAIN = """\
import argparse


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    print(parser.parse_args())


if __name__ == "__main__":
    main()
"""


def checkout(root: Path, files: dict[str, str | bytes]) -> Path:
    """A git repository with `files` at `root`; nothing is committed."""
    root.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    git(root, "init", "-q")
    return root


def git(folder: Path, *words: str) -> str:
    """What `git WORDS` prints in `folder`, which it does as somebody, and also with a repository of this machine."""
    settings = {
        "user.name": "t", "user.email": "t@example.org", "commit.gpgsign": "false", "protocol.file.allow": "always",
    }  # fmt: skip
    ours = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return command(["git", *ours, *words], folder).stdout


def snapshot(root: Path) -> dict[str, tuple[str, int, bytes]]:
    """All below `root` but .git: path -> (kind, mode, bytes or target)."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if name.split("/")[0] == ".git":
            continue
        mode = stat.S_IMODE(path.lstat().st_mode)
        if path.is_symlink():
            found[name] = ("link", mode, os.fsencode(path.readlink()))
        elif path.is_dir():
            found[name] = ("directory", mode, b"")
        elif path.is_file():
            found[name] = ("file", mode, path.read_bytes())
        else:
            found[name] = ("other", mode, b"")
    return found


def run_dkdbg(
    root: Path, *words: str, env: dict[str, str] | None = None, stdin: int = subprocess.DEVNULL
) -> subprocess.CompletedProcess[str]:
    """`dkdbg ...` as a user runs it in `root`, but never with root's right to read and write everything."""
    return subprocess.run(
        [*without_privileges(), sys.executable, "-m", "dkdbg", *words], cwd=root, env={**os.environ, **(env or {})},
        capture_output=True, text=True, check=False, stdin=stdin, timeout=300,
    )  # fmt: skip


def without_privileges() -> tuple[str, ...]:
    """The command line in front of which file modes count: root's override of them is taken away."""
    if os.geteuid() != 0:
        return ()
    override = "-dac_override,-dac_read_search"
    return (shutil.which("setpriv") or "setpriv", f"--bounding-set={override}", f"--inh-caps={override}")
