"""Real files and real git, for the tests of sync."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

GIT = (
    "git",
    "-c",
    "user.name=dkdbg",
    "-c",
    "user.email=dkdbg@example.invalid",
    "-c",
    "init.defaultBranch=main",
)


def git(root, *argv, stdin=None):
    """The output of a git command in `root`, bytes; nobody's own configuration counts."""
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run([*GIT, *argv], cwd=root, input=stdin, capture_output=True, env=env, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def put(root, files):
    """Write `files`, relative path to text; a path that ends in `/` is an empty folder."""
    for path, text in files.items():
        place = Path(root, path)
        if path.endswith("/"):
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
