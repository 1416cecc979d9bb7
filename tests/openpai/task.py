"""A task of an OpenPAI job: the script that its server makes of the YAML, in the environment that its runtime makes."""

import os
import subprocess
import sys
from pathlib import Path

from tests.openpai import protocol


def start(
    text: str, role: str, root: Path, home: Path, port: int, *, host: str = "127.0.0.2", **env: str
) -> subprocess.Popen[str]:
    """Start a task; nothing of this environment's dkdbg is in it but Python itself.

    Args:
        root: where the job's code is, and where it runs.
        home: an empty folder.
        port, host: that the platform names for debugging.
    """
    for name in ("python", "python3"):
        (home / name).write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
        (home / name).chmod(0o755)
    clean = {"PATH": f"{home}:{os.environ['PATH']}", "TMPDIR": str(home), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        ["bash", "-c", protocol.script(text, role)], cwd=root, env=clean | protocol.environment(port, role=role, host=host) | env,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
