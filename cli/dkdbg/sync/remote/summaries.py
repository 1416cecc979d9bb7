"""Summaries of the local folders, as the other side computes them: equal ones need no listing. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dkdbg.sync.plan import There, link_digest
from dkdbg.sync.receiver import summary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dkdbg.sync.tree.entries import Entry


class Folder(NamedTuple):
    """A local folder.

    Attributes:
        digest: as `receiver.summary` computes it.
        paths: paths of the entries directly in it.
    """

    digest: str
    paths: list[str]


def folders(local: Mapping[str, Entry]) -> dict[str, Folder]:
    """Return the folders of an index's entries by path; empty for the root."""
    paths: dict[str, list[str]] = {}
    lines: dict[str, list[str]] = {}
    line = summary.line
    for path, entry in local.items():
        folder, _, name = path.rpartition("/")
        if folder not in paths:
            paths[folder], lines[folder] = [], []
        paths[folder].append(path)
        target = link_digest(entry.target) if entry.kind == "l" else ""
        lines[folder].append(line(name, (path, entry.kind, entry.mode, entry.size, target, entry.stamp)))
    return {folder: Folder(summary.digest(lines[folder]), inside) for folder, inside in paths.items()}


def equal(entry: Entry) -> There:
    """Return the remote entry for a local one in a folder with equal summaries. A file's digest stays unknown."""
    if entry.kind == "l":
        return There("l", 0, 0, link_digest(entry.target), entry.stamp)
    return There(entry.kind, entry.mode, entry.size, "", entry.stamp)
