"""Remove containers, networks, volumes, images and processes that an interrupted test run left behind.

Everything that tests create on the engine has a name from `unique`, which holds the PID of the run. Processes inherit that
PID in the environment variable `DKDBG_TEST_RUN`. A run removes what runs that have ended left, and at its end its own.
"""

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

#: Environment variable by which processes inherit the PID of their run.
VARIABLE = "DKDBG_TEST_RUN"
_NAME = re.compile(r"-p(\d+)-[0-9a-f]{4}")
_KINDS = {
    "container": (["ps", "-a", "--format", "{{.Names}}"], ["rm", "-f", "-v"]),
    "network": (["network", "ls", "--format", "{{.Name}}"], ["network", "rm"]),
    "volume": (["volume", "ls", "--format", "{{.Name}}"], ["volume", "rm", "-f"]),
    "image": (["image", "ls", "--format", "{{.Repository}}:{{.Tag}}"], ["image", "rm", "-f"]),
}


def run_pid() -> int:
    """Return the PID of this test run: with pytest-xdist that of the controller, whose environment its workers inherit."""
    return int(os.environ.setdefault(VARIABLE, str(os.getpid())))


def unique(name: str) -> str:
    """Return `name` with this run's PID and four random digits: for containers, compose projects, networks and volumes."""
    return f"{name}-p{run_pid()}-{secrets.token_hex(2)}"


def remove_of_ended_runs() -> list[str]:
    """Remove what test runs left that are no longer there; return a line for each."""
    return _remove(lambda run: run != run_pid() and not _is_test_run(run))


def remove_own() -> list[str]:
    """Remove what this run has left; return a line for each."""
    return _remove(lambda run: run == run_pid())


def _remove(is_meant) -> list[str]:
    removed = []
    for pid, run in list(_processes()):
        if is_meant(run):
            with contextlib.suppress(OSError):
                removed.append(f"process {pid}: {_command(pid)}")
                os.kill(pid, signal.SIGKILL)
    if shutil.which("docker") is None:
        return removed
    for kind, (listing, removing) in _KINDS.items():
        names = subprocess.run(
            ["docker", *listing], capture_output=True, text=True, check=False
        ).stdout.splitlines()
        left = [name for name in names if (found := _NAME.search(name)) and is_meant(int(found[1]))]
        if left:
            subprocess.run(["docker", *removing, *left], capture_output=True, check=False)
            removed += [f"{kind} {name}" for name in left]
    return removed


def _processes() -> Iterator[tuple[int, int]]:
    """Yield the PID and the run of each process that inherited a run's PID, or descends from one that did.

    Podman gives its containers an environment without it. This process and those above it are left out.
    """
    runs: dict[int, int] = {}
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or belongs to another user
            pid = int(entry.name)
            parents[pid] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            found = re.search(
                rb"(?:^|\0)" + VARIABLE.encode() + rb"=(\d+)(?:\0|$)", (entry / "environ").read_bytes()
            )
            if found:
                runs[pid] = int(found[1])
    above = {os.getpid(), os.getppid(), run_pid()}
    for pid in parents:
        marked = pid
        while marked not in runs and marked in parents:
            marked = parents[marked]
        if marked in runs and pid not in above:
            yield pid, runs[marked]


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:100]


def _is_test_run(pid: int) -> bool:
    try:
        return "pytest" in _command(pid)
    except OSError:
        return False
