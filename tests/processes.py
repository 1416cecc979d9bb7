"""Which processes a process has started, read from /proc: `pgrep` is not on every machine."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any


def children(pid: int, command: str = "") -> list[int]:
    """Pids of the living children of `pid` whose command line contains `command`, in order."""

    def fits(entry: Path) -> bool:
        # proc(5): "pid (name) state ppid ...", and a name may hold spaces and parentheses.
        state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
        return int(parent) == pid and state != "Z" and command in _line(entry)

    return _pids(fits)


def running(command: str) -> list[int]:
    """Pids of the processes whose command line contains `command`."""
    return _pids(lambda entry: command in _line(entry))


def running_in(folder: Path, command: str) -> list[int]:
    """Pids of the living processes there whose command line contains `command`."""
    return _pids(lambda entry: command in _line(entry) and (entry / "cwd").readlink() == folder)


def members(record: dict[str, Any]) -> list[int]:
    """Return the PIDs of living processes with the session in their environment, the agent's own included."""
    return _pids(lambda entry: record["id"].encode() in (entry / "environ").read_bytes())


def thread_states(pid: int) -> list[str]:
    """The state of each thread: `T` is stopped, which SIGSTOP brings about as soon as the thread would run."""
    found = []
    for stat in Path("/proc", str(pid), "task").glob("*/stat"):
        with contextlib.suppress(OSError):  # it ended while we looked
            found.append(stat.read_text().rpartition(")")[2].split()[0])
    return found


def _pids(fits: Callable[[Path], bool]) -> list[int]:
    """Pids, in order, of the processes whose folder in /proc fits."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended while we looked, or is somebody else's
            if fits(entry):
                found.append(int(entry.name))
    return sorted(found)


def _line(entry: Path) -> str:
    """The command line of a process, by its folder in /proc."""
    return (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
