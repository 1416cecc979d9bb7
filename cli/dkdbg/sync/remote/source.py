"""Names the local root for the ledger, distinct from a folder of the same path on another machine."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from dkdbg.repository.folders import git_folder

#: Files in git's folder that git creates with the clone or worktree, and never changes.
_AS_OLD = ("commondir", "description")


def source_of(local: str) -> str:
    """Return the local root as the ledger records it: the ID of its checkout, NUL, and its path, absolute.

    The ID is the time and the inode of a file that git has created with the clone. Another clone has another
    time, a copy has another inode, and neither changes when a dev container is rebuilt around the checkout.
    Without git the ID is the machine's name and the root's inode.
    """
    folder = git_folder(Path(local))
    for name in _AS_OLD if folder is not None else ():
        with contextlib.suppress(OSError):
            made = os.stat(os.path.join(folder or "", name), follow_symlinks=False)
            return f"{made.st_mtime_ns} {made.st_ino}\0{local}"
    machine = os.uname().nodename
    with contextlib.suppress(OSError):
        machine += f" {os.stat(local).st_ino}"
    return f"{machine}\0{local}"
