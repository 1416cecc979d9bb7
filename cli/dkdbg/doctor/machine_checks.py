"""Checks of a machine: this one, or a target."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from dkdbg.delivery.single_file import OLDEST_PYTHON
from dkdbg.doctor.check import error, warning
from dkdbg.sync.watch import limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dkdbg.doctor.check import Values
    from dkdbg.doctor.situation import Situation

_GIB = 1 << 30
#: A disk with fewer free bytes than _FEW_BYTES is short of space; with fewer than _NO_BYTES it counts as full.
_FEW_BYTES, _NO_BYTES = _GIB, 64 << 20
#: Minimum bytes of /dev/shm for DataLoader workers and NCCL; Docker's default is 64 MB.
_MIN_SHM_BYTES = 1 << 30
#: Maximum difference between the clocks of two machines, in seconds.
_MAX_SKEW_S = 5.0
_MIN_FILES = 1024
#: Network file systems, on which inotify does not report the changes that other machines make.
_NETWORK = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "fuse.sshfs",
        "vboxsf",
        "fuse.vmhgfs-fuse",
        "afs",
        "ceph",
        "lustre",
    }
)
_WINDOWS = frozenset({"9p", "drvfs", "v9fs"})


def sized(size: int) -> str:
    """Format a number of bytes as GB or MB."""
    return f"{size / _GIB:.1f} GB" if size >= _GIB else f"{size >> 20} MB"


@error(
    "system",
    "{system} is neither Linux nor macOS nor WSL 2",
    "wsl --set-version Ubuntu 2 in PowerShell turns WSL 1 into WSL 2; dkdbg runs inside it",
)
def _system(situation: Situation) -> Iterator[Values]:
    machine = situation.machine
    if machine.system and machine.system not in {"Linux", "Darwin"}:
        yield {"system": f"{machine.system} {machine.release}"}
    elif machine.release.endswith("-Microsoft"):  # WSL 2's release ends in `-microsoft-standard-WSL2`
        yield {"system": f"WSL 1 ({machine.release})"}


@error(
    "workspace-owner",
    "{user} may not write to {folder}, which belongs to uid {owner}",
    'sudo chown -R "$(id -u):$(id -g)" .',
)
def _unwritable(situation: Situation) -> Iterator[Values]:
    machine = situation.machine
    if situation.is_local and not machine.is_writable:
        yield {"folder": machine.folder, "user": machine.user or machine.uid, "owner": machine.owner}


@warning(
    "root",
    "dkdbg runs as root, and {folder} belongs to uid {owner}: files that it writes would belong to root",
    "run dkdbg as that user, who must be in the group docker: sudo usermod -aG docker USER",
)
def _root(situation: Situation) -> Iterator[Values]:
    machine = situation.machine
    if situation.is_local and machine.uid == 0 and machine.owner not in {0, None}:
        yield {"folder": machine.folder, "owner": machine.owner}


@warning(
    "umask",
    "umask {umask} makes files that every user of the machine may change, such as the script that F5 runs",
    "add the line umask 022 to your shell's profile, then: chmod -R o-w .",
)
def _open_umask(situation: Situation) -> Iterator[Values]:
    umask = situation.machine.umask
    if situation.is_local and umask is not None and not umask & 0o002:
        yield {"umask": f"{umask:03o}"}


@warning(
    "disk",
    "{free} are left on the disk of {path}",
    "df -h {quoted}; du -xhd1 {quoted} | sort -h shows what fills it",
)
def _disks(situation: Situation) -> Iterator[Values]:
    for disk in {(each.total, each.free): each for each in reversed(situation.machine.disks)}.values():
        if disk.free < _FEW_BYTES:
            severity = "error" if disk.free < _NO_BYTES else "warning"
            yield {
                "path": disk.path,
                "quoted": shlex.quote(disk.path),
                "free": sized(disk.free),
                "severity": severity,
            }


@warning(
    "shm",
    "/dev/shm has {size}: DataLoader workers and NCCL end with a bus error once it is full",  # noqa: S108
    "shm_size: 8gb for the service; docker run --shm-size 8g; in a pod an emptyDir with medium: Memory at /dev/shm",
)
def _shm(situation: Situation) -> Iterator[Values]:
    machine = situation.machine
    if machine.shm is not None and not situation.is_local and machine.shm.total < _MIN_SHM_BYTES:
        yield {"size": sized(machine.shm.total)}


@warning(
    "shm",
    "{free} of {size} are left in /dev/shm: DataLoader workers end with a bus error",
    "ls -lS /dev/shm shows what fills it; files of programs that have ended can be deleted",
)
def _full_shm(situation: Situation) -> Iterator[Values]:
    shm = situation.machine.shm
    if shm is not None and shm.free < _NO_BYTES <= shm.total // 2:
        yield {"size": sized(shm.total), "free": sized(shm.free)}


@warning(
    "open-files",
    "a process may open only {files} files, and DataLoader workers need more: Too many open files",
    "ulimit -n 4096",
)
def _files(situation: Situation) -> Iterator[Values]:
    machine = situation.machine  # macOS's limit, 256, does not matter: programs run in the engine's VM
    if machine.system == "Linux" and machine.files is not None and machine.files < _MIN_FILES:
        yield {"files": machine.files}


@warning(
    "clock",
    "the target's clock is {skew} s {where} this machine's: certificates and file times look wrong",
    "sudo timedatectl set-ntp true there",
)
def _clock(situation: Situation) -> Iterator[Values]:
    skew = situation.machine.skew
    if abs(skew) > _MAX_SKEW_S:
        yield {"skew": f"{abs(skew):.0f}", "where": "ahead of" if skew > 0 else "behind"}


@warning(
    "inotify",
    "there are {folders} folders to watch, but {name} is {value}: dkdbg sync and DKDBG_RELOAD poll instead",
    "{command}",
)
def _watches(situation: Situation) -> Iterator[Values]:
    folders = situation.repository.folders
    if found := _limit(situation, "watches", folders - 1):
        yield {"folders": folders, **found}


@warning("inotify", "your programs use {used} inotify instances, but {name} is {value}", "{command}")
def _instances(situation: Situation) -> Iterator[Values]:
    used = situation.machine.watchers
    if situation.is_local and used is not None and (found := _limit(situation, "instances", used)):
        yield {"used": used, **found}


def _limit(situation: Situation, what: str, used: int) -> dict[str, object]:
    """Return the lowest inotify limit by name, its value, and a command that raises it; empty if `used` is below it.

    Args:
        what: `watches` or `instances`.
    """
    system_limits = situation.machine.limits
    value, name = min(
        ((system_limits[name], name) for name in limits.names(what) if name in system_limits), default=(0, "")
    )
    if not name or used < value:
        return {}
    return {"name": name, "value": value, "command": limits.more(what, name, value)}


@warning(
    "ptrace",
    "kernel.yama.ptrace_scope is {scope}: dkdbg attach TARGET --pid may trace only {whom}",
    "sudo sysctl kernel.yama.ptrace_scope=0 until you are done, or start the program with dkdbg run -- COMMAND",
)
def _ptrace(situation: Situation) -> Iterator[Values]:
    machine = situation.machine
    scope = machine.ptrace_scope or 0
    if scope and (machine.uid != 0 or scope > 2):
        whom = {1: "its own children", 2: "as root"}.get(scope, "after a reboot")
        yield {"scope": scope, "whom": whom, "severity": "note" if scope == 1 else "warning"}


@error(
    "python",
    "no Python 3.8 or newer for the agent ({found})",
    "export DKDBG_PYTHON=/path/to/python3 there, or install one",
)
def _no_python(situation: Situation) -> Iterator[Values]:
    pythons = situation.machine.pythons
    if not situation.is_local and not any(_numbers(version) >= OLDEST_PYTHON for _, version in pythons):
        yield {"found": ", ".join(f"{name} {version}" for name, version in pythons) or "none on PATH"}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"[0-9]{1,9}", version)[:3])


@warning(
    "workspace-mount",
    "{path} is on a network file system ({kind}): changes from elsewhere are not reported, and containers may not read it",
    "clone the repository to a disk of this machine, or run dkdbg where the disk is: dkdbg run --on ssh://HOST -- COMMAND",
)
def _network(situation: Situation) -> Iterator[Values]:
    return _workspace_on(_NETWORK, situation)


@warning(
    "workspace-mount",
    "{path} is on a Windows drive ({kind}): reading is slow, and saves are not reported",
    "git clone the repository into a Linux folder, such as ~/code",
)
def _windows(situation: Situation) -> Iterator[Values]:
    return _workspace_on(_WINDOWS, situation)


def _workspace_on(kinds: frozenset[str], situation: Situation) -> Iterator[Values]:
    workspace = next(iter(situation.machine.disks), None)
    if situation.is_local and workspace is not None and workspace.kind in kinds:
        yield {"path": workspace.path, "kind": workspace.kind}
