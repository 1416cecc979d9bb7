"""Commands that a test runs to their end."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def must(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """`done`, which has to have succeeded."""
    assert done.returncode == 0, f"{done.args}\n{done.stdout}\n{done.stderr}"
    return done


def executable(path: Path, script: str) -> Path:
    """Write a shell script that can be run, such as a fake of a program."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def command(
    words: Sequence[str | Path],
    cwd: Path | None = None,
    *,
    env: Mapping[str, str] | None = None,
    text: str = "",
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """A command that is run to its end, with these variables besides; it has to succeed unless `check` is off.

    Args:
        text: what is typed into it.
    """
    done = subprocess.run(
        words, cwd=cwd, env={**os.environ, **(env or {})}, input=text, capture_output=True, text=True, check=False,
        timeout=300,
    )  # fmt: skip
    return must(done) if check else done
