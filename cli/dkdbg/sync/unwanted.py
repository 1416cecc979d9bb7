"""What is never taken from a target: settings that programs of yours execute as soon as you enter their folder. Pure."""

from __future__ import annotations

#: git, hg, svn and bzr run what their settings name; editors run tasks and extensions; direnv runs what it has allowed once;
#: .dkdbg/ is dkdbg's own.
NEVER = frozenset(
    {
        ".git", "git~1", ".hg", ".svn", ".bzr", ".dkdbg", ".vscode", ".idea", ".devcontainer", ".devcontainer.json",
        ".envrc",
    }
)  # fmt: skip
#: What makes any folder a bare repository for git, whose settings it then reads (safe.bareRepository).
BARE = frozenset({"head", "objects", "refs"})

#: Code points that a Mac's file system passes over in names, as git knows them (utf8.c, next_hfs_char).
_PASSED_OVER = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])


def folded(name: bytes) -> str:
    """The name as a file system may read it that knows no case, as on a Mac, or drops dots and blanks at its end."""
    text = name.decode("utf-8", "surrogateescape").translate(_PASSED_OVER)
    return text.partition(":")[0].rstrip(". ").casefold()


def why(parts: list[bytes]) -> str:
    """Why a path is never taken, as a sentence; empty when it may be."""
    for part in parts:
        if folded(part) in NEVER:
            return f"{part.decode('utf-8', 'replace')} is not taken from a target: programs here execute what it says"
    return ""
