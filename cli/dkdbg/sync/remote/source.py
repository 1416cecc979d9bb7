"""Names the local root for the ledger, so that a folder of the same path on another machine is another one."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from dkdbg.repository.folders import git_folder

#: Files of git's folder that are as old as the clone, or the worktree, and that git does not change.
_AS_OLD = ("commondir", "description")


def source_of(local: str) -> str:
    """Return the local root as the ledger records it: the mark of its checkout, NUL, and its path, absolute.

    The mark is the time and the inode of a file that git has made with the clone: no other clone has that time, no copy
    has that inode, and a dev container that is rebuilt around the checkout has both. Without git it is the name of the
    machine, with the inode of the root.
    """
    folder = git_folder(Path(local))
    for name in _AS_OLD if folder is not None else ():
        with contextlib.suppress(OSError):
            made = os.stat(os.path.join(folder or "", name), follow_symlinks=False)
            return f"{made.st_mtime_ns} {made.st_ino}\0{local}"
    mark = os.uname().nodename
    with contextlib.suppress(OSError):
        mark += f" {os.stat(local).st_ino}"
    return f"{mark}\0{local}"
