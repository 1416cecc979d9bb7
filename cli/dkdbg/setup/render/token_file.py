"""The token that this user's debug ports ask for: one for all repositories, in the user's own configuration folder.

Not in the repository: a Dockerfile's `COPY . .` would take it into an image. One, because the editor gets it by one
variable of its environment.
"""

from __future__ import annotations

import os
import secrets
import shlex
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg import hints
from dkdbg.agent.contract import ENV_TOKEN
from dkdbg.errors import EXIT_CONFLICT, DkdbgError
from dkdbg.repository.folders import refused

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Random bytes; nobody types it.
LENGTH = 32


def path(environ: Mapping[str, str]) -> Path:
    """Return where the token lies (XDG base directory specification); `.dkdbg/up.sh` looks there too."""
    base = environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "dkdbg" / "token"


def read(environ: Mapping[str, str]) -> str | None:
    """Return the token: DKDBG_TOKEN, else the file's; empty when DKDBG_TOKEN is, None when there is neither.

    Raises:
        DkdbgError: the file cannot be read, is empty, or can be read by others too.
    """
    said = environ.get(ENV_TOKEN)
    if said is not None:
        return said.strip()
    file = path(environ)
    try:
        token, mode = file.read_text("utf-8", errors="replace").strip(), file.stat().st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refused("read", str(file), error) from error
    if stat.S_IMODE(mode) & 0o077:
        raise DkdbgError(
            f"other users can read your token in {file}",
            hint=hints.TOKEN_ANEW(file=shlex.quote(str(file))),
            exit_code=EXIT_CONFLICT,
        )
    if not token:
        raise DkdbgError(
            f"{file} is empty",
            hint=hints.TOKEN_ANEW(file=shlex.quote(str(file))),
            exit_code=EXIT_CONFLICT,
        )
    return token


def make(environ: Mapping[str, str]) -> str:
    """Write a new token where there is none, for this user's eyes only, and return it.

    Raises:
        DkdbgError: it cannot be written.
    """
    file, token = path(environ), secrets.token_urlsafe(LENGTH)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new:  # noqa: PTH123
            new.write(token + "\n")
    except OSError as error:
        raise refused("write", str(file), error) from error
    return token
