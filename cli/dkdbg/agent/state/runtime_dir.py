"""The runtime folder: a private folder for all files that the agent writes at run time.

In /tmp another user may have created a folder of that name first, with a modified debugpy in it. So the folder is used
only if it is this user's, closed to others, and no other user can replace it. Otherwise a folder with a random name is
created.
"""

from __future__ import annotations

import contextlib
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

#: Environment variable that sets the runtime folder. It is not in settings.py, because every start of the single file
#: loads this module, which therefore imports nothing else of dkdbg.
ENV_RUNTIME_DIR = "DKDBG_RUNTIME_DIR"
#: Candidate folders for temporary files; TMPDIR comes first.
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - what is in them is checked


class RuntimeDirError(Exception):
    """The runtime folder cannot be used; the text explains why."""


def lock(file: int) -> bool:
    """Lock an open file until it is closed; return False if another process holds the lock.

    Raises:
        OSError: the file system has no locks.
    """
    import fcntl  # here, because most starts do not need it

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def default_runtime_dir() -> str:
    """Return the runtime folder's path: DKDBG_RUNTIME_DIR, else /tmp/dkdbg-UID. Nothing is created."""
    return os.environ.get(ENV_RUNTIME_DIR) or "/tmp/%s" % _name()  # noqa: S108


def open_runtime_dir(path: Optional[str] = None) -> str:
    """Create the runtime folder, mode 0700, and return its absolute path.

    If it cannot be written, or others could replace it, create and return one with a random name instead.

    Raises:
        RuntimeDirError: it belongs to another user or is not a folder. A foreign folder could hold a modified
            debugpy.
    """
    wanted = os.path.abspath(path or default_runtime_dir())
    if _is_exchangeable(wanted):
        return temporary_folder(_name())
    try:
        os.makedirs(wanted, mode=0o700)
        if _is_exchangeable(wanted):  # the umask left its new parents writable for others
            return temporary_folder(_name())
    except FileExistsError:
        pass
    except OSError:
        return _fresh(_name())
    info = os.lstat(wanted) if path is None else os.stat(wanted)
    reason = _foreign(info)
    if reason:
        raise RuntimeDirError("%s %s: set %s to a folder that you own" % (wanted, reason, ENV_RUNTIME_DIR))
    try:
        if not _make_private(wanted, info):
            return temporary_folder(_name())
        probe = os.path.join(wanted, ".w%d" % os.getpid())
        os.mkdir(probe)
        os.rmdir(probe)
    except OSError:
        return _fresh(_name())
    return wanted


def folders() -> List[str]:
    """Return the folders that `open_runtime_dir` may have given to this user's agents here, the default first.

    With DKDBG_RUNTIME_DIR, root may name another user's folder, such as a container's.
    """
    usual = default_runtime_dir()
    found = []
    with contextlib.suppress(OSError):
        is_named = bool(os.environ.get(ENV_RUNTIME_DIR))
        info = os.stat(usual) if is_named else os.lstat(usual)
        if not _foreign(info) or (is_named and os.getuid() == 0):
            found.append(usual)
    return found + [each for each in _temporary_ones(_name()) if each != usual]


def private_folder(name: str) -> str:
    """Return a private folder in /tmp of this name, or of a similar name where another user has taken it.

    Raises:
        OSError: no folder for temporary files is writable.
        RuntimeDirError: others could replace what is in each of them.
    """
    wanted = "/tmp/" + name  # noqa: S108 - checked below
    with contextlib.suppress(OSError):
        if not _is_exchangeable(wanted):
            with contextlib.suppress(FileExistsError):
                os.mkdir(wanted, 0o700)
            info = os.lstat(wanted)
            if not _foreign(info) and _make_private(wanted, info):
                return wanted
    return temporary_folder(name)


def temporary_folder(name: str) -> str:
    """Return this user's existing private folder NAME-RANDOM, or a new one. Raises OSError, RuntimeDirError."""
    return next(iter(_temporary_ones(name)), "") or _fresh(name)


def _fresh(name: str) -> str:
    import tempfile

    for base in _temporary():
        if os.access(base, os.W_OK | os.X_OK) and not _is_exchangeable(os.path.join(base, name)):
            return tempfile.mkdtemp(prefix=name + "-", dir=base)
    raise RuntimeDirError(
        "other users may replace files in /tmp: set %s to a folder that you own" % ENV_RUNTIME_DIR
    )


def _name() -> str:
    return "dkdbg-%d" % os.getuid()


def _temporary() -> List[str]:
    own = os.environ.get("TMPDIR", "")
    return ([own] if os.path.isabs(own) and os.path.isdir(own) else []) + list(_TEMPORARY)


def _temporary_ones(name: str) -> List[str]:
    """Return this user's folders that `_fresh` has made, here or in another process."""
    found = []
    for base in dict.fromkeys(_temporary()):
        with contextlib.suppress(OSError):
            names = [each for each in os.listdir(base) if each.startswith(name + "-")]
            for path in sorted(os.path.join(base, each) for each in names):
                info = os.lstat(path)
                private = not _foreign(info) and not info.st_mode & 0o066
                if private and not _is_exchangeable(path):
                    found.append(path)
    return found


def _foreign(info: os.stat_result) -> str:
    """Return why this is not a folder of this user; empty when it is."""
    if not stat.S_ISDIR(info.st_mode):
        return "is not a folder"
    if info.st_uid != os.getuid():
        return "belongs to uid %d, not to uid %d" % (info.st_uid, os.getuid())
    return ""


def _make_private(folder: str, info: os.stat_result) -> bool:
    """Close our folder to others. If others could write to it and have left files in it, leave it and return False.

    Raises:
        OSError: it cannot be closed.
    """
    mode = stat.S_IMODE(info.st_mode)
    was_open = bool(mode & 0o022)
    if was_open and not _is_all_own(folder):
        return False
    if mode & 0o066:  # mode 0711 only lets others pass through to their own folders
        os.chmod(folder, 0o700)
    if was_open and not _is_all_own(folder):
        os.chmod(folder, mode)
        return False
    return True


def _is_all_own(folder: str) -> bool:
    with os.scandir(folder) as entries:
        for entry in entries:
            info = entry.stat(follow_symlinks=False)
            if info.st_uid != os.getuid() or (not entry.is_symlink() and info.st_mode & 0o022):
                return False
    return True


def _is_exchangeable(path: str) -> bool:
    """Tell whether another user than root and ours could replace `path`.

    Such a user owns a folder above it, or can write to one above it that has no sticky bit (/tmp has one).
    """
    # `/` belongs to root, or to an unknown user in a user namespace that does not map root.
    trusted = (0, os.getuid(), os.stat("/").st_uid)
    above = os.path.dirname(path)
    for start in {above, os.path.realpath(above)}:
        each = start
        while True:
            try:
                info = os.lstat(each)
            except OSError:
                info = None  # missing: it will be created
            if info is not None and not _is_safe(info, trusted):
                return True
            if os.path.dirname(each) == each:
                break
            each = os.path.dirname(each)
    return False


def _is_safe(info: os.stat_result, trusted: tuple[int, ...]) -> bool:
    if info.st_uid not in trusted:
        return False
    if stat.S_ISLNK(info.st_mode) or info.st_mode & stat.S_ISVTX:
        return True
    # A group whose id equals its user's is private to that user, and root's group is root's.
    shared = info.st_mode & 0o020 and info.st_gid not in (0, info.st_uid)
    return not (info.st_mode & 0o002 or shared)
