"""Scans the local tree into an index, and rescans it for changes."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from typing import TYPE_CHECKING

from dkdbg.core import config
from dkdbg.errors import DkdbgError
from dkdbg.sync.beneath import Beneath, folders_above, is_within
from dkdbg.sync.receiver.tree import is_absent, open_below
from dkdbg.sync.rules.patterns import IN
from dkdbg.sync.rules.rules import Rules
from dkdbg.sync.tree.entries import FILE, FOLDER, LINK, Changes, Entry, Index, Skip, compare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dkdbg.sync.rules.level import Level
    from dkdbg.sync.rules.patterns import Standing

#: Maximum depth of folders: each level costs an open file descriptor and stack frames.
MAX_DEPTH = 200


class Scanner:
    """Scans one local root.

    Args:
        root: the local root; symlinks on the way to it are resolved once.
        rules: makes the rules of the (resolved) root; called again when a rule file has changed.
        enter: called with each folder that takes part (relative, empty for the root), before it is listed, so that a
            watch set in this call misses no change. See `dkdbg.sync.watch.watcher`.
        linked: called with each hard-linked file (relative): it may be written through a link outside the root.

    Attributes:
        root: absolute, resolved.
        rules: the rules in force.

    Raises:
        DkdbgError: the root is not a folder.
    """

    def __init__(
        self,
        root: str,
        *,
        rules: Callable[[str], Rules] = Rules,
        enter: Callable[[str], None] = lambda _: None,
        linked: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.root = os.path.realpath(root)
        self._make_rules = rules
        self._enter = enter
        self._has_links = linked
        self._identity = _identity(self.root)
        try:
            self._beneath = Beneath(self.root)
        except OSError as error:
            raise DkdbgError(f"cannot read the folder {self.root}: {error.strerror}") from error
        self._levels: dict[str, Level] = {}
        self._linked: set[int] = set()  # inodes of hard-linked files
        self._exact = _ignores_case(self.root)
        self.rules = rules(self.root)

    def scan(self) -> Index:
        """Index the whole tree, with rules read anew.

        Raises:
            DkdbgError: the root is gone or is not the folder it was at the start, which must not count as an
                empty tree.
        """
        self._check()
        self.rules = self._make_rules(self.root)
        self._levels.clear()
        self._linked.clear()
        index = Index()
        try:
            self._enter("")
            top = self._beneath.folder("")
        except OSError as error:
            raise DkdbgError(f"cannot read the folder {self.root}: {error.strerror}") from error
        try:
            self._take_in("", top, self.rules.top, _listed(top), index)
        finally:
            os.close(top)
        self._check()
        return index

    def rescan(self, index: Index, dirty: Iterable[str]) -> Changes:
        """Return the differences from `index` at and below the paths `dirty` (relative; empty for everything).

        Does not change `index`: `Index.apply` does. A changed rule file among `dirty` widens the search.

        Raises:
            DkdbgError: as `scan`.
        """
        places: set[str] = set()
        scanned: set[str] = set()
        for path in dirty:
            place = self._place(path, index)
            if place == "":
                return replace(compare(index, self.scan()), scanned=frozenset({""}))
            if place is not None:
                places.add(place)
            if not path.startswith("/"):
                scanned.add(path)
        if not places:
            return Changes(scanned=frozenset(scanned))
        self._check()
        places = {place for place in places if not any(above in places for above in folders_above(place))}
        found = Index()
        for place in places:
            self._index(place, found)
        changes = compare(index, found, below=places)
        if self._linked and (others := self._other_names(index, changes, places)):
            for place in others:
                self._index(place, found)
            changes = compare(index, found, below=places | others)
        self._check()
        return replace(self._without_hollow(index, changes), scanned=frozenset(scanned | places))

    def _other_names(self, index: Index, changes: Changes, places: set[str]) -> set[str]:
        """Return the other hard links of changed files: a watch reports only the name that was written to."""
        entries = [*changes.written.values()]
        entries += [
            index.entries[path] for path in (*changes.removed, *changes.written) if path in index.entries
        ]
        inodes = {inode_of(entry) for entry in entries if entry.kind == FILE} & self._linked
        if not inodes:
            return set()
        return {
            path
            for path, entry in index.entries.items()
            if entry.kind == FILE and inode_of(entry) in inodes and not is_within(path, places)
        }

    def _check(self) -> None:
        if _identity(self.root) != self._identity:
            raise DkdbgError(
                f"{self.root} is no longer the folder that sync started with",
                hint="start dkdbg sync again; nothing was deleted on the target",
            )

    def _place(self, path: str, index: Index) -> str | None:
        """Return the path to scan for a dirty `path`: itself or a folder above it.

        It is empty for the root, and None if nothing needs a scan.
        """
        if not path or path in {".gitignore", ".dockerignore"}:
            return ""
        # git rewrites its index often, usually without effect on the rules; `.git` may appear or disappear
        if path.startswith("/") or path in {config.FILE_NAME, ".git"}:
            same = self._make_rules(self.root).same_as(self.rules)
            return (None if path.startswith("/") else path) if same else ""
        folder, _, name = path.rpartition("/")
        if folder and name in {".gitignore", "pyvenv.cfg", "conda-meta"}:
            return self._place(folder, index)
        above = [*reversed(list(folders_above(path)))]
        for one in above:
            entry, level = index.entries.get(one), self._levels.get(one)
            if entry is None or level is None or entry.kind != FOLDER:
                return one
            if level.standing.out:  # in the index only because an entry below it takes part
                known = path in index.entries or path in index.skipped
                return None if not known and self._stays_out(path) else one
        return path

    def _stays_out(self, path: str) -> bool:
        """Return whether `path`, below an excluded folder, is excluded and certainly not a folder."""
        folder, _, name = path.rpartition("/")
        level = self._levels.get(folder)
        is_dir = os.path.isdir(os.path.join(self.root, path))
        return level is not None and not is_dir and level.judge(name, False).out is not None

    def _index(self, path: str, found: Index) -> None:
        """Index `path` and everything below it."""
        folder, _, name = path.rpartition("/")
        level = self._levels.get(folder) if folder else self.rules.top
        if level is None:
            return
        try:
            at = self._beneath.folder(folder)
        except OSError as error:
            if not is_absent(error):
                found.skipped[path] = _unreadable(error)
            return
        try:
            if self._exact and name not in os.listdir(at):
                return
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
            is_dir = stat.S_ISDIR(status.st_mode)
            standing = level.judge(name, is_dir)
            if is_dir:
                self._folder(path, status, level, standing, found, above=at)
            elif not standing.out:
                self._add(path, at, status, found)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            found.skipped[path] = _unreadable(error)
        finally:
            os.close(at)

    def _take_in(
        self, path: str, at: int, level: Level, children: list[os.DirEntry[str]], found: Index
    ) -> bool:
        """Index `children`, the entries of the folder `path`, which is open as `at`. Return whether any takes part."""
        self._levels[path] = level
        start = level.path
        judge, add = level.judge, self._add
        some = False
        max_size, entries = self.rules.max_size, found.entries
        for child in children:
            name = child.name
            is_dir = child.is_dir(follow_symlinks=False)
            standing = judge(name, is_dir)
            if standing is not IN and not is_dir and standing.out:
                continue
            try:
                status = child.stat(follow_symlinks=False)
                mode, size = status.st_mode, status.st_size
                if is_dir:
                    some |= self._folder(start + name, status, level, standing, found, above=at)
                elif mode & _FORMAT == stat.S_IFREG and status.st_nlink == 1 and size <= max_size:
                    entries[start + name] = Entry(FILE, mode & 0o777, size, status.st_mtime_ns, stamp(status))
                    some = True
                else:
                    some |= add(start + name, at, status, found)
            except FileNotFoundError:
                continue
            except OSError as error:
                found.skipped[start + name] = _unreadable(error)
        return some

    def _folder(
        self, path: str, status: os.stat_result, level: Level, standing: Standing, found: Index, *, above: int,
    ) -> bool:  # fmt: skip
        """Index the folder `path`, a child of the folder of `level`, whose open descriptor is `above`.

        Return whether it takes part in the sync.

        Raises:
            OSError: it cannot be listed.
        """
        name = path[len(level.path) :]
        if standing is not IN and not level.visits(name, standing):
            return False
        if path.count("/") >= MAX_DEPTH:
            found.skipped[path] = Skip(f"more than {MAX_DEPTH} folders deep")
            return False
        self._enter(path)
        at = open_below(above, os.fsencode(name))
        try:
            children = _listed(at)
            inner = level.enter(name, standing, [child.name for child in children])
            if inner is None:
                return False
            found.entries[path] = Entry(FOLDER, status.st_mode & 0o777, 0, 0, "")
            some = self._take_in(path, at, inner, children, found)
        finally:
            os.close(at)
        if not some and standing.out:
            del found.entries[path]
            return False
        return True

    def _add(self, path: str, at: int, status: os.stat_result, found: Index) -> bool:
        """Index `path`, not a folder, whose lstat is `status`, in the open folder `at`.

        Return False if it is left out.
        """
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            self._linked.add(status.st_ino)
            self._has_links(path)
            status = os.stat(path.rpartition("/")[2], dir_fd=at, follow_symlinks=False)  # as it is now
        if stat.S_ISREG(status.st_mode):
            size = status.st_size
            if size <= self.rules.max_size:
                found.entries[path] = Entry(
                    FILE, status.st_mode & 0o777, size, status.st_mtime_ns, stamp(status)
                )
                return True
            limit = f"more than max_size of [sync] in dkdbg.toml, {self.rules.max_size / 1e6:.0f} MB"
            found.skipped[path] = Skip(f"{size / 1e6:.0f} MB, {limit}")
        elif stat.S_ISLNK(status.st_mode):
            text = os.readlink(path.rpartition("/")[2], dir_fd=at)
            target = _travelling_target(self.root, path, text)
            if target is not None:
                found.entries[path] = Entry(LINK, 0, 0, 0, stamp(status), target)
                return True
            found.skipped[path] = Skip(f"a symlink that leads out of the root, to {text}")
        else:
            what = _SPECIAL.get(stat.S_IFMT(status.st_mode), "special file")
            found.skipped[path] = Skip(f"a {what}, which has no content to copy")
        return False

    def _without_hollow(self, index: Index, changes: Changes) -> Changes:
        """Return `changes`, plus the removal of excluded folders in which no included entry is left."""
        gone = set(changes.removed)
        for path in gone:
            self._levels.pop(path, None)
        hollow = {
            one
            for path in gone
            for one in folders_above(path)
            if one not in gone and (level := self._levels.get(one)) is not None and level.standing.out
        }
        if not hollow:
            return changes
        top = {one for one in hollow if not any(above in hollow for above in folders_above(one))}
        after = Index(dict(index.entries), dict(index.skipped))
        after.apply(changes)
        for one in top:
            for path in [one, *after.below(one)]:
                after.entries.pop(path, None)
            self._index(one, after)
        return compare(index, after)


_FORMAT = stat.S_IFMT(0o777_777)
_SPECIAL = {
    stat.S_IFSOCK: "socket",
    stat.S_IFIFO: "named pipe",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def stamp(status: os.stat_result) -> str:
    """Return an opaque text that changes when the content may have changed: size, mtime, ctime, inode."""
    return f"{status.st_size}.{status.st_mtime_ns}.{status.st_ctime_ns}.{status.st_ino}"


def inode_of(entry: Entry) -> int:
    """Return the inode in a file's stamp."""
    return int(entry.stamp.rpartition(".")[2] or 0)


