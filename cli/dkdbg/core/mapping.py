"""Read and write pairs of local and remote folders: DKDBG_MAPPINGS of `init`, and the pairs in an agent's record.

Both are untrusted: the author of an image, or root where the agent runs, may have written them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dkdbg import hints
from dkdbg.agent.settings import ENV_MAPPINGS
from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

#: Name of the repository's root in launch.json and DKDBG_MAPPINGS.
ROOT = "${workspaceFolder}"
#: Maximum entries of an agent's record, and maximum characters of a path.
_MAX_ENTRIES, _MAX_PATH_CHARS = 100, 4096


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """Location of the code on a target.

    Attributes:
        local: folder relative to the repository's root, `.` for the root itself.
        remote: absolute path on the target.
        why: source of that information.
    """

    local: str
    remote: str
    why: str


def workspace_of(text: str) -> Workspace | None:
    """Return the folder that DKDBG_MAPPINGS names; None if it names no folder.

    Args:
        text: value of DKDBG_MAPPINGS, which the author of the image or the pod may have written.

    Raises:
        DkdbgError: it names several folders, or a folder outside the repository.
    """
    found = pairs_of(text)
    if not found:
        return None
    whole = [pair for pair in found if pair[0] == "."]
    if not whole and len(found) > 1:
        folders = ", ".join(f"{local} at {remote}" for local, remote in found)
        raise DkdbgError(
            f"several folders of this repository are mounted in the service: {folders}",
            hint=f"sync one at a time: dkdbg -C {shlex.quote(found[0][0])} sync TARGET --to {shlex.quote(found[0][1])}",
            exit_code=EXIT_USAGE,
        )
    local, remote = (whole or found)[0]
    return Workspace(local=local, remote=remote, why="the mapping that dkdbg init planned")


def described(found: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Return the value of DKDBG_MAPPINGS, and of an editor's pathMappings, for these folders.

    Args:
        found: folders relative to the repository's root, and their remote paths.
    """
    return [
        {"localRoot": ROOT if local == "." else f"{ROOT}/{local}", "remoteRoot": remote}
        for local, remote in found
    ]


def folder_name(root: Path) -> str:
    """Return the name of this clone's remote folder on targets whose address names no folder.

    Each local clone gets another name.
    """
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:6]
    return f"{re.sub('[^A-Za-z0-9._-]+', '_', root.name) or 'code'}-{digest}"


class NoFolderError(DkdbgError):
    """The location of the code on a target is unknown."""


def unknown(where: str) -> NoFolderError:
    """Return the error for a target whose code's location is unknown.

    Args:
        where: the target, and the missing information.
    """
    return NoFolderError(
        f"the location of the code is unknown in {where}",
        hint="name the folder: dkdbg sync TARGET --to /path/in/the/container",
        exit_code=EXIT_USAGE,
    )


def pairs_of(text: str) -> list[tuple[str, str]]:
    """Return the pairs (local, remote) in DKDBG_MAPPINGS; local is relative to the repository's root, `.` for the root.

    Raises:
        DkdbgError: a folder leads out of the repository.
    """
    try:
        entries = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return [(_beneath(local), remote) for local, remote in _entries(entries)]


def pairs_of_record(answer: object) -> tuple[tuple[str, str], ...]:
    """Return the pairs in an agent's record; skip entries that are invalid or lead out of the repository.

    Args:
        answer: the list in the record.
    """
    found = []
    for local, remote in _entries(answer)[:_MAX_ENTRIES]:
        with contextlib.suppress(DkdbgError):
            if max(len(local), len(remote)) <= _MAX_PATH_CHARS and remote.isprintable():
                found.append((_beneath(local), remote))
    return tuple(found)


def _entries(entries: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - JSON
    """Return (local, remote) of entries below the repository's root, local relative to it."""
    found = []
    for entry in entries if isinstance(entries, list) else ():
        local, remote = (
            (entry.get("localRoot"), entry.get("remoteRoot")) if isinstance(entry, dict) else ("", "")
        )
        if not (isinstance(local, str) and isinstance(remote, str) and remote.startswith("/")):
            continue
        if local == ROOT or local.startswith(ROOT + "/"):
            found.append((local[len(ROOT) :], remote))
    return found


def _beneath(path: str) -> str:
    """Return a path below the repository's root, without empty and `.` parts; `.` for the root."""
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if ".." in parts or "\0" in path:
        raise DkdbgError(
            f"the container's {ENV_MAPPINGS} names a folder outside of this repository: {ROOT}{path}",
            hint=hints.SYNC_TO(),
            exit_code=EXIT_USAGE,
        )
    return "/".join(parts) or "."
