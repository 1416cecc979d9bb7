"""Compare wanted files with the disk, and write the differences. No other module of setup writes to the repository."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from dkdbg import signals
from dkdbg.repository.folders import remove_empty
from dkdbg.repository.transaction import Change, Transaction, locked, read, real_path
from dkdbg.setup.render import manifest
from dkdbg.setup.render.journal import Journal
from dkdbg.setup.render.manifest import FOLDER, GITIGNORE, GITIGNORE_TEXT, MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["Change", "FileWanted", "Journal", "Kept", "apply", "between", "diff", "kept"]


@dataclass(frozen=True, kw_only=True)
class FileWanted:
    """How a file in the repository should be.

    Attributes:
        content: the whole content.
        reason: why the file is written, as text for the user.
        owned: True for a generated file, which is never overwritten once the user wrote or edited it. False for an edit
            in the user's own file, whose present bytes `content` is made from.
        executable: whether to set the x bits; False leaves the mode as it is.
        metadata: JSON object to store for the file in the manifest.
        yours: values of the user's that the edit keeps, such as `port is 6000, not 5678`.
    """

    content: bytes
    reason: str
    owned: bool = True
    executable: bool = False
    metadata: Mapping[str, object] | None = None
    yours: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A file, or a value in one, that differs from the plan and stays so; `reason` is text such as `you changed it`."""

    path: PurePosixPath
    reason: str


def between(root: Path, wanted: Mapping[str, FileWanted | None]) -> tuple[Change, ...]:
    """Return the changes that are necessary, in the order of `wanted`, then those of dkdbg's own records.

    Keys are POSIX paths relative to `root`; None removes a generated file. Generated files that the user wrote or
    edited are omitted; see `kept`.

    Raises:
        DkdbgError: a path leads out of the repository or cannot be read.
    """
    disk = _Disk(root)
    changes = [
        change
        for path, file in wanted.items()
        if not disk.reason_to_keep(PurePosixPath(path), file)
        and (change := disk.change(PurePosixPath(path), file))
    ]
    records, metadata = dict(disk.manifest.files), dict(disk.manifest.metadata)
    for key, file in wanted.items():
        path = PurePosixPath(key)
        if file is None:
            records.pop(path, None)
            metadata.pop(path, None)
        elif not disk.reason_to_keep(path, file):
            if file.owned:
                records[path] = manifest.digest(file.content)
            if file.metadata is not None:
                metadata[path] = file.metadata
    now = manifest.Manifest(files=records, metadata=metadata)
    if manifest.dump(now) != manifest.dump(disk.manifest):
        after = manifest.dump(now) if records or metadata else None
        reason = "tells generated files from edited ones"
        changes.append(Change(path=MANIFEST, before=read(root, MANIFEST), after=after, reason=reason))
    ignored = read(root, GITIGNORE)
    if changes and ignored is None and disk.journal.is_beside and str(GITIGNORE) not in wanted:
        reason = "keeps the undo journal out of git"
        changes.append(Change(path=GITIGNORE, before=None, after=GITIGNORE_TEXT, reason=reason))
    if ignored == GITIGNORE_TEXT and not disk.journal.is_beside:
        reason = "the undo journal is now in git's own folder"
        changes.append(Change(path=GITIGNORE, before=ignored, after=None, reason=reason))
    return tuple(changes)


def kept(root: Path, wanted: Mapping[str, FileWanted | None]) -> tuple[Kept, ...]:
    """Return the files and values that `between` leaves as the user wrote or edited them, each with the reason.

    Raises:
        DkdbgError: as `between`.
    """
    disk = _Disk(root)
    reasons = {
        PurePosixPath(path): disk.reason_to_keep(PurePosixPath(path), file) for path, file in wanted.items()
    }
    whole = tuple(Kept(path=path, reason=reason) for path, reason in reasons.items() if reason)
    parts = ((path, phrase) for path, file in wanted.items() if file for phrase in file.yours)
    return (*whole, *(Kept(path=PurePosixPath(path), reason=f"yours: {phrase}") for path, phrase in parts))


def apply(root: Path, changes: Sequence[Change], journal: Journal) -> None:
    """Write all changes, or none. The journal is synced before the first file changes.

    Signals that would end the process are delayed until then. Leftovers of a killed process are removed first.

    Raises:
        DkdbgError: a file has changed since it was compared or leads out of the repository (exit code EXIT_CONFLICT),
            or cannot be written. Then the repository is unchanged.
    """
    with locked(root):
        _apply(root, changes, journal)


