"""Where the code lies, as DKDBG_MAPPINGS says: what `init` has planned and a container or a pod carries."""

from __future__ import annotations

import json

from dkdbg.agent.contract import ENV_MAPPINGS
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.targets.place import Workspace

#: How launch.json and DKDBG_MAPPINGS name the repository's root.
_ROOT = "${workspaceFolder}"


def workspace_of(text: str) -> Workspace | None:
    """The folder that DKDBG_MAPPINGS names; None when it names none.

    Args:
        text: its value. Whoever made the image, or the pod, may have written it.

    Raises:
        DkdbgError: it names several, or one that leads out of the repository.
    """
    pairs = pairs_of(text)
    if not pairs:
        return None
    whole = [pair for pair in pairs if pair[0] == "."]
    if not whole and len(pairs) > 1:
        said = ", ".join(f"{local} at {remote}" for local, remote in pairs)
        raise DkdbgError(
            f"the service has several folders of this repository: {said}",
            hint=f"sync one at a time: dkdbg -C {pairs[0][0]} sync TARGET --to {pairs[0][1]}",
            exit_code=EXIT_USAGE,
        )
    local, remote = (whole or pairs)[0]
    return Workspace(local=local, remote=remote, why="the mapping that dkdbg init planned")


def unknown(where: str) -> DkdbgError:
    """The error for a place that does not say where its code lies.

    Args:
        where: it, and what it lacks.
    """
    return DkdbgError(
        f"nothing says where the code lies in {where}",
        hint="name the folder: dkdbg sync TARGET --to /path/in/the/container",
        exit_code=EXIT_USAGE,
    )


def pairs_of(text: str) -> list[tuple[str, str]]:
    """(local, remote) of DKDBG_MAPPINGS that lie in the repository, local relative to its root.

    Args:
        text: its value. Whoever made the image may have written it.

    Raises:
        DkdbgError: one leads out of the repository.
    """
    try:
        entries = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    found = []
    for entry in entries if isinstance(entries, list) else ():
        local, remote = (
            (entry.get("localRoot"), entry.get("remoteRoot")) if isinstance(entry, dict) else ("", "")
        )
        if not (isinstance(local, str) and isinstance(remote, str) and remote.startswith("/")):
            continue
        if local == _ROOT or local.startswith(_ROOT + "/"):
            found.append((_beneath(local[len(_ROOT) :]), remote))
    return found


def _beneath(path: str) -> str:
    """A path below the repository's root, without what says nothing; `.` for the root."""
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if ".." in parts or "\0" in path:
        raise DkdbgError(
            f"the container's {ENV_MAPPINGS} names a folder outside of this repository: {_ROOT}{path}",
            hint="nothing was read. dkdbg sync TARGET --to PATH syncs this repository to PATH there",
            exit_code=EXIT_USAGE,
        )
    return "/".join(parts) or "."
