"""The token that this user's debug ports ask for: one for all repositories, in the user's own configuration folder.

Not in the repository: a Dockerfile's `COPY . .` would take it into an image. One, because the editor gets it by one
variable of its environment.
"""

from __future__ import annotations

import secrets
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg import hints
from dkdbg.agent.settings import ENV_TOKEN
from dkdbg.repository import private_file

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
    return private_file.read(file, "token", hints.TOKEN_ANEW(file=shlex.quote(str(file))))


def make(environ: Mapping[str, str]) -> str:
    """Write a new token where there is none, for this user's eyes only, and return it.

    Raises:
        DkdbgError: it cannot be written.
    """
    file, token = path(environ), secrets.token_urlsafe(LENGTH)
    private_file.create(file, token + "\n")
    return token
