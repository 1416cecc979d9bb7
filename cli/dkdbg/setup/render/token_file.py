"""Read and create the token of this user's debug ports, in the user's configuration folder.

It is not in the repository, where a Dockerfile's `COPY . .` would put it into an image. All repositories share it,
because the editor gets it from one environment variable.
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

#: Random bytes of the token; users never type it.
LENGTH = 32


def path(environ: Mapping[str, str]) -> Path:
    """Return the path of the token (XDG base directory specification); `.dkdbg/up.sh` uses it too."""
    base = environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "dkdbg" / "token"


def read(environ: Mapping[str, str]) -> str | None:
    """Return the token: DKDBG_TOKEN, else the file's; empty if DKDBG_TOKEN is empty, None if both are missing.

    Raises:
        DkdbgError: the file cannot be read, is empty, or is readable by others.
    """
    text = environ.get(ENV_TOKEN)
    if text is not None:
        return text.strip()
    file = path(environ)
    return read_private(file, "token", hints.TOKEN_ANEW(file=shlex.quote(str(file))))


def make(environ: Mapping[str, str]) -> str:
    """Create the token, readable by this user only, and return it.

    Raises:
        DkdbgError: it cannot be written.
    """
    file, token = path(environ), secrets.token_urlsafe(LENGTH)
    create_private(file, token + "\n")
    return token
