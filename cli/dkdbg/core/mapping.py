"""Read and write DKDBG_MAPPINGS, the location of the code: `init` plans the value, containers and pods carry it."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from typing import TYPE_CHECKING

from dkdbg.core.pairs import ROOT, pairs_of
from dkdbg.core.target import Workspace
from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def workspace_of(text: str) -> Workspace | None:
    """Return the folder that DKDBG_MAPPINGS names; None if it names no folder.

    Args:
        text: its value, which the author of the image or the pod may have written.

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
    """Return the name of the remote folder of a clone for targets that name none, distinct for each local clone."""
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
