"""Checks the remote roots of the path mapping: whether they exist, whether a mount covers them, where links lead."""

from __future__ import annotations

import json
import os

from dkdbg.agent import contract, settings
from dkdbg.agent.dap import paths
from dkdbg.agent.state import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, List, Literal, Optional, Tuple


def configured(text: str) -> List[Tuple[str, str]]:
    """Return the pairs (local root, remote root) of DKDBG_MAPPINGS in order, without malformed ones."""
    try:
        entries = json.loads(text or "[]")
    except ValueError:
        return []
    return paths.pairs(entries)


def checked(pairs: Iterable[Tuple[str, str]], mount_points: Optional[List[str]]) -> List[contract.Mapping]:
    """Return a mapping for each pair, and a second one with the real path if the remote root is a link.

    Python names a file by the path it was started with or by the real one, and debugpy translates neither
    into the other (debugpy #1495), so an editor needs both.

    Args:
        pairs: local root, remote root.
        mount_points: mount points of this namespace, None when unknown.
    """
    found: List[contract.Mapping] = []
    for local, remote in pairs:
        roots = [remote]
        real = os.path.realpath(remote)
        if real != os.path.normpath(remote) and os.path.isdir(real):
            roots.append(real)
        for root in roots:
            if any(entry["localRoot"] == local and entry["remoteRoot"] == root for entry in found):
                continue
            kind = kind_of(os.path.realpath(root), mount_points)
            found.append(
                {"localRoot": local, "remoteRoot": root, "exists": os.path.isdir(root), "kind": kind}
            )
    return found


def read_mount_points() -> Optional[List[str]]:
    """Return the mount points of this namespace; None without /proc."""
    try:
        return [point for _, point, _ in procfs.mounts()]
    except OSError:
        return None


def of_this_machine() -> List[contract.Mapping]:
    """Return the checked mapping of this process's environment."""
    return checked(configured(os.environ.get(settings.ENV_MAPPINGS, "")), read_mount_points())


def kind_of(real: str, mount_points: Optional[List[str]]) -> Literal["mount", "image", "unknown"]:
    """Tell whether a mount other than `/` covers a path, which has no links; `unknown` without a mount table."""
    if mount_points is None:
        return "unknown"
    covering = [p for p in mount_points if real == p or real.startswith(p.rstrip("/") + "/")]
    return "mount" if max(covering, key=len, default="/") != "/" else "image"