def _listed(folder: int) -> list[os.DirEntry[str]]:
    """Return the entries of an open folder, whose `stat` works as long as the folder is open."""
    with os.scandir(folder) as listing:
        return list(listing)


def _unreadable(error: OSError) -> Skip:
    return Skip(f"cannot be read: {error.strerror}", unknown=True)


def _identity(root: str) -> tuple[int, int]:
    try:
        status = os.stat(root)
    except OSError as error:
        raise DkdbgError(f"cannot read the folder {root}: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode):
        raise DkdbgError(f"{root} is not a folder")
    return status.st_dev, status.st_ino


def _ignores_case(root: str) -> bool:
    """Return whether the root's file system ignores case, as usual on a Mac. Exact names then need a listing."""
    try:
        return os.path.samefile(
            root, os.path.join(os.path.dirname(root), os.path.basename(root).swapcase())
        ) and (os.path.basename(root) != os.path.basename(root).swapcase())
    except OSError:
        return False


def _travelling_target(root: str, path: str, text: str) -> str | None:
    """Return the target to send for the link at `path`, None if it leads out of `root`.

    The result is relative, and consists of leading `..` and names (ADR 10).

    Args:
        root: the local root, absolute, without symlinks.
        path: the link's path relative to the root, with `/`.
        text: the link's target, as `os.readlink` returns it.
    """
    depth = path.count("/")
    folder = path[: path.rfind("/")] if depth else ""
    if os.path.isabs(text):
        inside = _inside_root(root, os.path.normpath(text))
        if inside is None:
            inside = _inside_root(root, os.path.realpath(text))
        return None if inside is None else _relative_target(folder, inside)
    parts = [part for part in text.split("/") if part not in ("", ".")]
    up = 0
    while up < len(parts) and parts[up] == "..":
        up += 1
    if up > depth:
        return None
    if parts[up:] and ".." not in parts[up:]:
        return "/".join(parts)
    # Let the file system resolve `a/../b`, where `a` may itself be a link, and links to a parent folder.
    inside = _inside_root(root, os.path.realpath(os.path.join(root, folder, text)))
    return None if inside is None else _relative_target(folder, inside)


def _inside_root(root: str, target: str) -> str | None:
    """Return `target` relative to the root; None outside the root, and for the root itself."""
    start = root.rstrip("/") + "/"
    return target[len(start) :] if target.startswith(start) else None


def _relative_target(folder: str, inside: str) -> str | None:
    start, target = folder.split("/") if folder else [], inside.split("/")
    while start and len(target) > 1 and start[0] == target[0]:
        del start[0], target[0]
    return "/".join([".."] * len(start) + target)
