"""Opens paths below a local root one component at a time, without following symlinks, even while the tree changes.

A container that mounts a part of the repository can replace a folder with a symlink at any moment: a path that
was checked a moment ago may then lead out of the root. An open descriptor cannot.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING

from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.sync.receiver import tree
from dkdbg.sync.receiver.problems import Refused

if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from pathlib import Path

_WALK = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def local_root(root: Path, folder: str) -> str:
    """Return the real path of a local `folder`, which a target has named relative to the repository's `root`.

    Raises:
        DkdbgError: the folder is outside the repository, or leads out of it by a symlink.
    """
    top = os.path.realpath(root)
    try:
        real = os.path.realpath(os.path.join(top, folder))
    except (ValueError, OSError):
        real = ""
    if real != top and not real.startswith(top.rstrip("/") + "/"):
        raise DkdbgError(
            f"the target reports its code at {os.path.join(top, folder)}, which is outside {top}"
            + (f" (it resolves to {real})" if real else ""),
            hint="to sync this repository, add --to PATH (a folder on the target); to sync another one: dkdbg -C FOLDER sync TARGET --to PATH",
            exit_code=EXIT_USAGE,
        )
    return real


def open_absolute(path: str, *, make: bool = False) -> int:
    """Return a descriptor, for use as dir_fd, of the folder at an absolute path without symlinks (`os.path.realpath`).

    Args:
        make: create missing folders.

    Raises:
        OSError: the folder is missing, or was replaced by a symlink or file (ELOOP, ENOTDIR).
    """
    at = os.open("/", _WALK)
    for part in path.split("/"):
        if not part:
            continue
        try:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=at)
            below = os.open(part, _WALK, dir_fd=at)
        finally:
            os.close(at)
        at = below
    return at


class Beneath:
    """The folders and files below one root.

    All paths are relative to the root, with `/`, and empty for the root itself.

    Args:
        root: absolute, without symlinks.

    Raises:
        OSError: the root cannot be opened. All methods raise OSError, also for a symlink on the way (ELOOP, ENOTDIR).
    """

    def __init__(self, root: str) -> None:
        self._near, self._at = "", -1
        self._tree = tree.Tree(open_absolute(root))

    def __del__(self) -> None:
        if hasattr(self, "_tree"):
            self.forget()
            os.close(self._tree.root)

    def forget(self) -> None:
        """Close the cached parent folder, so that the next call walks from the root again.

        The parent folder of the last path stays open as a cache: the next path is usually in the same folder.
        """
        if self._at >= 0:
            os.close(self._at)
        self._near, self._at = "", -1

    def folder(self, path: str) -> int:
        """Return a new descriptor of a folder, for listing it."""
        above = self._tree.open_folder(_parts(path))
        try:
            return tree.open_below(above, b".")
        finally:
            os.close(above)

    def lstat(self, path: str) -> os.stat_result:
        """Return the lstat of a path."""
        folder, name = self._beside(path)
        return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def open_file(self, path: str) -> int:
        """Return a new descriptor for reading; never block. The caller has to reject pipes and devices."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        kept = self._at >= 0
        folder, name = self._beside(path)
        try:
            return os.open(name, flags, dir_fd=folder)
        except FileNotFoundError:
            if not kept:
                raise
        self.forget()  # the cached folder may have been replaced
        folder, name = self._beside(path)
        return os.open(name, flags, dir_fd=folder)

    def read(self, path: str, limit: int) -> bytes:
        """Return the content of a file of at most `limit` bytes.

        Raises:
            Refused: it is not a regular file, or larger.
        """
        return _content(self.open_file(path), limit)

    def _beside(self, path: str) -> tuple[int, str]:
        """Return a descriptor of the parent folder of `path`, which stays cached, and the name in it."""
        folder, _, name = path.rpartition("/")
        _check(name)
        if self._at < 0 or folder != self._near:
            self.forget()
            self._at, self._near = self._tree.open_folder(_parts(folder)), folder
        return self._at, name


def read_file(path: str, limit: int, *, follow: bool = False) -> bytes:
    """Return the content of the file at any path, of at most `limit` bytes; never block on a pipe.

    Args:
        follow: whether it may be a symlink.

    Raises:
        OSError: it cannot be read. Refused: it is not a regular file, or larger.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    return _content(os.open(path, flags if follow else flags | os.O_NOFOLLOW), limit)


def _content(descriptor: int, limit: int) -> bytes:
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Refused("it is not a regular file")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise Refused(f"it is larger than {limit / 1e6:g} MB", "remove it, or shorten it")
        return data
    finally:
        os.close(descriptor)


def _parts(path: str) -> list[bytes]:
    parts = path.split("/") if path else []
    for part in parts:
        _check(part)
    return [os.fsencode(part) for part in parts]


def _check(part: str) -> None:
    """Reject a path component that is empty, `.` or `..`. Raises OSError."""
    if part in {"", ".", ".."}:
        raise OSError(errno.ENOENT, "not a path below the root", part)


def folders_above(path: str) -> Iterator[str]:
    """Yield the folders above `path`, the nearest first, without the root."""
    at = path.rfind("/")
    while at > 0:
        yield path[:at]
        at = path.rfind("/", 0, at)


def is_within(path: str, places: Container[str]) -> bool:
    """Return whether `path` is one of `places` or below one."""
    while path not in places:
        path, _, _ = path.rpartition("/")
        if not path:
            return "" in places
    return True
