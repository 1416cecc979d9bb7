"""Differences between two indexes of the same tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.sync.beneath import is_within
from dkdbg.sync.tree.entries import FOLDER, Changes, Index

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


def compare(before: Index, after: Index, *, below: Collection[str] | None = None) -> Changes:
    """Return the changes from `before` to `after`.

    `below` are the only places in `after`, None for the whole tree.

    Unreadable entries are not known to be gone: entries of `before` at or below an unknown `Skip` stay.
    """
    unknown = {path for path, skip in after.skipped.items() if skip.unknown}
    removed = []
    for path in before.entries if below is None else _at_or_below(before, below):
        now = after.entries.get(path)
        if (now is None or now.kind != before.entries[path].kind) and not (
            unknown and is_within(path, unknown)
        ):
            removed.append(path)
    places = None if below is None else set(below)
    return Changes(
        written={path: entry for path, entry in after.entries.items() if before.entries.get(path) != entry},
        removed=tuple(sorted(removed, reverse=True)),
        skipped={path: skip for path, skip in after.skipped.items() if before.skipped.get(path) != skip},
        cleared=tuple(
            path
            for path in before.skipped
            if path not in after.skipped and (places is None or is_within(path, places))
        ),
    )


def _at_or_below(index: Index, places: Collection[str]) -> Iterator[str]:
    folders = set()
    for place in places:
        entry = index.entries.get(place)
        if entry is not None:
            yield place
            if entry.kind == FOLDER:
                folders.add(place)
    if folders:
        for path in index.entries:
            if path not in folders and is_within(path, folders):
                yield path
