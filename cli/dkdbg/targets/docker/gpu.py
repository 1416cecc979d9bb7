"""Detect how containers get a GPU from the selected engine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.errors import DkdbgError

if TYPE_CHECKING:
    from dkdbg.core.plan import GpuKind


def choose_gpu(info: dict[str, object], *, has_kfd: bool, cdi_vendors: frozenset[str]) -> tuple[GpuKind, str]:
    """Return how containers get a GPU, and why: runtime, then CDI, then AMD's device file (decision 5 of the design)."""
    runtimes = info.get("Runtimes")
    if isinstance(runtimes, dict) and "nvidia" in runtimes:
        return "nvidia", "the engine has the nvidia runtime"
    if "nvidia.com/gpu" in cdi_vendors:
        return "cdi", "the engine reads a CDI specification of nvidia.com/gpu"
    if has_kfd:
        return "amd", "/dev/kfd exists"
    return "none", "no nvidia runtime, no CDI specification and no /dev/kfd"


def has_kfd(*, is_local: bool) -> bool:
    """Return whether AMD's device file exists; False for a remote engine, which this machine's files do not describe."""
    return is_local and Path("/dev/kfd").exists()


def count_gpus(kind: GpuKind, *, is_local: bool) -> int:
    """Return the number of GPUs; 1 if they cannot be counted, as on another machine."""
    if kind == "none":
        return 0
    found = 0
    if is_local and kind == "amd":
        found = len(list(Path("/dev/dri").glob("renderD*")))
    elif is_local:
        try:
            listed = process.run(["nvidia-smi", "--list-gpus"], timeout=20)
            found = len(re.findall(r"^GPU \d+:", listed.stdout, re.MULTILINE)) if listed.code == 0 else 0
        except (DkdbgError, OSError):
            found = 0
    return found or 1


def cdi_vendors(info: dict[str, object], *, is_local: bool) -> frozenset[str]:
    """Return the CDI kinds that the engine knows: its own list (28.2 and newer), or the specifications in its folders.

    Args:
        info: from `docker info`; an engine without CDI lists no folders.
        is_local: the engine runs on this machine, which then has the folders.
    """
    listed, folders = info.get("DiscoveredDevices"), info.get("CDISpecDirs")
    found = {
        str(each.get("ID", "")).partition("=")[0] for each in (listed if isinstance(listed, list) else ())
    }
    for folder in folders if is_local and isinstance(folders, list) else ():
        for spec in Path(str(folder)).glob("*.*"):
            text = spec.read_text("utf-8", errors="replace") if spec.is_file() else ""
            found.update(kind for kind in ("nvidia.com/gpu", "amd.com/gpu") if kind in text)
    return frozenset(found)
