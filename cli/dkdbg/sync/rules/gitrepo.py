"""Reads git's data on the local root: its rule files, and tracked paths that match a rule."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dkdbg.repository import git

if TYPE_CHECKING:
    from collections.abc import Iterable


#: Maximum bytes of a file that names a folder; a path cannot be longer.
_MAX_LINE_BYTES = 1 << 15


class Repository(NamedTuple):
    """The repository around a root.

    Attributes:
        exists: git would take it for a repository, as far as a look at its HEAD tells.
        prefix: the root relative to the top of the repository, ending in `/`; empty when it is the top.
        above: (folder, path from it to the root ending in `/`) of the folders from the top down to the root's
            parent.
        exclude: absolute path of info/exclude.
        files: absolute paths whose change changes the rules: the index, info/exclude, and .gitignore of the
            folders above.
    """

    exists: bool
    prefix: str
    above: tuple[tuple[str, str], ...]
    exclude: str
    files: tuple[str, ...]


def find(root: str) -> Repository | None:
    """Return the repository around `root`, an absolute path; reads files only."""
    above: list[tuple[str, str]] = []
    folder = root
    while True:
        dot_git = os.path.join(folder, ".git")
        if os.path.lexists(dot_git):
            break
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
        above.insert(0, (folder, os.path.relpath(root, folder) + "/"))
    git_dir = _pointed_to(dot_git, folder)
    common = _line(os.path.join(git_dir, "commondir"))
    common_dir = os.path.normpath(os.path.join(git_dir, common)) if common else git_dir
    exclude = os.path.join(common_dir, "info", "exclude")
    return Repository(
        exists=os.path.lexists(os.path.join(git_dir, "HEAD")),
        prefix=above[0][1] if above else "",
        above=tuple(above),
        exclude=exclude,
        files=(
            os.path.join(git_dir, "index"),
            exclude,
            *(os.path.join(folder, ".gitignore") for folder, _ in above),
        ),
    )


class Tracked:
    """Paths below `root` that git tracks though its rules or one of `patterns` match them; empty without git.

    git itself walks its index and matches, 20 ms for 10,000 files, while we already read the tree.
    """

    def __init__(self, root: str, patterns: Iterable[str]) -> None:
        words = ["-z", "--cached", "--ignored", "--exclude-standard"]
        for pattern in patterns:
            words += ["-x", pattern]
        self._paths: frozenset[str] = frozenset()
        self._asking = threading.Thread(target=self._ask, args=(words, root), daemon=True)
        self._asking.start()

    @property
    def paths(self) -> frozenset[str]:
        """Return the paths relative to the root; waits for git."""
        self._asking.join()
        return self._paths

    def _ask(self, words: list[str], root: str) -> None:
        output = git.ask(Path(root), "ls-files", *words)
        self._paths = frozenset(output.split("\0")[:-1] if output else ())


def users_list(root: str) -> str:
    """Return the path of core.excludesFile, or of the user's default where the setting is missing."""
    named = git.ask(Path(root), "config", "--null", "--path", "--get", "core.excludesFile")
    if named is not None:
        return os.path.join(root, named.removesuffix("\0"))
    return os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "git", "ignore")


def _pointed_to(dot_git: str, folder: str) -> str:
    """Return `.git` itself, or the folder that the file `.git` of a worktree or submodule names."""
    if os.path.isdir(dot_git):
        return dot_git
    text = _line(dot_git)
    return os.path.normpath(os.path.join(folder, text.removeprefix("gitdir:").strip())) if text else dot_git


def _line(path: str) -> str:
    """Return the first line of a small regular file, else "": reading a FIFO would block for ever."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return ""
            return os.fsdecode(file.readline(_MAX_LINE_BYTES).rstrip(b"\n"))
    except OSError:
        return ""
