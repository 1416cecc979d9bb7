"""Record the state of the repository before the first `dkdbg init`, and restore exactly that state."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import stat
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from dkdbg import hints, signals
from dkdbg.errors import EXIT_CONFLICT, DkdbgError
from dkdbg.repository import folders, git
from dkdbg.repository.folders import Folder, git_folder, refused, remove_empty
from dkdbg.repository.transaction import Change, Transaction, locked, read, real_path, staging_names
from dkdbg.setup.render.manifest import FOLDER, MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Path of the journal in a folder without git; until version 0.1 in every checkout.
BESIDE = FOLDER / "undo.json"
_VERSION = 1
#: File that dev container tools write beside a configuration; its content, without spaces, if it locks no Feature.
_LOCK, _EMPTY_LOCK = "devcontainer-lock.json", b'{"features":{}}'


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The record of one file for undo.

    Attributes:
        before: content before the first init; None if there was no file.
        mode, mtime_ns: its permission bits and modification time; None if there was no file.
        written: sha256 of each version that dkdbg wrote, oldest first; None for a removal.
        edited: whether the user changed the file between two inits, so that restoring it would lose the change.
    """

    before: bytes | None
    mode: int | None = None
    mtime_ns: int | None = None
    written: tuple[str | None, ...] = ()
    edited: bool = False

    def has_written(self, data: bytes) -> bool:
        """Return whether dkdbg wrote exactly `data`."""
        return _sha(data) in self.written


@dataclass(frozen=True, kw_only=True)
class Undone:
    """The result of an undo; paths are relative to the repository's root.

    Attributes:
        restored: files that have their old content, mode and time again.
        removed: files that dkdbg had created.
        saved: (file that the user edited, where the edited version was saved).
        left: directories that dkdbg had created and that now contain other files.
    """

    restored: tuple[PurePosixPath, ...]
    removed: tuple[PurePosixPath, ...]
    saved: tuple[tuple[PurePosixPath, PurePosixPath], ...]
    left: tuple[PurePosixPath, ...] = ()


