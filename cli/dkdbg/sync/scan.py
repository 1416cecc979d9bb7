"""The local tree as an index, and what changed in it since."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from dkdbg.errors import DkdbgError
from dkdbg.sync.entries import FILE, FOLDER, LINK, Changes, Entry, Index, Skip
from dkdbg.sync.links import travelling_target
from dkdbg.sync.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dkdbg.sync.rules import Level, Standing


class Scanner:
    """Looks at one local root.

    Args:
        root: the local root; symlinks on the way to it are resolved once.
        rules: makes the rules of the (resolved) root; called again when a rule file has changed.
        enter: called with each folder that takes part (relative, empty for the root) before it is listed: a watch
            set there misses nothing. See `dkdbg.sync.watch`.

    Attributes:
        root: absolute, resolved.
        rules: in force.

    Raises:
        DkdbgError: the root is no folder.
    """

    def __init__(
        self,
        root: str,
        *,
        rules: Callable[[str], Rules] = Rules,
        enter: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.root = os.path.realpath(root)
        self._make_rules = rules
        self._enter = enter
        self._identity = _identity(self.root)
        self.rules = rules(self.root)

    def scan(self) -> Index:
        """The whole tree as it is now, with the rules as they are now.

        Raises:
            DkdbgError: the root is gone or is another folder than at the start: never take that for an empty tree.
        """
        if _identity(self.root) != self._identity:
            raise DkdbgError(
                f"{self.root} is not the folder any more that sync started with",
                hint="start dkdbg sync again; nothing was deleted on the other side",
            )
        self.rules = self._make_rules(self.root)
        index = Index()
        self._folder("", self.rules.top(), index)
        return index

    def rescan(self, index: Index, dirty: Iterable[str]) -> Changes:
        """What differs from `index` at the paths `dirty` (relative; empty for everything) and below them.

        Does not change `index`: `Index.apply` does. A changed rule file among `dirty` widens the search.

        Raises:
            DkdbgError: as `scan`.
        """
        del dirty
        return compare(index, self.scan())

    def _folder(self, path: str, level: Level, index: Index) -> bool:
        """Take in what is inside the folder `path`; whether anything was."""
        here = os.path.join(self.root, path)
        start = path + "/" if path else ""
        found = False
        self._enter(path)
        try:
            with os.scandir(here) as listing:
                children = sorted(listing, key=lambda child: child.name)
        except FileNotFoundError:
            return False
        except OSError as error:
            index.skipped[path] = Skip(f"cannot be read: {error.strerror}", unknown=True)
            return False
        for child in children:
            found |= self._child(start + child.name, child, level, index)
        return found

    def _child(self, path: str, child: os.DirEntry[str], level: Level, index: Index) -> bool:
        is_dir = child.is_dir(follow_symlinks=False)
        standing = level.judge(child.name, is_dir)
        if is_dir:
            return self._subfolder(path, child, level, standing, index)
        if standing.out:
            return False
        try:
            entry = self.entry(path, child.stat(follow_symlinks=False))
        except FileNotFoundError:
            return False
        except OSError as error:
            entry = Skip(f"cannot be read: {error.strerror}", unknown=True)
        if isinstance(entry, Skip):
            index.skipped[path] = entry
            return False
        index.entries[path] = entry
        return True

    def _subfolder(
        self, path: str, child: os.DirEntry[str], level: Level, standing: Standing, index: Index
    ) -> bool:
        if not level.visits(child.name, standing):
            return False
        try:
            names = os.listdir(child.path)
            entry = self.entry(path, child.stat(follow_symlinks=False))
        except FileNotFoundError:
            return False
        except OSError as error:
            index.skipped[path] = Skip(f"cannot be read: {error.strerror}", unknown=True)
            return False
        inner = level.enter(child.name, standing, names)
        if inner is None or isinstance(entry, Skip):
            return False
        index.entries[path] = entry
        found = self._folder(path, inner, index)
        if standing.out and not found:
            del index.entries[path]
            return False
        return True

    def entry(self, path: str, status: os.stat_result) -> Entry | Skip:
        """The entry of `path`, whose lstat is `status`, or why there is none.

        Raises:
            OSError: a link that cannot be read.
        """
        mode, kind = status.st_mode & 0o777, stat.S_IFMT(status.st_mode)
        if kind == stat.S_IFREG:
            if status.st_size > self.rules.max_size:
                return Skip(too_large(status.st_size, self.rules.max_size))
            return Entry(FILE, mode, status.st_size, status.st_mtime_ns, stamp(status))
        if kind == stat.S_IFDIR:
            return Entry(FOLDER, mode, 0, 0, "")
        if kind == stat.S_IFLNK:
            text = os.readlink(os.path.join(self.root, path))
            target = travelling_target(self.root, path, text)
            if target is None:
                return Skip(f"a symlink that leads out of the root, to {text}")
            return Entry(LINK, 0, 0, 0, stamp(status), target)
        return Skip(f"a {_SPECIAL.get(kind, 'special file')}, which has no content to copy")


_SPECIAL = {
    stat.S_IFSOCK: "socket",
    stat.S_IFIFO: "named pipe",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def stamp(status: os.stat_result) -> str:
    """An opaque text that changes when the content may have changed: size, mtime, ctime, inode."""
    return f"{status.st_size}.{status.st_mtime_ns}.{status.st_ctime_ns}.{status.st_ino}"


def too_large(size: int, limit: int) -> str:
    """Why a file of `size` bytes stays out."""
    return f"{size / 1e6:.0f} MB, more than max_size of [sync] in dkdbg.toml, {limit / 1e6:.0f} MB"


def compare(before: Index, after: Index) -> Changes:
    """What turns `before` into `after`."""
    written = {path: entry for path, entry in after.entries.items() if before.entries.get(path) != entry}
    removed = [
        path
        for path, entry in before.entries.items()
        if (now := after.entries.get(path)) is None or now.kind != entry.kind
    ]
    return Changes(
        written=written,
        removed=tuple(sorted(removed, reverse=True)),
        skipped={path: skip for path, skip in after.skipped.items() if before.skipped.get(path) != skip},
        cleared=tuple(path for path in before.skipped if path not in after.skipped),
    )


def _identity(root: str) -> tuple[int, int]:
    try:
        status = os.stat(root)
    except OSError as error:
        raise DkdbgError(f"cannot read the folder {root}: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode):
        raise DkdbgError(f"{root} is not a folder")
    return status.st_dev, status.st_ino
