"""Greeting of the attach proxy for a client that waits for debugpy's greeting."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """Return debugpy's version on this machine, for the greeting; a target may have another one.

    Empty if its metadata are missing: then there is no greeting.
    """
    try:
        return metadata.version("debugpy")
    except metadata.PackageNotFoundError:
        return ""
