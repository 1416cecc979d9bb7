"""Parse pairs of a folder of this repository and its remote location, from DKDBG_MAPPINGS or an agent's record.

They are untrusted: the author of an image, or root where the agent runs, may have written them.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

from dkdbg import hints
from dkdbg.agent.settings import ENV_MAPPINGS
from dkdbg.errors import EXIT_USAGE, DkdbgError

#: Name of the repository's root in launch.json and DKDBG_MAPPINGS.
ROOT = "${workspaceFolder}"
#: Maximum entries of an agent's record, and maximum characters of a path.
_MAX_ENTRIES, _MAX_PATH_CHARS = 100, 4096


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
