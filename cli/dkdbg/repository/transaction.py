"""Write a set of files into the user's repository, all of them or none."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from dkdbg import signals
from dkdbg.agent.state import runtime_dir
from dkdbg.errors import EXIT_CONFLICT, DkdbgError
from dkdbg.repository import folders
from dkdbg.repository.folders import Folder, refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Maximum seconds to wait for another `dkdbg` that writes into the same repository.
LOCK_TIMEOUT_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Change:
    """A file to change.

    Attributes:
        path: relative to the repository root.
        before: bytes on disk when the change was planned, None if there was no file.
        after: bytes to write, None to remove the file.
        mode: exact permission bits; None keeps an existing file's, and applies the umask to a new file.
        reason: why the file changes, as text for the user.
    """

    path: PurePosixPath
    before: bytes | None
    after: bytes | None
    mode: int | None = None
    reason: str = ""


def real_path(root: Path, path: PurePosixPath) -> Path:
    """Return the real absolute path of a file of the repository for reading; symlinks are followed.

    Raises:
        DkdbgError: `path` leaves `root` (directly or through a link), leads to git's own files, or is or passes
            through something that is not a regular file or directory.
    """
    folders.checked(path)
    inside = Path(os.path.realpath(root))
    real = Path(os.path.realpath(inside / path))
    if not real.is_relative_to(inside):
        raise DkdbgError(
            f"{path} leads out of the repository, to {real}",
            hint=f"dkdbg writes only below {inside}: replace the symbolic link by a real file or directory.",
            exit_code=EXIT_CONFLICT,
        )
    if real != inside:
        folders.checked(PurePosixPath(real.relative_to(inside).as_posix()))
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
            else "not a directory"
            if obstacle == parent
            else "not a regular file"
        )
        raise DkdbgError(
            f"cannot write {path}: {obstacle} is {kind}",
            hint=f"Move {obstacle} away, then try again.",
            exit_code=EXIT_CONFLICT,
        )
    return real


def read(root: Path, path: PurePosixPath) -> bytes | None:
    """Return the bytes of a file of the repository, None if it does not exist.

    Raises:
        DkdbgError: as `real_path`; or the file cannot be read.
    """
    try:
        return folders.read_whole(real_path(root, path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refused("read", path, error) from error


def sync_directory(folder: Folder) -> None:
    """Sync renames in a folder to the disk."""
    folder.sync()


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """Keep other `dkdbg` processes of this user from writing into a repository: a journal would be lost.

    The lock is a file in the user's private folder on this machine. A lock in the repository could be held by any
    process that can read the repository, such as one in a container. If no private folder can be created, nothing is
    locked.

    Raises:
        DkdbgError: another `dkdbg` writes for more than LOCK_TIMEOUT_S, or the repository cannot be read.
    """
    try:
        found = root.stat()
    except OSError as error:
        raise refused("read", PurePosixPath("."), error) from error
    descriptor = None
    with contextlib.suppress(OSError, runtime_dir.RuntimeDirError):
        folder = runtime_dir.private_folder(f"dkdbg-locks-{os.getuid()}")
        descriptor = os.open(
            Path(folder, f"{found.st_dev}-{found.st_ino}.lock"), os.O_RDWR | os.O_CREAT, 0o600
        )
    until = time.monotonic() + LOCK_TIMEOUT_S
    try:
        while descriptor is not None and not _lock(descriptor):
            if time.monotonic() > until:
                raise DkdbgError(
                    f"another dkdbg has been writing into {root} for {LOCK_TIMEOUT_S:g} s",
                    hint="run the command again when that dkdbg has ended; to find it: ps -ef | grep dkdbg",
                    exit_code=EXIT_CONFLICT,
                )
            time.sleep(0.05)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock an open file; return whether it is locked. Without locks on the file system, return True."""
    try:
        return runtime_dir.lock(descriptor)
    except OSError:
        return True


def staging_names(name: str) -> tuple[str, str]:
    """Return the temporary names of a file's new and old versions; after a crash such files may remain."""
    return f".{name}.dkdbg-new", f".{name}.dkdbg-old"


