"""Operations below one directory descriptor that follow no symlink, even while the tree changes.

Every call walks from the root with openat(O_NOFOLLOW), one component at a time. Descriptors are not cached between
calls. To detect that a cached folder was moved out of the root, every component would have to be checked, which costs
as much as opening it (1.9 against 2.1 microseconds on Linux 6.18).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat

from dkdbg.sync.receiver.problems import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional, Sequence, Tuple

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: O_PATH suffices to walk through a folder. Without it, overlayfs would open the folder twice.
_WALK = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: O_NONBLOCK, because a pipe may have the name of an expected file, and opening it would block.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

#: Escape sequence for space, tab, line end and backslash in /proc/self/mountinfo (proc(5)).
_ESCAPED = re.compile(rb"\\([0-7]{3})")

#: Permissions that every folder keeps for its owner: without them sync itself could not write in it.
OWNER_RIGHTS = 0o700


class Tree:
    """The root, and the owner of new files in it.

    Attributes:
        root: directory descriptor.
        owner: (uid, gid) for new files if the receiver runs as root and the root folder belongs to another user; else
            None.
    """

    def __init__(self, root: int) -> None:
        self.root = root
        info = os.fstat(root)
        self.owner: Optional[Tuple[int, int]] = None
        if os.geteuid() == 0 and (info.st_uid, info.st_gid) != (0, 0):
            self.owner = (info.st_uid, info.st_gid)

    def open_folder(self, parts: Sequence[bytes]) -> int:
        """Return a new descriptor of a folder, only for use as dir_fd.

        Raises:
            OSError: a component is missing (ENOENT), or is not a folder (ENOTDIR, ELOOP).
        """
        if not parts:
            return os.dup(self.root)
        at = self.root
        try:
            for part in parts:
                below = os.open(part, _WALK, dir_fd=at)
                if at != self.root:
                    os.close(at)
                at = below
        except BaseException:
            if at != self.root:
                os.close(at)
            raise
        return at

    def lstat(self, parts: Sequence[bytes]) -> Optional[os.stat_result]:
        """Return lstat of a path, None when it or a folder above it is missing."""
        try:
            folder = self.open_folder(parts[:-1])
        except OSError as error:
            if is_absent(error):
                return None
            raise
        try:
            return lstat_at(folder, parts[-1])
        finally:
            os.close(folder)

    def own(self, descriptor: int) -> None:
        """chown an open file or folder to `owner`; without CAP_CHOWN, leave this and all later ones unchanged."""
        if self.owner is not None:
            try:
                os.fchown(descriptor, self.owner[0], self.owner[1])
            except PermissionError:
                self.owner = None

    def make_folder(self, folder: int, name: bytes, mode: int) -> None:
        """Create a folder in the open folder `folder`.

        In a setgid folder the new folder is setgid too, so that everything below has the same group.
        """
        os.mkdir(name, 0o700 if self.owner else mode | OWNER_RIGHTS, dir_fd=folder)
        made = os.open(name, _DIRECTORY, dir_fd=folder)
        try:
            self.own(made)
            info = os.fstat(made)
            if info.st_mode & 0o777 != mode | OWNER_RIGHTS:
                os.fchmod(made, mode | OWNER_RIGHTS | (info.st_mode & stat.S_ISGID))
        finally:
            os.close(made)

    def make_link(self, folder: int, name: bytes, target: bytes) -> None:
        """Make a symlink in an open folder."""
        if self.owner is None:
            os.symlink(target, name, dir_fd=folder)
            return
        group = os.getegid()
        # Create it with the owner's ids: a symlink has no descriptor to chown, and chown by name may meet another entry.
        try:
            os.setegid(self.owner[1])
            os.seteuid(self.owner[0])
            os.symlink(target, name, dir_fd=folder)
        except PermissionError:
            os.seteuid(0)
            os.symlink(target, name, dir_fd=folder)
        finally:
            os.seteuid(0)
            os.setegid(group)


def lstat_at(folder: int, name: bytes) -> Optional[os.stat_result]:
    """Return lstat of a name in an open folder, None when it is missing."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def open_file(folder: int, name: bytes) -> int:
    """Return a descriptor of a regular file for reading. Raises OSError and Refused."""
    descriptor = os.open(name, _READ, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Refused("it is not a regular file on the target")
    return descriptor


def names(folder: int) -> List[bytes]:
    """Return the names in a folder, in order. Raises OSError when it is unreadable."""
    readable = os.open(b".", _DIRECTORY, dir_fd=folder)
    try:
        return sorted(os.fsencode(name) for name in os.listdir(readable))
    finally:
        os.close(readable)


def create_file(folder: int, name: bytes, mode: int = 0o600) -> int:
    """Create a file; return its descriptor, which can be written even if `mode` is read-only.

    Raises OSError, for example if the file exists.
    """
    return os.open(name, _CREATE, mode, dir_fd=folder)


def open_below(folder: int, name: bytes) -> int:
    """Return a descriptor of a subfolder of the open `folder`. Raises OSError if it is missing or a symlink."""
    return os.open(name, _DIRECTORY, dir_fd=folder)


def remove(folder: int, name: bytes) -> None:
    """Remove a file or symlink, if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def kind_of(info: os.stat_result) -> str:
    """Return `f`, `d` or `l`; empty for pipes, sockets and devices, which sync does not copy."""
    if stat.S_ISREG(info.st_mode):
        return "f"
    if stat.S_ISDIR(info.st_mode):
        return "d"
    return "l" if stat.S_ISLNK(info.st_mode) else ""


def is_absent(error: OSError) -> bool:
    """Return whether the error means that the path does not exist without following a symlink."""
    return error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def may_pass(error: OSError) -> bool:
    """Return whether repeating an operation may help, because another process replaced a folder between its steps."""
    return is_absent(error) or error.errno == errno.EISDIR


def mounts_below(folder: bytes) -> List[bytes]:
    """Return the mount points below a folder, relative to it; none where there is no /proc (macOS).

    Args:
        folder: absolute, without symlinks.
    """
    start = folder + b"/"
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            points = {
                _ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), line.split(b" ")[4]) for line in file
            }
    except OSError:
        return []
    return sorted(point[len(start) :] for point in points if point.startswith(start))


def signature(info: os.stat_result) -> Tuple[int, ...]:
    """Return values of a stat that change whenever the content changes: size, times, inode."""
    return (info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino)
