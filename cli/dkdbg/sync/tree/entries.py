"""The local tree as values: an entry, the index of all entries, and changes between two indexes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dkdbg.sync.beneath import is_within

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

FILE, FOLDER, LINK = "f", "d", "l"


class Entry(NamedTuple):
    """One file, folder or symlink that takes part in sync.

    Attributes:
        kind: `f`, `d` or `l`.
        mode: `st_mode & 0o777`; 0 for a link.
        size: bytes; 0 for a folder or link.
        mtime_ns: mtime of a file; 0 for a folder or link.
        stamp: opaque text; equal stamps mean equal content. Empty for a folder.
        target: a link's target: relative, leading `..` and names only, never out of the root; empty for a file or
            folder.
    """

    kind: str
    mode: int
    size: int
    mtime_ns: int
    stamp: str
    target: str = ""


class Skip(NamedTuple):
    """Why a path that the rules include is left out.

    Attributes:
        reason: a sentence for the user.
        unknown: whether the path could not be read. Its remote version then stays, with everything below it.
    """

    reason: str
    unknown: bool = False


@dataclass
class Index:
    """All entries of the local tree at one time.

    Attributes:
        entries: entries by path: relative to the local root, with `/`, as decoded by `os.fsdecode`. A folder is
            included if it or something below it takes part.
        skipped: entries left out for a reason other than a rule.
    """

    entries: dict[str, Entry] = field(default_factory=dict)
    skipped: dict[str, Skip] = field(default_factory=dict)

    def apply(self, changes: Changes) -> None:
        """Update this index with the result of `Scanner.rescan`."""
        for path in changes.removed:
            self.entries.pop(path, None)
        self.entries.update(changes.written)
        for path in changes.cleared:
            self.skipped.pop(path, None)
        self.skipped.update(changes.skipped)

    def below(self, folder: str) -> list[str]:
        """Return the paths of all entries below `folder`."""
        start = folder + "/"
        return [path for path in self.entries if path.startswith(start)]


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Differences from an index.

    Attributes:
        written: new or changed entries, parents before their content. A path whose kind changed is also in
            `removed`, with everything below it.
        removed: paths that are gone or excluded now, content before its folder.
        skipped: paths newly left out for a reason other than a rule.
        cleared: paths of `Index.skipped` that are not left out for that reason any more.
        scanned: paths that were checked, each with everything below it; an empty path is the root. The index does not
            contain excluded paths and cannot show their deletion, so the caller checks remote entries below `scanned`.
    """

    written: dict[str, Entry] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    skipped: dict[str, Skip] = field(default_factory=dict)
    cleared: tuple[str, ...] = ()
    scanned: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.written or self.removed or self.skipped or self.cleared)


def compare(before: Index, after: Index, *, below: Collection[str] | None = None) -> Changes:
    """Return the changes from `before` to `after`.

    `below` lists the paths that `after` covers, each with everything below it; None means the whole tree. Entries of
    `before` at or below an unreadable path (a `Skip` with `unknown`) may still exist, so they do not count as removed.
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
