"""Secrets of the user in files that other users cannot read."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from dkdbg.errors import EXIT_CONFLICT, DkdbgError
from dkdbg.repository.folders import refused

if TYPE_CHECKING:
    from pathlib import Path


def read(file: Path, what: str, hint: str) -> str | None:
    """Return the text of a file, without the space around it; None if the file is missing.

    Args:
        what: what the file holds, in a message. hint: how to get another one.

    Raises:
        DkdbgError: the file cannot be read, is empty, or can be read by others too.
    """
    try:
        text, mode = file.read_text("utf-8", errors="replace").strip(), file.stat().st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refused("read", str(file), error) from error
    if stat.S_IMODE(mode) & 0o077:
        raise DkdbgError(f"other users can read your {what} in {file}", hint=hint, exit_code=EXIT_CONFLICT)
    if not text:
        raise DkdbgError(f"{file} is empty", hint=hint, exit_code=EXIT_CONFLICT)
    return text


def create(file: Path, text: str) -> None:
    """Write a file that does not exist yet, and its folder.

    Raises:
        DkdbgError: it cannot be written.
    """
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new:  # noqa: PTH123
            new.write(text)
    except OSError as error:
        raise refused("write", str(file), error) from error
