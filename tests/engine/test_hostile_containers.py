"""Containers in which little may be written, or somebody was there first: a job that starts the agent by its environment."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.engine.host_doors import docker, lay_out
from tests.engine.projects import unique

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engine

PROGRAM = (
    'import os, sys; print(os.environ.get("DKDBG_SESSION_DIR"), "DKDBG_TOKEN" in os.environ); sys.exit(5)\n'
)
BOTH = 'a=$(python3 /w/job.py); b=$(python3 /w/job.py); echo "$a $b"'
SQUATTED = "setpriv --reuid 1000 --clear-groups mkdir /tmp/dkdbg-0; exec python3 /w/job.py"


@pytest.mark.parametrize(
    ("options", "command", "sessions", "code"),
    [
        (("--user", "1234:1234", "--cap-drop", "ALL"), "exec python3 /w/job.py", {"/tmp/dkdbg-1234/"}, 5),
        # An emptyDir, which is /tmp where the rest cannot be written, may be written by all, without a sticky bit.
        (("--read-only", "-v", "EMPTY:/tmp"), BOTH, {"/dev/shm/dkdbg-0-"}, 0),
        ((), SQUATTED, {"None"}, 5),
        (("--read-only", "--tmpfs", "/dev/shm:ro"), "exec python3 /w/job.py", {"None"}, 5),
    ],
    ids=["another-user", "empty-dir", "squatted", "nothing-to-write"],
)
def test_a_program_runs_with_the_agent_where_it_is_safe_and_else_without(
    tmp_path: Path, base_image: str, *, options: tuple[str, ...], command: str, sessions: set[str], code: int
) -> None:
    root = lay_out(tmp_path, job=PROGRAM)
    for path in (root, root / ".dkdbg", root / ".dkdbg" / "agent.pyz", root / "job.py"):
        path.chmod(0o755)
    empty = root / "empty"
    empty.mkdir()
    empty.chmod(0o777)
    words = [each.replace("EMPTY", str(empty)) for each in options]
    name = unique("dkdbg-test-hostile")
    settings = [
        "PYTHONPATH=/w/.dkdbg/agent.pyz", "DKDBG_LISTEN=0", "DKDBG_TOKEN=a-secret-that-nobody-else-knows",
    ]  # fmt: skip
    flags = [word for each in settings for word in ("-e", each)]
    try:
        docker(
            "run",
            "-d",
            "--name",
            name,
            "-v",
            f"{root}:/w:ro",
            *flags,
            *words,
            base_image,
            "sh",
            "-c",
            command,
        )
        assert int(docker("wait", name)) == code
        done = subprocess.run(["docker", "logs", name], capture_output=True, text=True, check=True)
        said = done.stdout.split()
        (session,) = set(said[::2])  # of one session, where there are two programs
        assert {each for each in sessions if session.startswith(each)}, done
        assert set(said[1::2]) == {"True" if session == "None" else "False"}, (
            done
        )  # untouched, or out of sight
    finally:
        subprocess.run(["docker", "rm", "-f", name], check=False, capture_output=True)