@dataclass(kw_only=True)
class Journal:
    """The undo journal of a checkout. It is in git's own folder, which `git clean` spares; without git in `.dkdbg/`."""

    root: Path
    _replaced: bytes | None = None
    _made_folder: bool = False
    _base: Path = field(init=False)
    _path: PurePosixPath = field(init=False)

    def __post_init__(self) -> None:
        own = git_folder(self.root)
        self._base = own or Path(os.path.realpath(self.root))
        self._path = _name_in_git(self.root) if own else BESIDE

    @property
    def is_beside(self) -> bool:
        """Return whether the journal is among the user's files, so that git has to ignore it."""
        return self._path == BESIDE

    def load(self) -> tuple[dict[PurePosixPath, Entry], tuple[PurePosixPath, ...]]:
        """Return the entries, and the created directories with the outermost first; empty if nothing was written.

        Raises:
            DkdbgError: the journal cannot be read, or names a path that dkdbg never writes.
        """
        name, data = str(self._base / self._path) if not self.is_beside else str(BESIDE), self._read()
        if data is None and not self.is_beside:
            name, data = str(BESIDE), self._former()
        if data is None:
            return {}, ()
        try:
            content = json.loads(data)
            entries = {folders.checked(path): _entry(fields) for path, fields in content["files"].items()}
            return entries, tuple(folders.checked(path) for path in content["directories"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, DkdbgError) as error:
            raise DkdbgError(
                f"{name} cannot be read: {error!r}",
                hint=f"Undo by git instead (git status shows the files), then remove {name}.",
                exit_code=EXIT_CONFLICT,
            ) from error

    def record(self, changes: Iterable[Change], new_directories: Iterable[PurePosixPath]) -> None:
        """Record the present state of the files that `changes` will change, and sync the record to the disk.

        Raises:
            DkdbgError: the journal cannot be read or written; nothing has changed.
        """
        entries, directories = self.load()
        # Without a manifest (removed by `git clean`), files at the paths that dkdbg had created are the user's.
        if read(self.root, MANIFEST) is None:
            entries = {
                path: entry
                for path, entry in entries.items()
                if entry.before is not None or not _is_edited(path, entry, read(self.root, path))
            }
        for change in changes:
            entry = entries.get(change.path) or self._first_seen(change)
            was_edited = (
                change.before not in (None, entry.before) and _sha(change.before) not in entry.written
            )
            entries[change.path] = replace(
                entry,
                written=tuple(dict.fromkeys((*entry.written, _sha(change.after)))),
                edited=entry.edited or was_edited,
            )
        try:
            self._move_in()
            self._replaced = self._read()
            self._made_folder = self._make_folder()
            made = [FOLDER] if self._made_folder and self.is_beside else []
            self._write(_dump(entries, dict.fromkeys((*directories, *made, *new_directories))))
        except OSError as error:
            with contextlib.suppress(OSError):
                self.revert()
            raise refused("write", self._path, error) from error

    def revert(self) -> None:
        """Revert the last `record`, because its changes were rolled back.

        Raises:
            OSError: the journal cannot be written.
        """
        if self._replaced is not None:
            self._write(self._replaced)
            return
        with Folder.at(self._base, self._path.parent) as folder:
            folder.remove(self._path.name)
        if self._made_folder:
            with Folder.at(self._base) as base:
                base.remove_folder(self._path.parent.name)

    def _read(self) -> bytes | None:
        """Return the journal's bytes; None if there is no journal, or it came with a clone."""
        if self.is_beside:
            return self._former()
        return read(self._base, self._path)

    def _former(self) -> bytes | None:
        """Return the bytes of `.dkdbg/undo.json`; None if it is missing, or in git and so from another checkout."""
        if not os.path.lexists(self.root / BESIDE):
            return None
        in_checkout = any(os.path.lexists(folder / ".git") for folder in (self.root, *self.root.parents))
        return None if in_checkout and git.tracks(self.root, str(BESIDE)) else read(self.root, BESIDE)

    def _make_folder(self) -> bool:
        """Create the journal's folder; return whether it was missing."""
        with Folder.at(self._base) as base:
            name = self._path.parent.name
            if (kind := base.kind(name)) == "a directory":
                return False
            if kind is not None:
                raise folders.obstacle(self._path.parent, kind)
            base.make(name)
            return True

    def _move_in(self) -> None:
        """Move the journal of an earlier version from the user's files to git's folder."""
        former = None if self.is_beside else self._former()
        if former is None:
            return
        if self._read() is None:
            self._make_folder()
            self._write(former)
        with Folder.at(Path(os.path.realpath(self.root)), BESIDE.parent) as folder:
            folder.remove(BESIDE.name)

    def remove_leftovers(self) -> None:
        """Remove temporary files of a killed process beside recorded files, because a copy of .env holds secrets.

        Raises:
            DkdbgError: the journal cannot be read.
        """
        inside = Path(os.path.realpath(self.root))
        for path in self.load()[0]:
            with contextlib.suppress(OSError, DkdbgError), Folder.at(inside, path.parent) as folder:
                for leftover in staging_names(path.name):
                    folder.remove(leftover)

    def undo(self, *, force: bool = False) -> Undone:
        """Restore all files to their state before the first init, then delete the journal.

        With `force`, save the user's edits of generated files as `<file>.dkdbg-saved`.

        Raises:
            DkdbgError: there is nothing to undo; a file was edited since and `force` is not set (nothing changes, exit
                code EXIT_CONFLICT); or writing failed and was rolled back.
        """
        with locked(self.root):
            return self._undo(force=force)

    @signals.delayed()
    def _undo(self, *, force: bool) -> Undone:
        entries, directories = self.load()
        if not entries:
            raise DkdbgError(
                "nothing to undo: dkdbg init has written nothing in this checkout",
                hint="to remove files that a colleague's init wrote and committed, use git rm; .dkdbg/manifest.json lists them",
            )
        current = {path: read(self.root, path) for path in entries}
        edited = [path for path, entry in entries.items() if _is_edited(path, entry, current[path])]
        if edited and not force:
            raise DkdbgError(
                "you changed these files since dkdbg wrote them, so nothing was undone:\n"
                + "\n".join(f"  {path}" for path in edited),
                hint=hints.UNDO_ANYWAY(),
                exit_code=EXIT_CONFLICT,
            )
        saved = tuple((path, self._free_name(path)) for path in edited)
        keep = tuple(Change(path=copy, before=None, after=current[path]) for path, copy in saved)
        back = tuple(
            Change(path=path, before=current[path], after=entry.before, mode=entry.mode)
            for path, entry in entries.items()
            if current[path] != entry.before
        )
        Transaction(root=self.root, changes=keep + back).commit()
        try:
            self._forget(entries, directories)
        except OSError as error:
            raise refused("remove", self._path, error) from error
        return Undone(
            restored=tuple(change.path for change in back if change.after is not None),
            removed=tuple(change.path for change in back if change.after is None),
            saved=saved,
            left=tuple(directory for directory in directories if (self.root / directory).is_dir()),
        )

    def _first_seen(self, change: Change) -> Entry:
        if change.before is None:
            return Entry(before=None)
        status = real_path(self.root, change.path).stat()
        mode = stat.S_IMODE(status.st_mode)
        return Entry(before=change.before, mode=mode, mtime_ns=status.st_mtime_ns)

    def _free_name(self, path: PurePosixPath) -> PurePosixPath:
        names = [f"{path.name}.dkdbg-saved", *(f"{path.name}.dkdbg-saved-{n}" for n in range(2, 1000))]
        return next(path.with_name(name) for name in names if read(self.root, path.with_name(name)) is None)

    def _write(self, data: bytes) -> None:
        new = staging_names(self._path.name)[0]
        with Folder.at(self._base, self._path.parent) as folder:
            folder.remove(new)
            folder.write_new(new, data, 0o600)  # private: it contains the user's files
            folder.replace(new, self._path.name)
            folder.sync()

    def _forget(self, entries: dict[PurePosixPath, Entry], directories: tuple[PurePosixPath, ...]) -> None:
        """Restore times and modes; remove leftovers, created folders, and at last the journal."""
        inside = Path(os.path.realpath(self.root))
        for path, entry in entries.items():
            with contextlib.suppress(FileNotFoundError), Folder.at(inside, path.parent) as folder:
                for leftover in staging_names(path.name):
                    folder.remove(leftover)
                if entry.before is None and path.name == "devcontainer.json":
                    with contextlib.suppress(DkdbgError):  # dev container tools create no folder or link
                        lock = read(self.root, path.with_name(_LOCK)) or b""
                        if b"".join(lock.split()) == _EMPTY_LOCK:
                            folder.remove(_LOCK)
                if entry.mode is not None and entry.mtime_ns is not None:
                    with contextlib.suppress(
                        PermissionError
                    ):  # another user's file, which dkdbg did not replace
                        folder.restore(path.name, mode=entry.mode, mtime_ns=entry.mtime_ns)
        for base, journal in {(self._base, self._path), (inside, BESIDE)}:
            with contextlib.suppress(FileNotFoundError), Folder.at(base, journal.parent) as folder:
                for leftover in (*staging_names(journal.name), journal.name):
                    folder.remove(leftover)
        if not self.is_beside:
            with contextlib.suppress(OSError), Folder.at(self._base) as base_folder:
                base_folder.remove_folder(self._path.parent.name)
        remove_empty(inside, directories)


def _name_in_git(root: Path) -> PurePosixPath:
    """Return the journal's name in git's folder; it differs for each folder of a checkout in which `init` may run."""
    top = next(folder for folder in (root, *root.parents) if os.path.lexists(folder / ".git"))
    inside = root.relative_to(top).as_posix()
    suffix = "" if inside == "." else "-" + hashlib.sha256(os.fsencode(inside)).hexdigest()[:16]
    return PurePosixPath("dkdbg", f"undo{suffix}.json")


def _is_edited(path: PurePosixPath, entry: Entry, current: bytes | None) -> bool:
    """Return whether restoring a file would lose changes that the user made."""
    if current is None or current == entry.before or path == MANIFEST:
        return False  # a merge may change the manifest, which has no text of the user's
    return entry.edited or _sha(current) not in entry.written


def _sha(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def _entry(fields: dict[str, object]) -> Entry:
    match fields:
        case {
            "before": str() | None as before,
            "mode": int() | None as mode,
            "mtime_ns": int() | None as mtime_ns,
            "written": list() as written,
            "edited": bool() as edited,
        }:
            if before is not None and (mode is None or mtime_ns is None):
                raise ValueError("an entry is incomplete")
            return Entry(
                before=None if before is None else base64.b64decode(before, validate=True),
                mode=None if mode is None else mode & 0o777,
                mtime_ns=mtime_ns,
                written=tuple(written),
                edited=edited,
            )
        case _:
            raise ValueError("an entry is incomplete")


def _dump(entries: dict[PurePosixPath, Entry], directories: Iterable[PurePosixPath]) -> bytes:
    files: dict[str, object] = {}
    for path, entry in entries.items():
        before = None if entry.before is None else base64.b64encode(entry.before).decode()
        files[str(path)] = {**asdict(entry), "before": before}
    content = {"version": _VERSION, "files": files, "directories": [str(path) for path in directories]}
    return json.dumps(content, indent=1).encode() + b"\n"
