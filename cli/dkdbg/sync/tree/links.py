"""Symlinks in the form in which they are sent.

Relative, leading `..` and names, never out of the root (ADR 10).
"""

from __future__ import annotations

import os


def travelling_target(root: str, path: str, text: str) -> str | None:
    """Return the target to send for the link at `path`, None when it leads out of `root`.

    Args:
        root: the local root, absolute, without symlinks.
        path: the link's path relative to the root, with `/`.
        text: the link's target, as `os.readlink` returns it.
    """
    depth = path.count("/")
    folder = path[: path.rfind("/")] if depth else ""
    if os.path.isabs(text):
        inside = _inside(root, os.path.normpath(text))
        if inside is None:
            inside = _inside(root, os.path.realpath(text))
        return None if inside is None else _relative(folder, inside)
    parts = [part for part in text.split("/") if part not in ("", ".")]
    up = 0
    while up < len(parts) and parts[up] == "..":
        up += 1
    if up > depth:
        return None
    if parts[up:] and ".." not in parts[up:]:
        return "/".join(parts)
    # `a/../b`, or a folder above: resolved by the file system, as `a` may be a link itself
    inside = _inside(root, os.path.realpath(os.path.join(root, folder, text)))
    return None if inside is None else _relative(folder, inside)


def _inside(root: str, target: str) -> str | None:
    """Return `target` relative to the root; None outside, and for the root itself, which has no name there."""
    start = root.rstrip("/") + "/"
    return target[len(start) :] if target.startswith(start) else None


def _relative(folder: str, inside: str) -> str | None:
    here, there = folder.split("/") if folder else [], inside.split("/")
    while here and len(there) > 1 and here[0] == there[0]:
        del here[0], there[0]
    return "/".join([".."] * len(here) + there)
