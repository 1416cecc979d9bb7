"""Names the local root for the ledger, so that a folder of the same path on another machine is another one."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from pathlib import Path

from dkdbg.repository.folders import git_folder
from dkdbg.sync.beneath import open_absolute
from dkdbg.sync.receiver import content, tree
from dkdbg.sync.receiver.problems import Refused

_FILE = b"checkout"
_NUMBER = re.compile(rb"[0-9a-f]{32}")


def source_of(local: str) -> str:
    """Return the local root as the ledger records it: the mark of its checkout, NUL, and its path, absolute.

    The mark is a random number in git's folder, which no clone has and which outlives a dev container, with the inode of
    its file, which no copy has. Without git it is the name of the machine, with the inode of the root.
    """
    mark = _mark(local)
    if mark is None:
        with contextlib.suppress(OSError):
            mark = f"{os.uname().nodename} {os.stat(local).st_ino}"
    return f"{mark}\0{local}"


def _mark(local: str) -> str | None:
    """Return the mark in git's folder, made when it is missing; None if it cannot be there."""
    folder = git_folder(Path(local))
    if folder is None:
        return None
    try:
        at = open_absolute(os.path.join(os.path.realpath(folder), "dkdbg"), make=True)
        try:
            with contextlib.suppress(FileExistsError):
                made = tree.create_file(at, _FILE)
                content.write_all(made, secrets.token_hex(16).encode())
                if os.geteuid() == 0:  # in a dev container the checkout may be a user's, who writes there too
                    owner = folder.stat()
                    for name in (b".", _FILE):
                        os.chown(name, owner.st_uid, owner.st_gid, dir_fd=at, follow_symlinks=False)
                os.close(made)
            with open(tree.open_file(at, _FILE), "rb") as file:
                number = file.read(64)
                inode = os.fstat(file.fileno()).st_ino
        finally:
            os.close(at)
    except (OSError, Refused):
        return None
    return f"{number.decode()} {inode}" if _NUMBER.fullmatch(number) else None
