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

#: Maximum seconds to wait for another `dkdbg` that writes in the same repository.
LOCK_TIMEOUT_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Change:
    """A file to change.

    Attributes:
        path: relative to the repository's root.
        before: content when the change was planned; None if there was no file.
        after: content to write; None to remove the file.
        mode: exact permission bits; None keeps those of an existing file, and applies the umask to a new one.
        reason: why the file changes, shown to the user.
    """

    path: PurePosixPath
    before: bytes | None
    after: bytes | None
    mode: int | None = None
    reason: str = ""


def real_path(root: Path, path: PurePosixPath) -> Path:
    """Return the absolute path of a repository's file for reading, with symlinks resolved.

    Raises:
        DkdbgError: `path` leads out of `root` or to git's own files, directly or through a link, or is not a regular
            file or directory.
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
        DkdbgError: `real_path` rejects the path, or the file cannot be read.
    """
    try:
        return folders.read_whole(real_path(root, path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refused("read", path, error) from error


def sync_directory(folder: Folder) -> None:
    """Flush renames in a folder to the disk."""
    folder.sync()


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """Keep this user's other `dkdbg` processes from writing in a repository, where one's undo journal could be lost.

    The lock is a file in the user's private folder on this machine, because any process that can read the repository,
    such as one in a container, could hold a lock there. Without a private folder nothing is locked.

    Raises:
        DkdbgError: another `dkdbg` holds the lock for more than LOCK_TIMEOUT_S, or the repository cannot be read.
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
    """Try to lock an open file, and return whether it is locked; True if its file system has no locks."""
    try:
        return runtime_dir.lock(descriptor)
    except OSError:
        return True


def staging_names(name: str) -> tuple[str, str]:
    """Return temporary names for a file's new and old versions; after a crash files of these names may remain."""
    return f".{name}.dkdbg-new", f".{name}.dkdbg-old"


@dataclass(kw_only=True)
class Transaction:
    """Changes that have been checked and can be written.

    First write and sync every new version beside its destination, so that a full disk or a missing permission shows
    before any file changes. Then rename the new versions into place one by one. The old versions stay beside them as
    hard links, so a rollback needs no space.

    Attributes:
        root: the repository, on this machine.
        changes: in the order of the renames.
        new_directories: folders to create, relative to `root`, outermost first.
        is_unchanged: False from the first rename on; True again after a complete rollback.
    """

    root: Path
    changes: tuple[Change, ...]
    new_directories: tuple[PurePosixPath, ...] = field(init=False)
    is_unchanged: bool = field(default=True, init=False)
    _inside: Path = field(init=False)

    def __post_init__(self) -> None:
        """Check all destinations, and change nothing.

        Raises:
            DkdbgError: a destination is not writable, leads out of the repository or through a link, or has changed
                since the change was planned (exit code EXIT_CONFLICT).
        """
        self._inside = Path(os.path.realpath(self.root))
        missing = {folder for change in self.changes for folder in self._check(change)}
        self.new_directories = tuple(sorted(missing))

    def _check(self, change: Change) -> tuple[PurePosixPath, ...]:
        """Check one destination, and return the folders that its path lacks."""
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
                # A file with another owner was usually written by a container that ran as root.
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
        """Write all changes; delay signals that would end the process until then.

        Raises:
            DkdbgError: writing failed. If `is_unchanged`, the rollback has restored all files.
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
                    if above.kind(relative.name) is None:  # writing the journal may have created it
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
            with contextlib.suppress(OSError):  # all changes are written; Journal.remove_leftovers retries
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
                    is_restored = False  # another process removed the hard link; the journal has the content
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
    """Write the new version of a file beside it, and hard-link the old version there."""
    name = change.path.name
    new, old = staging_names(name)
    _unlink(folder, (new, old))  # leftovers of a crash
    existing = None if change.before is None else folder.status(name)
    if change.after is not None:
        mode = stat.S_IMODE(existing.st_mode) if existing and change.mode is None else change.mode
        # Under sudo, the files stay the user's.
        owner = (existing.st_uid, existing.st_gid) if existing and os.geteuid() == 0 else None
        folder.write_new(new, change.after, mode, owner)
    if change.before is None or existing is None:
        return
    try:
        folder.link(name, old)
    except OSError:  # no hard links on FAT and some network and FUSE file systems
        folder.write_new(
            old,
            change.before,
            stat.S_IMODE(existing.st_mode),
            times=(existing.st_atime_ns, existing.st_mtime_ns),
        )


def _unlink(folder: Folder, names: Iterable[str]) -> None:
    for name in names:
        folder.remove(name)
