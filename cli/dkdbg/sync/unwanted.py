"""Paths that are never pulled from a target: settings that local programs execute on entering their folder.

Pure.
"""

from __future__ import annotations

from dkdbg.repository import git

#: git, hg, svn and bzr run commands in their settings; editors run tasks and extensions; direnv runs a file
#: that was allowed once; .dkdbg/ is dkdbg's own.
NEVER = frozenset(
    {
        *git.FOLDERS, ".hg", ".svn", ".bzr", ".dkdbg", ".vscode", ".idea", ".devcontainer", ".devcontainer.json",
        ".envrc",
    }
)  # fmt: skip
#: Names that make any folder a bare repository for git, whose settings it then reads (safe.bareRepository).
BARE = frozenset({"head", "objects", "refs"})


def folded(name: bytes) -> str:
    """Return the name as a file system may read it, see `git.folded`."""
    return git.folded(name.decode("utf-8", "surrogateescape"))


def why(parts: list[bytes]) -> str:
    """Return why a path is never pulled, as a sentence; empty when it may be."""
    for part in parts:
        if folded(part) in NEVER:
            return f"{part.decode('utf-8', 'replace')} is never pulled from a target: programs here execute its content"
    return ""
