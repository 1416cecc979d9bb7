"""What the host's ports tell a client that waits for debugpy's greeting before it says anything."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """Return debugpy's version on this machine, for the greeting; a target may have another one.

    Empty, and then there is no greeting, where its metadata are missing.
    """
    try:
        return metadata.version("debugpy")
    except metadata.PackageNotFoundError:
        return ""
