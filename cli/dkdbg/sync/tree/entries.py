"""What the local tree looks like, as values: an entry, the index of all, what changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

FILE, FOLDER, LINK = "f", "d", "l"


class Entry(NamedTuple):
    """One path that takes part. A path is relative to the local root, with `/`, as `os.fsdecode` gives it.

    Attributes:
        kind: `f`, `d` or `l`.
        mode: `st_mode & 0o777`; 0 for a link.
        size: bytes; 0 for a folder or link.
        mtime_ns: of a file; 0 else.
        stamp: opaque: equal stamps mean that the content is the same, whatever was read at the time.
            Empty for a folder.
        target: of a link: relative, leading `..` and names only, never out of the root; else empty.
    """

    kind: str
    mode: int
    size: int
    mtime_ns: int
    stamp: str
    target: str = ""


class Skip(NamedTuple):
    """A path that would take part but cannot.

    Attributes:
        reason: a sentence for the person.
        unknown: nothing is known of it and of what is below it (unreadable): what the other side has stays as it is.
    """

    reason: str
    unknown: bool = False


@dataclass
class Index:
    """All entries of the local tree at one time.

    Attributes:
        entries: by path; a folder is in it when it takes part or when something below it does.
        skipped: what was left out for another reason than a rule.
    """

    entries: dict[str, Entry] = field(default_factory=dict)
    skipped: dict[str, Skip] = field(default_factory=dict)

    def apply(self, changes: Changes) -> None:
        """Bring this index up to date with what `Scanner.rescan` found."""
        for path in changes.removed:
            self.entries.pop(path, None)
        self.entries.update(changes.written)
        for path in changes.cleared:
            self.skipped.pop(path, None)
        self.skipped.update(changes.skipped)

    def below(self, folder: str) -> list[str]:
        """The paths of all entries below `folder`."""
        start = folder + "/"
        return [path for path in self.entries if path.startswith(start)]


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What differs from an index.

    Attributes:
        written: new or changed entries, parents before what is in them. A path whose kind changed is also in
            `removed`, with what was below it.
        removed: paths that are gone or do not take part any more, what is inside before its folder.
        skipped: newly left out for another reason than a rule.
        cleared: paths of `Index.skipped` that are not left out for that reason any more.
        looked: the places that were looked at with what is below them, empty for the root. What does not take part is
            not in the index, and nobody said so when it went: the other side may still have it.
    """

    written: dict[str, Entry] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    skipped: dict[str, Skip] = field(default_factory=dict)
    cleared: tuple[str, ...] = ()
    looked: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.written or self.removed or self.skipped or self.cleared)
