"""Knows which generated files are still as dkdbg wrote them: `.dkdbg/manifest.json`, checked in with them."""

from __future__ import annotations

import hashlib
import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg.errors import EXIT_CONFLICT, DkdbgError
from dkdbg.render.transaction import read

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: dkdbg's own folder in the user's repository.
FOLDER = PurePosixPath(".dkdbg")
MANIFEST = FOLDER / "manifest.json"
GITIGNORE = FOLDER / ".gitignore"
GITIGNORE_TEXT = (
    b"# What `dkdbg init --undo` needs concerns this checkout alone.\n/undo.json\n/.undo.json.*\n"
)

_VERSION = 1


def digest(data: bytes) -> str:
    """Return the sha256 of a generated file, the same after git has turned its line ends (core.autocrlf)."""
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()


def load(root: Path) -> dict[PurePosixPath, str]:
    """Return the digest of each generated file as it was written last; empty without a manifest.

    Raises:
        DkdbgError: the manifest cannot be read.
    """
    data = read(root, MANIFEST)
    if data is None:
        return {}
    try:
        content = json.loads(data)
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']}")
        return {PurePosixPath(path): str(sha256) for path, sha256 in content["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DkdbgError(
            f"{MANIFEST} cannot be read: {error}",
            hint="Restore it from git, or remove it: dkdbg then treats all files as yours and overwrites none.",
            exit_code=EXIT_CONFLICT,
        ) from error


def dump(files: Mapping[PurePosixPath, str]) -> bytes:
    """Return the manifest as bytes: one line a file, sorted, so that git merges it well."""
    records = {str(path): files[path] for path in sorted(files)}
    return json.dumps({"version": _VERSION, "files": records}, indent=2).encode() + b"\n"
