"""What is never taken from a target: settings that programs of yours execute as soon as you enter their folder. Pure."""

from __future__ import annotations

from dkdbg.repository import git

#: git, hg, svn and bzr run what their settings name; editors run tasks and extensions; direnv runs what it has allowed once;
#: .dkdbg/ is dkdbg's own.
NEVER = frozenset(
    {
        *git.FOLDERS, ".hg", ".svn", ".bzr", ".dkdbg", ".vscode", ".idea", ".devcontainer", ".devcontainer.json",
        ".envrc",
    }
)  # fmt: skip
#: What makes any folder a bare repository for git, whose settings it then reads (safe.bareRepository).
BARE = frozenset({"head", "objects", "refs"})


def folded(name: bytes) -> str:
    """The name as a file system may read it, see `git.folded`."""
    return git.folded(name.decode("utf-8", "surrogateescape"))


def why(parts: list[bytes]) -> str:
    """Why a path is never taken, as a sentence; empty when it may be."""
    for part in parts:
        if folded(part) in NEVER:
            return f"{part.decode('utf-8', 'replace')} is not taken from a target: programs here execute what it says"
    return ""
