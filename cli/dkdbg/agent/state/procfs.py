"""Reads processes and listening ports from /proc (Linux); without /proc (macOS) most results are unknown or empty."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterable, Iterator, List, Optional, Set, Tuple

_LISTEN = "0A"
#: PF_EXITING in the flags of /proc/PID/stat (linux/sched.h).
_EXITING = 0x4
#: ioctl for information on a pidfd's process, its flag for the exit status, and `struct pidfd_info` with only the
#: flags and the status (linux/pidfd.h).
_PIDFD_GET_INFO, _PIDFD_INFO_EXIT, _PIDFD_INFO = 0xC040FF0B, 0x8, struct.Struct("=Q52xi")


def alive(pid: int) -> bool:
    """Tell whether a process with this pid exists and is not a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    except OverflowError:
        return False
    fields = _stat_fields(pid)
    return fields is None or fields[0] not in ("Z", "X")


def is_ending(pid: int) -> bool:
    """Tell whether a process has ended or is about to: the kernel closes its sockets before it becomes a zombie."""
    fields = _stat_fields(pid)
    return not alive(pid) or (fields is not None and bool(int(fields[6]) & _EXITING))


def state(pid: int) -> str:
    """Return the process's state letter, such as `S`; empty when it is gone or /proc is missing."""
    fields = _stat_fields(pid)
    return fields[0] if fields else ""


def exit_status(pid: int) -> Optional[int]:
    """Return the wait status of a zombie, 0 if another user's is hidden; None when the process runs or is gone."""
    fields = _stat_fields(pid)
    return int(fields[-1]) if fields is not None and fields[0] in ("Z", "X") else None


def reaped_status(pidfd: int) -> Optional[int]:
    """Return the wait status of a process that its parent has reaped; None when unknown, as before Linux 6.15."""
    info = bytearray(_PIDFD_INFO.pack(_PIDFD_INFO_EXIT, 0))
    try:
        fcntl.ioctl(pidfd, _PIDFD_GET_INFO, info)
    except (OSError, ValueError):
        return None
    found, status = _PIDFD_INFO.unpack(info)
    return status if found & _PIDFD_INFO_EXIT else None


def waits_in(pid: int) -> str:
    """Return the kernel function that the main thread waits in; empty when it runs, or when access is denied."""
    try:
        with open("/proc/%d/wchan" % pid) as source:
            found = source.read().strip()
    except OSError:
        return ""
    return found if found != "0" else ""


def start_ticks(pid: int) -> Optional[int]:
    """Return the process's start in clock ticks since boot; None when it is gone or /proc is missing.

    Start and pid together identify a process: a pid alone may be reused, in a container often by the next start.
    """
    fields = _stat_fields(pid)
    return int(fields[19]) if fields is not None and len(fields) > 19 else None


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, user and system, in seconds; 0 if unknown."""
    fields = _stat_fields(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def parent(pid: int) -> int:
    """Return the parent's pid; 0 when unknown."""
    fields = _stat_fields(pid)
    return int(fields[1]) if fields is not None else 0


def command_line(pid: int) -> List[str]:
    """Return the command line of a process; empty when it is gone, or when access is denied."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as source:
            return [os.fsdecode(word) for word in source.read().split(b"\0")[:-1]]
    except OSError:
        return []


def environment(pid: int) -> Optional[Dict[str, str]]:
    """Return the environment with which a process was started; None when it is gone, or when access is denied."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as source:
            entries = source.read().split(b"\0")
    except OSError:
        return None
    return {name: value for name, _, value in (os.fsdecode(entry).partition("=") for entry in entries)}


def owner(pid: int) -> int:
    """Return the uid of a process; -1 when it is gone or /proc is missing."""
    try:
        return os.stat("/proc/%d" % pid).st_uid
    except OSError:
        return -1


def pid_namespace() -> str:
    """Return the identity of this process's PID namespace; empty without /proc."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def boot_id() -> str:
    """Return the boot id of this machine, the same in its containers; empty where unknown.

    It tells machines apart: the initial PID namespace has the same number on all of them.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id") as source:
            return source.read().strip()
    except OSError:
        return ""


def uptime() -> float:
    """Return the seconds since the machine started; 0 without /proc."""
    try:
        with open("/proc/uptime") as source:
            return float(source.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0


def tasks_left(system: str = "/sys/fs/cgroup") -> Optional[int]:
    """Return how many more threads and processes this cgroup allows (pids.max); None without a visible limit.

    Args:
        system: folder of the cgroup filesystem.
    """
    with contextlib.suppress(OSError), open("/proc/self/cgroup") as source:
        for line in source:
            _, controllers, path = line.strip().split(":", 2)
            if controllers not in ("", "pids"):  # empty: version 2
                continue
            # A container of version 1 sees the host's path here, and its own cgroup as the root of the filesystem.
            for folder in (
                os.path.join(system, controllers) + path.rstrip("/"),
                os.path.join(system, controllers),
            ):
                with contextlib.suppress(OSError, ValueError):  # ValueError: "max"
                    limit, current = (int(_read(folder + name)) for name in ("/pids.max", "/pids.current"))
                    return limit - current
    return None


def _read(path: str) -> str:
    with open(path) as source:
        return source.read()


def listening_ports() -> Optional[Set[int]]:
    """Return the TCP ports in LISTEN state in this network namespace; None without /proc.

    It makes no connection, because a port of debugpy accepts no more clients after one connect and close (debugpy #974,
    #1308).
    """
    ports = set()
    found = False
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(name) as table:
                lines = table.readlines()[1:]
        except OSError:
            continue
        found = True
        for line in lines:
            columns = line.split(None, 4)
            if len(columns) > 3 and columns[3] == _LISTEN:
                ports.add(int(columns[1].rpartition(":")[2], 16))
    return ports if found else None


def mounts(path: str = "/proc/self/mountinfo") -> Iterator[Tuple[str, str, str]]:
    """Yield each mount of this namespace: its root within its file system, its mount point, the file system's type.

    The file escapes blanks, tabs, newlines and backslashes in octal (proc_pid_mountinfo(5)).

    Raises:
        OSError: there is no /proc.
    """
    with open(path, encoding="utf-8", errors="surrogateescape") as table:
        for line in table:
            mount, _, system = line.partition(" - ")
            columns = mount.split(" ")
            if len(columns) > 4:
                root, point = (
                    re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), each) for each in columns[3:5]
                )
                yield root, point, system.partition(" ")[0]


def _stat_fields(pid: int) -> Optional[List[str]]:
    """Return the fields of /proc/PID/stat after the second, which is the name and may hold blanks and brackets."""
    try:
        stat = os.open("/proc/%d/stat" % pid, os.O_RDONLY)  # three times as fast as `open`
        try:
            found = os.read(stat, 4096)
        finally:
            os.close(stat)
    except OSError:
        return None
    return found.decode("latin-1").rpartition(")")[2].split()  # a name may hold any bytes


def parents() -> Dict[int, int]:
    """Return the parent of every process of this PID namespace; empty without /proc."""
    found = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    for name in names:
        if name.isdigit():
            fields = _stat_fields(int(name))
            if fields is not None and fields[0] not in ("Z", "X"):
                found[int(name)] = int(fields[1])
    return found


def below(pids: Iterable[int], parents: Dict[int, int]) -> Set[int]:
    """Return these processes and all their descendants in `parents`."""
    children: Dict[int, List[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found: Set[int] = set()
    pending = list(pids)
    while pending:
        pid = pending.pop()
        if pid not in found:
            found.add(pid)
            pending += children.get(pid, [])
    return found
