"""Where the code lies, as DKDBG_MAPPINGS says: what `init` has planned and a container or a pod carries."""

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
    """The folder that DKDBG_MAPPINGS names; None when it names none.

    Args:
        text: its value. Whoever made the image, or the pod, may have written it.

    Raises:
        DkdbgError: it names several, or one that leads out of the repository.
    """
    found = pairs_of(text)
    if not found:
        return None
    whole = [pair for pair in found if pair[0] == "."]
    if not whole and len(found) > 1:
        said = ", ".join(f"{local} at {remote}" for local, remote in found)
        raise DkdbgError(
            f"the service has several folders of this repository: {said}",
            hint=f"sync one at a time: dkdbg -C {shlex.quote(found[0][0])} sync TARGET --to {shlex.quote(found[0][1])}",
            exit_code=EXIT_USAGE,
        )
    local, remote = (whole or found)[0]
    return Workspace(local=local, remote=remote, why="the mapping that dkdbg init planned")


def described(found: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """The value of DKDBG_MAPPINGS, and of an editor's pathMappings, that says where the code lies.

    Args:
        found: folders relative to the repository's root, and where they lie there.
    """
    return [
        {"localRoot": ROOT if local == "." else f"{ROOT}/{local}", "remoteRoot": remote}
        for local, remote in found
    ]


def folder_name(root: Path) -> str:
    """Of the folder for a repository's code where a target names none: two clones here are two folders there."""
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:6]
    return f"{re.sub('[^A-Za-z0-9._-]+', '_', root.name) or 'code'}-{digest}"


class NoFolderError(DkdbgError):
    """Nothing says where the code lies."""


def unknown(where: str) -> NoFolderError:
    """The error for a target that does not say where its code lies.

    Args:
        where: it, and what it lacks.
    """
    return NoFolderError(
        f"nothing says where the code lies in {where}",
        hint="name the folder: dkdbg sync TARGET --to /path/in/the/container",
        exit_code=EXIT_USAGE,
    )