@dataclass(kw_only=True)
class Transaction:
    """Checked changes, ready to be written.

    Every new version is first written and synced beside its target, so that a full disk or a missing permission shows
    before any file is touched. Then the new versions are renamed into place one by one, with the old version
    hard-linked beside them, so that a rollback needs no space either.

    Attributes:
        root: repository, local side.
        changes: changes in the order of the renames.
        new_directories: folders to create for the targets, relative to `root`, outermost first.
        is_unchanged: False from the first rename on; True again after a complete rollback.
    """

    root: Path
    changes: tuple[Change, ...]
    new_directories: tuple[PurePosixPath, ...] = field(init=False)
    is_unchanged: bool = field(default=True, init=False)
    _inside: Path = field(init=False)

    def __post_init__(self) -> None:
        """Check all targets without touching them.

        Raises:
            DkdbgError: a target is not writable, leads out of the repository or through a link, or has changed since
                the change was planned (exit code EXIT_CONFLICT).
        """
        self._inside = Path(os.path.realpath(self.root))
        missing = {folder for change in self.changes for folder in self._check(change)}
        self.new_directories = tuple(sorted(missing))

    def _check(self, change: Change) -> tuple[PurePosixPath, ...]:
        """Return the missing folders in the path of the change's target."""
        if read(self.root, change.path) != change.before:
            raise DkdbgError(
                f"{change.path} changed while dkdbg was reading it",
                hint="Run the command again to use the new version.",
                exit_code=EXIT_CONFLICT,
            )
        missing: list[PurePosixPath] = []
        folder, kind = change.path.parent, None
        while True:
            try:
                with Folder.at(self._inside, folder) as opened:
                    kind = None if missing else opened.kind(change.path.name)
                break
            except FileNotFoundError:
                if not folder.parts:
                    raise DkdbgError(f"there is no folder {self._inside}") from None
                missing.append(folder)
                folder = folder.parent
            except OSError as error:
                raise refused("write", change.path, error) from error
        if kind not in {None, "a file"}:
            raise folders.obstacle(change.path, kind)
        directory, target = self._inside / folder, self._inside / change.path
        for path, need in ((directory, os.W_OK | os.X_OK), (target, os.W_OK)):
            if path.exists() and not os.access(path, need):
                if os.statvfs(path).f_flag & os.ST_RDONLY:
                    raise refused("write", change.path, OSError(errno.EROFS, os.strerror(errno.EROFS)))
                # Files of another owner usually come from a container that ran as root.
                is_own = path.stat().st_uid == os.geteuid()
                shown = shlex.quote(str(path))
                remedy = f"chmod u+w {shown}" if is_own else f"sudo chown -R $(id -u):$(id -g) {shown}"
                raise DkdbgError(
                    f"cannot write {change.path}: no write permission for {path}",
                    hint=f"Get it with: {remedy}",
                )
        return tuple(missing) if change.after is not None else ()

    @signals.delayed()
    def commit(self) -> None:
        """Write all changes; signals that end a verb are delayed until all are written.

        Raises:
            DkdbgError: writing failed. With `is_unchanged` the rollback has restored all files.
        """
        made: list[tuple[Folder, str]] = []
        renamed: list[tuple[Folder, Change]] = []
        current: PurePosixPath | str = "the repository"
        with contextlib.ExitStack() as closing:
            opened: dict[PurePosixPath, Folder] = {}

            def folder(path: PurePosixPath) -> Folder:
                if path not in opened:
                    opened[path] = closing.enter_context(Folder.at(self._inside, path))
                return opened[path]

            try:
                for relative in self.new_directories:
                    current = relative
                    above = folder(relative.parent)
                    if above.kind(relative.name) is None:  # the journal may have created its folder by now
                        above.make(relative.name)
                        made.append((above, relative.name))
                targets = [
                    (folder(change.path.parent), change)
                    for change in self.changes
                    if change.after is not None or change.before is not None
                ]
                for place_, change in targets:
                    current = change.path
                    _stage(place_, change)
                self.is_unchanged = False
                for place_, change in targets:
                    current = change.path
                    renamed.append((place_, change))
                    if change.after is None:
                        place_.remove(change.path.name)
                    else:
                        place_.replace(staging_names(change.path.name)[0], change.path.name)
                for each in opened.values():
                    sync_directory(each)
            except BaseException as error:
                self._roll_back(renamed, made, opened)
                if isinstance(error, OSError):
                    raise refused("write", current, error) from error
                raise
            with contextlib.suppress(OSError):  # all is written; Journal.remove_leftovers tries again
                for place_, change in targets:
                    _unlink(place_, staging_names(change.path.name))

    def _roll_back(
        self,
        renamed: list[tuple[Folder, Change]],
        made: list[tuple[Folder, str]],
        opened: dict[PurePosixPath, Folder],
    ) -> None:
        self.is_unchanged, is_restored = False, True
        try:
            for folder, change in reversed(renamed):
                old = staging_names(change.path.name)[1]
                if change.before is None:
                    folder.remove(change.path.name)
                elif folder.kind(old) is not None:
                    folder.replace(old, change.path.name)
                else:
                    is_restored = False  # another process has removed it; the journal has the old version
            for change in self.changes:
                if change.path.parent in opened:
                    _unlink(opened[change.path.parent], staging_names(change.path.name))
            for above, name in reversed(made):
                above.remove_folder(name)
        except OSError as error:
            raise DkdbgError(
                f"writing failed, and so did the rollback: {error}",
                hint="Nothing is lost: dkdbg init --undo restores every file from its journal.",
            ) from error
        self.is_unchanged = is_restored


def _stage(folder: Folder, change: Change) -> None:
    """Write the new version of a target beside it, and hard-link the old version there."""
    name = change.path.name
    new, old = staging_names(name)
    _unlink(folder, (new, old))  # left by a crash
    existing = None if change.before is None else folder.status(name)
    if change.after is not None:
        mode = stat.S_IMODE(existing.st_mode) if existing and change.mode is None else change.mode
        # Under sudo the user's files keep their owner.
        owner = (existing.st_uid, existing.st_gid) if existing and os.geteuid() == 0 else None
        folder.write_new(new, change.after, mode, owner)
    if change.before is None or existing is None:
        return
    try:
        folder.link(name, old)
    except OSError:  # FAT, some network and FUSE file systems have no hard links
        folder.write_new(
            old,
            change.before,
            stat.S_IMODE(existing.st_mode),
            times=(existing.st_atime_ns, existing.st_mtime_ns),
        )


def _unlink(folder: Folder, names: Iterable[str]) -> None:
    for name in names:
        folder.remove(name)
