"""Open folders of a repository step by step from its root, without following symlinks or entering git's own folder.

Write, rename and remove through the descriptor of an open folder, so that replacing the folder with a symlink has no
effect. Such a link in a repository may lead to git's hooks, which git runs.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from dkdbg.errors import EXIT_CONFLICT, DkdbgError
from dkdbg.repository import git

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self

_HINTS = {
    errno.EROFS: "The file system is mounted read-only: work in a writable copy.",
    errno.ENOSPC: "Free some space on that disk, then try again.",
    errno.EDQUOT: "Your quota on that disk is used up: free some space, then try again.",
    errno.EACCES: "Give yourself permission for it (ls -ld shows who owns it), then try again.",
    errno.EPERM: "Give yourself permission for it (ls -ld shows who owns it), then try again.",
}
_CURRENT = PurePosixPath(".")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Maximum bytes of a file to read whole. The largest file that dkdbg writes is the agent, 6 MB.
MAX_READ_BYTES = 64 << 20


def checked(text: str | PurePosixPath) -> PurePosixPath:
    """Return `text` as a path inside the repository and outside git's own folder; `text` may come from the repository.

    Raises:
        DkdbgError: `text` is not such a path.
    """
    path = PurePosixPath(text)
    try:
        name = os.fsencode(path)
    except UnicodeEncodeError:  # a lone surrogate, such as "\ud800" in JSON
        name = b"\0"
    if path.is_absolute() or not path.parts or ".." in path.parts or b"\0" in name:
        raise DkdbgError(f"{path} is not a path inside the repository")
    if any(git.folded(part) in git.FOLDERS for part in path.parts):
        raise DkdbgError(
            f"{path} is in git's own folder",
            hint="dkdbg never writes there, because git runs files in it: choose another path",
            exit_code=EXIT_CONFLICT,
        )
    return path


def is_gone(folder: Path) -> bool:
    """Return whether a folder is missing; a folder that cannot be read is not missing."""
    try:
        return not stat.S_ISDIR(folder.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def refused(verb: str, path: PurePosixPath | str, error: OSError) -> DkdbgError:
    """Return the error for a system call that failed; `verb` names the attempted operation on `path`."""
    hint = _HINTS.get(error.errno or 0, "")
    return DkdbgError(f"cannot {verb} {path}: {error.strerror or error}", hint=hint)


class Folder:
    """An open folder. Its methods accept names, not paths, and raise OSError."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def at(cls, root: Path, path: PurePosixPath = _CURRENT) -> Folder:
        """Open the folder `path` below `root`; `root` is absolute and not itself a link.

        Raises:
            DkdbgError: part of the path is a link or a file.
            OSError: a folder is missing, or cannot be opened.
        """
        folder = cls(os.open(root, _DIRECTORY))
        for depth, part in enumerate(path.parts):
            try:
                below = os.open(part, _DIRECTORY, dir_fd=folder.descriptor)
            except OSError as error:
                kind = folder.kind(part)
                if error.errno in {errno.ENOTDIR, errno.ELOOP} and kind not in {None, "a directory"}:
                    raise obstacle(PurePosixPath(*path.parts[: depth + 1]), kind) from error
                raise
            finally:
                folder.close()
            folder = cls(below)
        return folder

    def close(self) -> None:
        """Close the folder; a second call does nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of an entry (of a link, not of its target); None if the entry does not exist."""
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def kind(self, name: str) -> str | None:
        """Return the kind of an entry, such as "a symbolic link"; None if the entry does not exist."""
        status = self.status(name)
        if status is None:
            return None
        kinds = {stat.S_IFREG: "a file", stat.S_IFDIR: "a directory", stat.S_IFLNK: "a symbolic link"}
        return kinds.get(stat.S_IFMT(status.st_mode), "not a regular file")

    def write_new(
        self,
        name: str,
        data: bytes,
        mode: int | None = None,
        owner: tuple[int, int] | None = None,
        times: tuple[int, int] | None = None,
    ) -> None:
        """Create a file, and flush it to the disk (fsync).

        Args:
            name: not yet in use in this folder.
            data: its whole content.
            mode: permission bits; None for the umask's.
            owner: (user id, group id).
            times: (last access, last modification) in ns.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o666, dir_fd=self.descriptor)
        with open(descriptor, "wb") as file:  # noqa: PTH123  a descriptor, not a path
            if owner is not None:
                os.fchown(descriptor, *owner)
            if mode is not None:
                os.fchmod(descriptor, mode)
            file.write(data)
            file.flush()
            if times is not None:
                os.utime(descriptor, ns=times)
            os.fsync(descriptor)

    def restore(self, name: str, *, mode: int, mtime_ns: int) -> None:
        """Set a regular file's permission bits and modification time."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=self.descriptor)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.fchmod(descriptor, mode)
                os.utime(descriptor, ns=(mtime_ns, mtime_ns))
        finally:
            os.close(descriptor)

    def replace(self, old: str, new: str) -> None:
        """Rename `old` to `new`, replacing a file or link of that name."""
        os.replace(old, new, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def link(self, old: str, new: str) -> None:
        """Add a hard link to a file."""
        os.link(old, new, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor, follow_symlinks=False)

    def remove(self, name: str) -> None:
        """Remove a file or link if it exists."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)

    def make(self, name: str) -> None:
        """Create a folder."""
        os.mkdir(name, dir_fd=self.descriptor)

    def remove_folder(self, name: str) -> None:
        """Remove an empty folder; fail for a link to one."""
        os.rmdir(name, dir_fd=self.descriptor)

    def sync(self) -> None:
        """Flush renames to the disk (fsync), if the file system can do that for a folder."""
        with contextlib.suppress(OSError):
            os.fsync(self.descriptor)


def remove_empty(root: Path, paths: Iterable[PurePosixPath]) -> None:
    """Remove the empty folders among `paths` below `root`, deepest first; the others hold the user's files."""
    for path in sorted(paths, key=lambda each: len(each.parts), reverse=True):
        with contextlib.suppress(OSError, DkdbgError), Folder.at(root, path.parent) as folder:
            folder.remove_folder(path.name)


def obstacle(path: PurePosixPath, kind: str | None) -> DkdbgError:
    """Return the error for an entry that is in the way at `path`; `kind` is the result of `Folder.kind`."""
    if kind == "a symbolic link":
        hint = "dkdbg does not write through links, which may lead anywhere: put a real file or folder there"
    else:
        hint = f"Move {path} away, then try again."
    return DkdbgError(f"cannot write {path}: it is {kind}", hint=hint, exit_code=EXIT_CONFLICT)


def read_whole(path: Path) -> bytes:
    """Return the bytes of a regular file; `path` must not be a link.

    Raises:
        OSError: it cannot be read, is not a regular file, or is larger than MAX_READ_BYTES.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        data = file.read(MAX_READ_BYTES + 1)
    if len(data) > MAX_READ_BYTES:
        raise OSError(errno.EFBIG, f"it is larger than {MAX_READ_BYTES >> 20} MB")
    return data


def read_private(file: Path, what: str, hint: str) -> str | None:
    """Return the stripped text of a file that only its owner may read; None if the file is missing.

    Args:
        what: the content's name, for messages.
        hint: how to get a new file, for messages.

    Raises:
        DkdbgError: the file cannot be read, is empty, or is readable by other users.
    """
    try:
        text, mode = file.read_text("utf-8", errors="replace").strip(), file.stat().st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refused("read", str(file), error) from error
    if stat.S_IMODE(mode) & 0o077:
        raise DkdbgError(f"other users can read your {what} in {file}", hint=hint, exit_code=EXIT_CONFLICT)
    if not text:
        raise DkdbgError(f"{file} is empty", hint=hint, exit_code=EXIT_CONFLICT)
    return text


def create_private(file: Path, text: str) -> None:
    """Create a file that only its owner may read, and its folder. Raises DkdbgError: it cannot be written."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new:  # noqa: PTH123
            new.write(text)
    except OSError as error:
        raise refused("write", str(file), error) from error


def git_folder(root: Path) -> Path | None:
    """Return the absolute path of git's folder for the checkout that contains `root`; None if it cannot be used.

    In a worktree or submodule, `.git` is a file that names this folder. Believe it only if the folder refers back to
    the file: in an unpacked archive, `.git` may name any of the user's folders.
    """
    for folder in (root, *root.parents):
        found = folder / ".git"
        if os.path.lexists(found):
            break
    else:
        return None
    try:
        if found.is_symlink():
            return None
        if found.is_file():
            named = _text(found).strip().removeprefix("gitdir:").strip()
            target = Path(os.path.realpath(folder / named))
            if not _names(target, found):
                return None
            found = target
        if not (found / "HEAD").is_file() or found.stat().st_uid != root.stat().st_uid:
            return None  # not a repository for git, or owned by another user, such as /tmp/.git
        return found if os.access(found, os.W_OK | os.X_OK) else None
    except (OSError, ValueError):
        return None


def _names(target: Path, git_file: Path) -> bool:
    """Return whether `target`, git's folder of a worktree (`gitdir`) or submodule (core.worktree), names `git_file`."""
    back = target / "gitdir"
    if back.is_file():
        return os.path.realpath(target / _text(back).strip()) == os.path.realpath(git_file)
    for line in _text(target / "config").splitlines():
        name, _, value = line.partition("=")
        if name.strip().lower() == "worktree":
            return os.path.realpath(target / value.strip().strip('"')) == os.path.realpath(git_file.parent)
    return False


def _text(path: Path) -> str:
    """Return the text of a regular file. Raises OSError for a FIFO, which would block, and for other kinds."""
    return read_whole(Path(os.path.realpath(path))).decode("utf-8", errors="replace")
