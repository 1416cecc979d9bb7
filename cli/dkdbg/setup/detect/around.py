"""The git repository around a folder: who debugs a subfolder has code and data beside it, too."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from dkdbg.errors import EXIT_USAGE, DkdbgError

#: What a Dockerfile and a compose file can name plainly.
_PLAIN = re.compile(r"[\w.-]+(?:/[\w.-]+){0,4}", re.ASCII)


PROJECT_FILES = (
    "pyproject.toml", "setup.py", "requirements.txt", "environment.yml", "environment.yaml", "Pipfile", "pixi.toml", "Dockerfile",
    "compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml", "README.md", "README.rst",
)  # fmt: skip


def no_way_to(directory: str, error: Exception, verb: str) -> DkdbgError:
    """Return what it means that a folder cannot be gone to or read, with the folder on the way that may not be entered.

    Args:
        verb: what was typed; empty for none.
    """
    typed = f"dkdbg -C PATH {verb}".rstrip()
    if isinstance(error, PermissionError):
        whole = Path(directory).absolute()
        inside = Path(os.path.abspath(error.filename or whole))  # noqa: PTH100 - links stay as they were named
        ways = [*reversed(whole.parents), whole, *reversed(inside.parents)]
        closed = next(
            (each for each in ways if os.path.lexists(each) and not os.access(each, os.X_OK)), whole
        )
        return DkdbgError(
            f"cannot go to {directory}: you have no permission for {closed}",
            hint=f"ls -ld {shlex.quote(str(closed))} shows who has it; another folder: {typed}",
            exit_code=EXIT_USAGE,
        )
    reason = (isinstance(error, OSError) and error.strerror) or error
    return DkdbgError(
        f"cannot go to {directory}: {reason}",
        hint=f"go to the repository's folder, or name it: {typed}",
        exit_code=EXIT_USAGE,
    )


def below_git_root(root: Path) -> str:
    """Return where `root` lies below the root of its git repository, `a/b`, empty when it is that root or lies in none.

    A home folder under git is not mounted as a whole, and neither is what belongs to somebody else (/tmp/.git).
    """
    if os.path.lexists(root / ".git"):
        return ""
    for folder in root.parents:
        if os.path.lexists(folder / ".git"):
            try:
                same = folder.stat().st_uid == root.stat().st_uid
                home = Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111 - never raises
            except OSError:
                return ""
            below = root.relative_to(folder).as_posix()
            wide = folder == home or folder in home.parents
            return below if same and not wide and _PLAIN.fullmatch(below) and ".." not in below else ""
    return ""


def initialised(here: Path) -> Path | None:
    """Return the nearest folder from `here` up that `init` has set up, within the same git repository; None without one.

    Outside a git repository only `here` itself counts, and what belongs to somebody else never does.
    """
    if _is_set_up(here):
        return here
    if not any(os.path.lexists(folder / ".git") for folder in (here, *here.parents)):
        return None
    for folder in (here, *here.parents):
        try:
            if folder.stat().st_uid != here.stat().st_uid:
                return None
        except OSError:
            return None
        if _is_set_up(folder):
            return folder
        if os.path.lexists(folder / ".git"):
            return None
    return None


def is_project(folder: Path) -> bool:
    """Whether a folder says of itself what it needs or how it is started."""
    return any((folder / name).is_file() for name in PROJECT_FILES)


def _is_set_up(folder: Path) -> bool:
    return (folder / ".dkdbg" / "manifest.json").is_file()
