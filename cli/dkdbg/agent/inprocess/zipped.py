"""Warns about a program that is a zip file (zipapp, shiv, pex): an editor has no file with its code."""

# debugpy is untyped.
# ruff: noqa: ANN401

from __future__ import annotations

import os
import sys

from . import session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NOTE = (
    "%s is a zip: it runs its own copies, so breakpoints in the original files do not stop. "
    "Debug the original folder: python FOLDER"
)
_reported = False


def watch(debugger: Any) -> None:
    """Warn the editor that is attached to this debugger if the program is a zip file, once."""
    global _reported  # noqa: PLW0603
    if not _reported and _is_zip(sys.argv[0] if getattr(sys, "argv", None) else ""):
        _reported = True
        session.tell(debugger, _NOTE % os.path.basename(sys.argv[0]))


def _is_zip(path: str) -> bool:
    if path.endswith(".py") or not os.path.isfile(path):
        return False
    import zipimport

    try:
        zipimport.zipimporter(path).is_package("__main__")
    except zipimport.ZipImportError:
        return False
    return True