@signals.delayed()
def _apply(root: Path, changes: Sequence[Change], journal: Journal) -> None:
    journal.remove_leftovers()
    if not changes:
        return
    transaction = Transaction(root=root, changes=tuple(changes))
    journal.record(transaction.changes, transaction.new_directories)
    try:
        transaction.commit()
    except BaseException:
        if transaction.is_unchanged:
            # A journal that names unchanged files is harmless: undo finds nothing to restore.
            with contextlib.suppress(OSError):
                journal.revert()
        raise
    removed = [change.path for change in changes if change.after is None]
    own_folders = {folder for path in removed for folder in path.parents if FOLDER in folder.parents}
    remove_empty(Path(os.path.realpath(root)), own_folders)


class _Disk:
    """The repository as it is now, and dkdbg's records of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.manifest = manifest.load(root)
        self.journal = Journal(root=root)
        self._journal = self.journal.load()[0]

    def is_own(self, path: PurePosixPath) -> bool:
        present = read(self.root, path)
        if present is None:
            return False
        if self.manifest.files.get(path) == manifest.digest(present):
            return True
        # After a crash a file may be newer than the manifest, but never newer than the journal.
        entry = self._journal.get(path)
        return entry is not None and not entry.edited and entry.has_written(present)

    def reason_to_keep(self, path: PurePosixPath, file: FileWanted | None) -> str | None:
        present = read(self.root, path)
        if present is None or (file is not None and (not file.owned or self._is_same(present, file))):
            return None
        if self.is_own(path):
            return None
        return (
            "you changed it"
            if path in self.manifest.files or path in self._journal
            else "it was there before dkdbg"
        )

    def change(self, path: PurePosixPath, file: FileWanted | None) -> Change | None:
        before = read(self.root, path)
        if file is None:
            reason = "no longer needed"
            return None if before is None else Change(path=path, before=before, after=None, reason=reason)
        mode = self._mode(path) if file.executable else None
        if mode is None and before is not None and self._is_same(before, file):
            return None
        return Change(path=path, before=before, after=file.content, mode=mode, reason=file.reason)

    def _is_same(self, present: bytes, file: FileWanted) -> bool:
        if file.owned:  # git may have converted its line endings
            return manifest.digest(present) == manifest.digest(file.content)
        return present == file.content

    def _mode(self, path: PurePosixPath) -> int | None:
        """Return a mode with which all readers of a file can execute it; None if they already can."""
        try:
            mode = stat.S_IMODE(real_path(self.root, path).stat().st_mode)
        except FileNotFoundError:
            mask = os.umask(0)
            os.umask(mask)
            return 0o777 & ~mask
        executable = mode | (mode & 0o444) >> 2
        return None if executable == mode else executable


_NO_NEWLINE = "\\ No newline at end of file\n"


def diff(changes: Iterable[Change]) -> str:
    """Return a unified diff with git's headers; empty if nothing changes.

    For a file that is not UTF-8 text, one line has the sizes in bytes. If all lines end in CRLF, the header says so. If
    only some do, these lines end in a visible `^M`, as in git.
    """
    return "".join("".join(_file(change)) for change in changes)


def _file(change: Change) -> Iterator[str]:
    old = "/dev/null" if change.before is None else f"a/{change.path}"
    new = "/dev/null" if change.after is None else f"b/{change.path}"
    yield f"diff --git a/{change.path} b/{change.path}\n"
    mode = "100755" if change.mode is not None and change.mode & 0o111 else "100644"
    if change.before is None:
        yield f"new file mode {mode}\n"
    elif change.after is None:
        yield "deleted file mode 100644\n"
    elif change.mode is not None:
        yield f"new mode {mode}\n"
    if change.before == change.after:
        return
    before, after = _text(change.before), _text(change.after)
    if before is None or after is None:
        sizes = " -> ".join(str(len(side)) for side in (change.before, change.after) if side is not None)
        yield f"Binary files {old} and {new} differ ({sizes} bytes)\n"
        return
    all_crlf = (
        all(text.count("\r\n") == text.count("\n") for text in (before, after)) and "\n" in before + after
    )
    if all_crlf:
        yield "line ends: CRLF\n"
    ending = "" if all_crlf else "^M"
    # Split only at \n, as git does: str.splitlines would also split at form feeds and U+2028.
    left, right = (
        [line.replace("\r\n", ending + "\n") for line in re.findall(r".*\n|.+", text)]
        for text in (before, after)
    )
    for line in difflib.unified_diff(left, right, old, new):
        yield line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}"


def _text(data: bytes | None) -> str | None:
    """Return the text of a file, "" if there is no file; None if it is binary."""
    if data is None:
        return ""
    try:
        return None if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None
