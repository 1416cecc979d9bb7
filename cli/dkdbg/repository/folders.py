"""The folders of a repository, entered from its root step by step: no symbolic link is followed, git's own is not entered.

What is written, renamed or removed goes by the descriptor of a folder that is open, so that whoever puts a link in its
place meanwhile changes nothing: a link of the repository may lead to a folder of hooks that git runs.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg.errors import EXIT_CONFLICT, DkdbgError
from dkdbg.repository import git

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

_HINTS = {
    errno.EROFS: "The file system is mounted read-only: work in a writable copy.",
    errno.ENOSPC: "Free some space on that disk, then try again.",
    errno.EDQUOT: "Your quota on that disk is used up: free some space, then try again.",
    errno.EACCES: "Give yourself permission for it (ls -ld shows who owns it), then try again.",
    errno.EPERM: "Give yourself permission for it (ls -ld shows who owns it), then try again.",
}
_HERE = PurePosixPath(".")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Bytes of a file that we read whole; the largest of ours is the agent's with 6 MB.
READ_LIMIT = 64 << 20


def checked(text: str | PurePosixPath) -> PurePosixPath:
    """Return the path that `text` is, which may come with the repository: one inside of it, and not git's own.

    Raises:
        DkdbgError: it is another one.
    """
    path = PurePosixPath(text)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in str(path):
        raise DkdbgError(f"{path} is not a path inside the repository")
    if any(git.folded(part) in git.FOLDERS for part in path.parts):
        raise DkdbgError(
            f"{path} lies in a folder of git's own",
            hint="dkdbg writes nothing there, because git runs what it finds: name another place",
            exit_code=EXIT_CONFLICT,
        )
    return path


def refused(verb: str, path: PurePosixPath | str, error: OSError) -> DkdbgError:
    """Return what a failed system call means for the user; `verb` is what was tried with `path`."""
    hint = _HINTS.get(error.errno or 0, "")
    return DkdbgError(f"cannot {verb} {path}: {error.strerror or error}", hint=hint)


class Folder:
    """An open folder; names in it are single names. Methods raise OSError."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def at(cls, root: Path, path: PurePosixPath = _HERE) -> Folder:
        """Open the folder `path` below `root`, which is absolute and no link itself.

        Raises:
            DkdbgError: a link or a file is on the way.
            OSError: a folder is missing, or may not be opened.
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
        """Close it; once more is no harm."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def status(self, name: str) -> os.stat_result | None:
        """What lies there, itself and not what a link names; None when nothing does."""
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def kind(self, name: str) -> str | None:
        """What lies there in words, None when nothing does."""
        status = self.status(name)
        if status is None:
            return None
        kinds = {stat.S_IFREG: "a file", stat.S_IFDIR: "a directory", stat.S_IFLNK: "a symbolic link"}
        return kinds.get(stat.S_IFMT(status.st_mode), "no regular file")

    def write_new(
        self,
        name: str,
        data: bytes,
        mode: int | None = None,
        owner: tuple[int, int] | None = None,
        times: tuple[int, int] | None = None,
    ) -> None:
        """Create a file, on the disk when this returns.

        Args:
            name: in this folder, where nothing lies yet.
            data: all of its bytes.
            mode: permission bits; None leaves them to the umask.
            owner: user and group id.
            times: of the last access and change, in ns.
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

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a regular file; None when there is none, and for a link."""
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=self.descriptor)
        except OSError as error:
            if error.errno in {errno.ENOENT, errno.ELOOP}:
                return None
            raise
        return _whole(descriptor)

    def restore(self, name: str, *, mode: int, mtime_ns: int) -> None:
        """Give a regular file its permission bits and its time of change."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=self.descriptor)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.fchmod(descriptor, mode)
                os.utime(descriptor, ns=(mtime_ns, mtime_ns))
        finally:
            os.close(descriptor)

    def replace(self, old: str, new: str) -> None:
        """Rename, over what lies at `new`; a link there is replaced, not followed."""
        os.replace(old, new, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def link(self, old: str, new: str) -> None:
        """One more name for a file."""
        os.link(old, new, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor, follow_symlinks=False)

    def remove(self, name: str) -> None:
        """Remove a file or link; nothing happens when there is none."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)

    def make(self, name: str) -> None:
        """Make a folder."""
        os.mkdir(name, dir_fd=self.descriptor)

    def remove_folder(self, name: str) -> None:
        """Remove an empty folder; a link there is not followed."""
        os.rmdir(name, dir_fd=self.descriptor)

    def sync(self) -> None:
        """Bring renames to the disk; file systems that cannot do that for a folder are let off."""
        with contextlib.suppress(OSError):
            os.fsync(self.descriptor)


def obstacle(path: PurePosixPath, kind: str | None) -> DkdbgError:
    """Return the error for what lies in the way at `path`; `kind` as `Folder.kind` has it."""
    if kind == "a symbolic link":
        hint = "dkdbg does not write through links, which may lead anywhere: put a real file or folder there"
    else:
        hint = f"Move {path} away, then try again."
    return DkdbgError(f"cannot write {path}: it is {kind}", hint=hint, exit_code=EXIT_CONFLICT)


def read_whole(path: Path) -> bytes:
    """Return the bytes of a regular file; `path` is no link any more.

    Raises:
        OSError: it cannot be read, is something else, or is larger than READ_LIMIT.
    """
    return _whole(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))


def _whole(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        data = file.read(READ_LIMIT + 1)
    if len(data) > READ_LIMIT:
        raise OSError(errno.EFBIG, f"it is larger than {READ_LIMIT >> 20} MB")
    return data
