"""Find the git repository around a folder, because a program in a subfolder may use code and data beside it."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from dkdbg.errors import EXIT_USAGE, DkdbgError

#: Paths that need no quotes in a Dockerfile and a compose file.
_PLAIN = re.compile(r"[\w.-]+(?:/[\w.-]+){0,4}", re.ASCII)


PROJECT_FILES = (
    "pyproject.toml", "setup.py", "requirements.txt", "environment.yml", "environment.yaml", "Pipfile", "pixi.toml", "Dockerfile",
    "compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml", "README.md", "README.rst",
)  # fmt: skip


def no_way_to(directory: str, error: Exception, verb: str) -> DkdbgError:
    """Return the error for a folder that cannot be entered or read; name the parent folder that denies it."""
    typed = f"dkdbg -C PATH {verb}".rstrip()
    if isinstance(error, PermissionError):
        whole = Path(directory).absolute()
        inside = Path(os.path.abspath(error.filename or whole))  # noqa: PTH100 - links stay as typed
        ways = [*reversed(whole.parents), whole, *reversed(inside.parents)]
        closed = next(
            (each for each in ways if os.path.lexists(each) and not os.access(each, os.X_OK)), whole
        )
        return DkdbgError(
            f"cannot go to {directory}: no permission for {closed}",
            hint=f"ls -ld {shlex.quote(str(closed))} shows who owns it; another folder: {typed}",
            exit_code=EXIT_USAGE,
        )
    reason = (isinstance(error, OSError) and error.strerror) or error
    return DkdbgError(
        f"cannot go to {directory}: {reason}",
        hint=f"go to the repository's folder, or name it: {typed}",
        exit_code=EXIT_USAGE,
    )


def below_git_root(root: Path) -> str:
    """Return the path of `root` in the git repository around it, such as `a/b`; empty if `root` is not in another one.

    Also empty if the whole repository must not be mounted (it is the home folder or above it, or belongs to another
    user, such as /tmp/.git), or if the path needs quotes in a compose file.
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


def initialised(start: Path) -> Path | None:
    """Return the nearest folder at or above `start` in the same git repository that is set up; None without one.

    Outside a git repository, check only `start`. Stop at a folder that belongs to another user.
    """
    if is_set_up(start):
        return start
    if not any(os.path.lexists(folder / ".git") for folder in (start, *start.parents)):
        return None
    for folder in (start, *start.parents):
        try:
            if folder.stat().st_uid != start.stat().st_uid:
                return None
        except OSError:
            return None
        if is_set_up(folder):
            return folder
        if os.path.lexists(folder / ".git"):
            return None
    return None


def is_project(folder: Path) -> bool:
    """Return whether a folder declares dependencies, or how it is started."""
    return any((folder / name).is_file() for name in PROJECT_FILES)


def is_set_up(folder: Path) -> bool:
    """Return whether `init` has set up a folder."""
    return (folder / ".dkdbg" / "manifest.json").is_file()
