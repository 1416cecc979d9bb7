"""Git's own folder of a checkout: there lies what concerns this checkout alone and must never be committed."""

from __future__ import annotations

import os
from pathlib import Path

from dkdbg.repository.folders import read_whole


def git_folder(root: Path) -> Path | None:
    """Return the folder that git keeps for the checkout `root` lies in, absolute; None when it cannot be used.

    Of a worktree or a submodule it is the one that its `.git` file names, if that names the file in return: an
    unpacked archive may hold a `.git` file that names any folder of the user's.
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
            return None  # what git does not take for a repository, or somebody else's, such as /tmp/.git
        return found if os.access(found, os.W_OK | os.X_OK) else None
    except (OSError, ValueError):
        return None


def _names(target: Path, git_file: Path) -> bool:
    """Whether `target` is the folder of the worktree (file `gitdir`) or submodule (core.worktree) with that `.git`."""
    back = target / "gitdir"
    if back.is_file():
        return os.path.realpath(target / _text(back).strip()) == os.path.realpath(git_file)
    for line in _text(target / "config").splitlines():
        name, _, value = line.partition("=")
        if name.strip().lower() == "worktree":
            return os.path.realpath(target / value.strip().strip('"')) == os.path.realpath(git_file.parent)
    return False


def _text(path: Path) -> str:
    """Raise OSError for what is not a regular file: a FIFO would have us wait for ever."""
    return read_whole(Path(os.path.realpath(path))).decode("utf-8", errors="replace")
