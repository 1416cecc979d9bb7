"""Find git's own folder of a checkout, for files that concern this checkout alone and must never be committed."""

from __future__ import annotations

import os
from pathlib import Path

from dkdbg.repository.folders import read_whole


def git_folder(root: Path) -> Path | None:
    """Return git's folder of the checkout that contains `root`, absolute; None if it cannot be used.

    For a worktree or a submodule it is the folder named by its `.git` file, if that folder refers back to the file: an
    unpacked archive may contain a `.git` file that names any folder of the user's.
    """
    for folder in (root, *root.parents):
        found = folder / ".git"
        if os.path.lexists(found):
            break
    else:
        return None
    try:
        if found.is_symlink():
            return None
        if found.is_file():
            named = _text(found).strip().removeprefix("gitdir:").strip()
            target = Path(os.path.realpath(folder / named))
            if not _names(target, found):
                return None
            found = target
        if not (found / "HEAD").is_file() or found.stat().st_uid != root.stat().st_uid:
            return None  # not a repository for git, or owned by another user, such as /tmp/.git
        return found if os.access(found, os.W_OK | os.X_OK) else None
    except (OSError, ValueError):
        return None


def _names(target: Path, git_file: Path) -> bool:
    """Return whether `target` is the folder of the worktree (`gitdir`) or submodule (core.worktree) with that `.git`."""
    back = target / "gitdir"
    if back.is_file():
        return os.path.realpath(target / _text(back).strip()) == os.path.realpath(git_file)
    for line in _text(target / "config").splitlines():
        name, _, value = line.partition("=")
        if name.strip().lower() == "worktree":
            return os.path.realpath(target / value.strip().strip('"')) == os.path.realpath(git_file.parent)
    return False


def _text(path: Path) -> str:
    """Read a regular file; raise OSError for others, since a FIFO would block for ever."""
    return read_whole(Path(os.path.realpath(path))).decode("utf-8", errors="replace")
