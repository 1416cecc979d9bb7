"""Writes a set of files into the user's repository: all of them or none."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from dkdbg.errors import EXIT_CONFLICT, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Iterable

_HINTS = {
    errno.EROFS: "The file system is mounted read-only: work in a writable copy.",
    errno.ENOSPC: "Free some space on that disk, then try again.",
    errno.EDQUOT: "Your quota on that disk is used up: free some space, then try again.",
    errno.EACCES: "Give yourself permission for it (ls -ld shows who owns it), then try again.",
    errno.EPERM: "Give yourself permission for it (ls -ld shows who owns it), then try again.",
}


@dataclass(frozen=True, kw_only=True)
class Change:
    """One file that differs from what is wanted.

    Attributes:
        path: relative to the repository root.
        before: bytes on the disk when the change was planned, None when there was no file.
        after: bytes to write, None to remove the file.
        mode: permission bits to give exactly; None keeps those of an existing file, a new one gets the umask's.
        reason: why, in words, for the person who reads the plan.
    """

    path: PurePosixPath
    before: bytes | None
    after: bytes | None
    mode: int | None = None
    reason: str = ""


def place(root: Path, path: PurePosixPath) -> Path:
    """Return the real absolute path of a file of the repository, symbolic links followed; it need not exist.

    Raises:
        DkdbgError: `path` leaves `root` (by itself or through a link), or is or passes through something that is
            no regular file or directory.
    """
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise DkdbgError(f"{path} is not a path inside the repository")
    inside = Path(os.path.realpath(root))
    real = Path(os.path.realpath(inside / path))
    if not real.is_relative_to(inside):
        raise DkdbgError(
            f"{path} leads out of the repository, to {real}",
            hint=f"dkdbg writes only below {inside}: replace the symbolic link by a real file or directory.",
            exit_code=EXIT_CONFLICT,
        )
    parent = real.parent
    while not parent.exists():
        parent = parent.parent
    obstacle = (
        real if os.path.lexists(real) and not real.is_file() else parent if not parent.is_dir() else None
    )
    if obstacle is not None:
        kind = (
            "a directory"
            if obstacle.is_dir()
            else "no directory"
            if obstacle == parent
            else "no regular file"
        )
        raise DkdbgError(
            f"cannot write {path}: {obstacle} is {kind}",
            hint=f"Move {obstacle} away, then try again.",
            exit_code=EXIT_CONFLICT,
        )
    return real


def read(root: Path, path: PurePosixPath) -> bytes | None:
    """Return the bytes of a file of the repository, None when there is none.

    Raises:
        DkdbgError: as `place`; or the file cannot be read.
    """
    try:
        return place(root, path).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refused("read", path, error) from error


def refused(verb: str, path: PurePosixPath | str, error: OSError) -> DkdbgError:
    """Return what a failed system call means for the user; `verb` is what was tried with `path`."""
    hint = _HINTS.get(error.errno or 0, "")
    return DkdbgError(f"cannot {verb} {path}: {error.strerror or error}", hint=hint)


def write_new(path: Path, data: bytes, mode: int | None = None) -> None:
    """Create `path` with `data`, on the disk when this returns; `mode` None leaves the mode to the umask.

    Raises:
        OSError: also when `path` exists.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    with open(descriptor, "wb") as file:  # noqa: PTH123  a descriptor, not a path
        if mode is not None:
            os.fchmod(descriptor, mode)
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def sync_directory(path: Path) -> None:
    """Bring renames in `path` to the disk; file systems that cannot do that for a directory are let off."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def staging_names(target: Path) -> tuple[Path, Path]:
    """Return where the new and the old version of `target` lie while a transaction runs (and after a crash)."""
    return target.with_name(f".{target.name}.dkdbg-new"), target.with_name(f".{target.name}.dkdbg-old")


@dataclass(kw_only=True)
class Transaction:
    """Changes that were checked and can be written.

    Order of the disk: every new version is written and synced beside its target first, so that a full disk or a
    missing permission shows before any file is touched; then they are renamed into place one by one, with the old
    version linked beside them, so that going back needs no space either.

    Attributes:
        root: repository, local side.
        changes: in the order of the renames.
        new_directories: relative to `root`, outermost first: what does not exist yet on the way of the targets.
        is_whole: False while (and for good when) going back after a failure fails: the tree is neither old nor new.
    """

    root: Path
    changes: tuple[Change, ...]
    new_directories: tuple[PurePosixPath, ...] = field(init=False)
    is_whole: bool = field(default=True, init=False)
    _targets: tuple[Path, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Check all targets, touch nothing.

        Raises:
            DkdbgError: a target is not writable, leads out of the repository, or is not as it was when the change
                was planned (exit code EXIT_CONFLICT).
        """
        self._targets = tuple(self._check(change) for change in self.changes)
        inside = Path(os.path.realpath(self.root))
        missing = {
            parent
            for target, change in zip(self._targets, self.changes, strict=True)
            for parent in target.parents
            if change.after is not None
            and parent != inside
            and inside in parent.parents
            and not parent.exists()
        }
        self.new_directories = tuple(
            PurePosixPath(path.relative_to(inside).as_posix()) for path in sorted(missing)
        )

    def _check(self, change: Change) -> Path:
        if read(self.root, change.path) != change.before:
            raise DkdbgError(
                f"{change.path} changed while dkdbg was looking at it",
                hint="Run the command again; it will look at the new version.",
                exit_code=EXIT_CONFLICT,
            )
        target = place(self.root, change.path)
        directory = target.parent
        while not directory.exists():
            directory = directory.parent
        for path, need in ((directory, os.W_OK | os.X_OK), (target, os.W_OK)):
            if path.exists() and not os.access(path, need):
                # A container that ran as root is the usual author of files that are not one's own.
                is_own = path.stat().st_uid == os.geteuid()
                remedy = f"chmod u+w {path}" if is_own else f"sudo chown -R $(id -u):$(id -g) {path}"
                raise DkdbgError(
                    f"cannot write {change.path}: no write permission for {path}",
                    hint=f"Get it with: {remedy}",
                )
        return target

    def commit(self) -> None:
        """Write everything.

        Raises:
            DkdbgError: something failed; the tree is as before (unless `is_whole` is False: the message says so).
        """
        inside = Path(os.path.realpath(self.root))
        made: list[Path] = []
        renamed: list[tuple[Path, Change]] = []
        current: PurePosixPath | str = "the repository"
        try:
            for relative in self.new_directories:
                current = relative
                if not (inside / relative).is_dir():  # the journal may have made its own by now
                    (inside / relative).mkdir()
                    made.append(inside / relative)
            for target, change in zip(self._targets, self.changes, strict=True):
                current = change.path
                _stage(target, change)
            for target, change in zip(self._targets, self.changes, strict=True):
                current = change.path
                renamed.append((target, change))
                if change.after is None:
                    target.unlink()
                else:
                    staging_names(target)[0].replace(target)
            for directory in {target.parent for target in self._targets}:
                sync_directory(directory)
        except BaseException as error:
            self._roll_back(renamed, made)
            if isinstance(error, OSError):
                raise refused("write", current, error) from error
            raise
        with contextlib.suppress(OSError):  # all is written; what stays here the next command or undo removes
            _unlink(name for target in self._targets for name in staging_names(target))

    def _roll_back(self, renamed: list[tuple[Path, Change]], made: list[Path]) -> None:
        self.is_whole = False
        try:
            for target, change in reversed(renamed):
                old = staging_names(target)[1]
                if change.before is None:
                    target.unlink(missing_ok=True)
                elif old.exists():
                    old.replace(target)
            _unlink(name for target in self._targets for name in staging_names(target))
            for directory in reversed(made):
                directory.rmdir()
        except OSError as error:
            raise DkdbgError(
                f"writing failed, and so did going back: {error}",
                hint="Nothing is lost: dkdbg init --undo restores every file from its journal.",
            ) from error
        self.is_whole = True


def _stage(target: Path, change: Change) -> None:
    """Put the new and the old version of `target` beside it."""
    new, old = staging_names(target)
    _unlink((new, old))  # from a crash
    if change.after is not None:
        write_new(new, change.after, change.mode)
    if change.before is None:
        return
    try:
        old.hardlink_to(target)
    except OSError:  # FAT, some network and FUSE file systems have no hard links
        shutil.copy2(target, old)
    if change.after is not None:
        existing = target.stat()
        if change.mode is None:
            new.chmod(stat.S_IMODE(existing.st_mode))
        if os.geteuid() == 0:  # under sudo the user's files stay theirs
            os.chown(new, existing.st_uid, existing.st_gid)


def _unlink(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
