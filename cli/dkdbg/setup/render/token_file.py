"""Read and create the token for this user's debug ports, in the user's configuration folder.

It is not in the repository, whose files a Dockerfile's `COPY . .` would put into an image. All repositories share it,
because editors get it from one environment variable.
"""

from __future__ import annotations

import secrets
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg import hints
from dkdbg.agent.settings import ENV_TOKEN
from dkdbg.repository.folders import create_private, read_private

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Number of random bytes in the token. No user has to type it.
LENGTH = 32


def path(environ: Mapping[str, str]) -> Path:
    """Return the path of the token file (XDG base directory specification); `.dkdbg/up.sh` reads it, too."""
    base = environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "dkdbg" / "token"


def read(environ: Mapping[str, str]) -> str | None:
    """Return the token: DKDBG_TOKEN (which may be empty), otherwise the file's content; None if both are missing.

    Raises:
        DkdbgError: the file cannot be read, is empty, or is readable by others.
    """
    text = environ.get(ENV_TOKEN)
    if text is not None:
        return text.strip()
    file = path(environ)
    return read_private(file, "token", hints.TOKEN_ANEW(file=shlex.quote(str(file))))


def make(environ: Mapping[str, str]) -> str:
    """Create a token that only this user can read, and return it.

    Raises:
        DkdbgError: it cannot be written.
    """
    file, token = path(environ), secrets.token_urlsafe(LENGTH)
    create_private(file, token + "\n")
    return token
