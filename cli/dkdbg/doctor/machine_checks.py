"""Checks of a machine: this one, or the other side of a target."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dkdbg.delivery.debugpy import OLDEST_PYTHON
from dkdbg.doctor.check import Check
from dkdbg.sync.watch import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dkdbg.doctor.check import Values
    from dkdbg.doctor.situation import Situation

_GIB = 1 << 30
#: Bytes below which a disk is short of space, and below which nothing can be written any more.
_FEW_BYTES, _NO_BYTES = _GIB, 64 << 20
#: Bytes of /dev/shm that DataLoader workers and NCCL need at least; Docker's default is 64 MB.
_MIN_SHM_BYTES = 1 << 30
#: Seconds by which clocks may differ.
_MAX_SKEW_S = 5.0
_MIN_FILES = 1024
#: File systems of another machine: the kernel reports no changes that are made there.
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
    """Return a number of bytes for a user."""
    return f"{size / _GIB:.1f} GB" if size >= _GIB else f"{size >> 20} MB"


def _system(situation: Situation) -> Iterator[Values]:
    machine = situation.machine
    if machine.system and machine.system not in {"Linux", "Darwin"}:
        yield {"system": f"{machine.system} {machine.release}"}
    elif machine.release.endswith("-Microsoft"):  # WSL 2 is named `-microsoft-standard-WSL2`
        yield {"system": f"WSL 1 ({machine.release})"}


def _unwritable(situation: Situation) -> Iterator[Values]:
    machine = situation.machine
    if situation.is_here and not machine.is_writable:
        yield {"folder": machine.folder, "user": machine.user or machine.uid, "owner": machine.owner}


def _root(situation: Situation) -> Iterator[Values]:
    machine = situation.machine
    if situation.is_here and machine.uid == 0 and machine.owner not in {0, None}:
        yield {"folder": machine.folder, "owner": machine.owner}


def _open_umask(situation: Situation) -> Iterator[Values]:
    umask = situation.machine.umask
    if situation.is_here and umask is not None and not umask & 0o002:
        yield {"umask": f"{umask:03o}"}


def _disks(situation: Situation) -> Iterator[Values]:
    for disk in {(each.total, each.free): each for each in reversed(situation.machine.disks)}.values():
        if disk.free < _FEW_BYTES:
            severity = "error" if disk.free < _NO_BYTES else "warning"
            yield {"path": disk.path, "free": sized(disk.free), "severity": severity}


def _shm(situation: Situation) -> Iterator[Values]:
    machine = situation.machine
    if machine.shm is not None and not situation.is_here and machine.shm.total < _MIN_SHM_BYTES:
        yield {"size": sized(machine.shm.total)}


def _full_shm(situation: Situation) -> Iterator[Values]:
    shm = situation.machine.shm
    if shm is not None and shm.free < _NO_BYTES <= shm.total // 2:
        yield {"size": sized(shm.total), "free": sized(shm.free)}


def _files(situation: Situation) -> Iterator[Values]:
    machine = situation.machine  # macOS has 256, and programs run in its engine's machine
    if machine.system == "Linux" and machine.files is not None and machine.files < _MIN_FILES:
        yield {"files": machine.files}


def _clock(situation: Situation) -> Iterator[Values]:
    skew = situation.machine.skew
    if abs(skew) > _MAX_SKEW_S:
        yield {"skew": f"{abs(skew):.0f}", "where": "ahead of" if skew > 0 else "behind"}


def _watches(situation: Situation) -> Iterator[Values]:
    repository = situation.repository
    if repository is not None and (found := _limit(situation, "watches", repository.folders - 1)):
        yield {"folders": repository.folders, **found}


def _instances(situation: Situation) -> Iterator[Values]:
    used = situation.machine.watchers
    if situation.is_here and used is not None and (found := _limit(situation, "instances", used)):
        yield {"used": used, **found}


def _limit(situation: Situation, what: str, used: int) -> dict[str, object]:
    """Return the lower limit of inotify that is used up, and the command that raises it; empty for none."""
    there = situation.machine.limits
    value, name = min(((there[name], name) for name in limits.names(what) if name in there), default=(0, ""))
    if not name or used < value:
        return {}
    return {"name": name, "value": value, "command": limits.more(what, name, value)}


def _ptrace(situation: Situation) -> Iterator[Values]:
    machine = situation.machine
    scope = machine.ptrace_scope or 0
    if scope and (machine.uid != 0 or scope > 2):
        whom = {1: "its own children", 2: "root's commands alone"}.get(scope, "nothing, until a reboot")
        yield {"scope": scope, "whom": whom, "severity": "note" if scope == 1 else "warning"}


def _no_python(situation: Situation) -> Iterator[Values]:
    pythons = situation.machine.pythons
    if not situation.is_here and not any(_numbers(version) >= OLDEST_PYTHON for _, version in pythons):
        yield {"found": ", ".join(f"{name} {version}" for name, version in pythons) or "none on PATH"}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"[0-9]{1,9}", version)[:3])


def _mounts(kinds: frozenset[str]) -> Callable[[Situation], Iterator[Values]]:
    def read(situation: Situation) -> Iterator[Values]:
        workspace = next(iter(situation.machine.disks), None)
        if situation.is_here and workspace is not None and workspace.kind in kinds:
            yield {"path": workspace.path, "kind": workspace.kind}

    return read


CHECKS = (
    Check(
        name="system",
        severity="error",
        read=_system,
        cause="{system} is neither Linux nor macOS nor WSL 2",
        next="wsl --set-version Ubuntu 2 in PowerShell makes WSL 2 of WSL 1; dkdbg runs inside it",
    ),
    Check(
        name="workspace-owner",
        severity="error",
        read=_unwritable,
        cause="{user} may not write to {folder}, which belongs to uid {owner}",
        next='sudo chown -R "$(id -u):$(id -g)" .',
    ),
    Check(
        name="root",
        severity="warning",
        read=_root,
        cause="dkdbg runs as root, and {folder} belongs to uid {owner}: its files would become root's",
        next="run dkdbg as that user, who needs the group docker: sudo usermod -aG docker USER",
    ),
    Check(
        name="umask",
        severity="warning",
        read=_open_umask,
        cause="umask {umask} makes files that every user of the machine may change, such as the script that F5 runs",
        next="umask 022 in the profile of your shell, then: chmod -R o-w .",
    ),
    Check(
        name="disk",
        severity="warning",
        read=_disks,
        cause="{free} are left on the disk of {path}",
        next="df -h {path}; du -xhd1 {path} | sort -h shows what fills it",
    ),
    Check(
        name="shm",
        severity="warning",
        read=_shm,
        cause="/dev/shm has {size}: DataLoader workers and NCCL end with a bus error once it is full",  # noqa: S108
        next="shm_size: 8gb for the service; docker run --shm-size 8g; in a pod an emptyDir with medium: Memory at /dev/shm",
    ),
    Check(
        name="shm",
        severity="warning",
        read=_full_shm,
        cause="{free} of {size} are left in /dev/shm: DataLoader workers end with a bus error",
        next="ls -lS /dev/shm shows what fills it; files of ended programs may go",
    ),
    Check(
        name="open-files",
        severity="warning",
        read=_files,
        cause="a process may open {files} files, which DataLoader workers use up: Too many open files",
        next="ulimit -n 4096",
    ),
    Check(
        name="clock",
        severity="warning",
        read=_clock,
        cause="its clock is {skew} s {where} this machine's: certificates and times of files look wrong",
        next="sudo timedatectl set-ntp true there",
    ),
    Check(
        name="inotify",
        severity="warning",
        read=_watches,
        cause="{folders} folders to watch, and {name} is {value}: dkdbg sync and DKDBG_RELOAD poll instead",
        next="{command}",
    ),
    Check(
        name="inotify",
        severity="warning",
        read=_instances,
        cause="{used} programs of yours watch files, and {name} is {value}",
        next="{command}",
    ),
    Check(
        name="ptrace",
        severity="warning",
        read=_ptrace,
        cause="kernel.yama.ptrace_scope is {scope}: dkdbg attach TARGET --pid may trace {whom}",
        next="sudo sysctl kernel.yama.ptrace_scope=0 for as long as you need it, or dkdbg run -- COMMAND",
    ),
    Check(
        name="python",
        severity="error",
        read=_no_python,
        cause="no Python 3.8 or newer for the agent ({found})",
        next="export DKDBG_PYTHON=/path/to/python3 there, or install one",
    ),
    Check(
        name="workspace-mount",
        severity="warning",
        read=_mounts(_NETWORK),
        cause="{path} is on a network file system ({kind}): changes from elsewhere are not reported, and containers may not read it",
        next="clone the repository to a disk of this machine, or run dkdbg where the disk is: dkdbg run --on ssh://HOST -- COMMAND",
    ),
    Check(
        name="workspace-mount",
        severity="warning",
        read=_mounts(_WINDOWS),
        cause="{path} is on a drive of Windows ({kind}): reading is slow, and saves are not reported",
        next="git clone it to a folder of Linux, such as ~/code",
    ),
)
