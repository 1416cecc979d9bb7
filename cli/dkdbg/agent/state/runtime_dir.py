"""The runtime folder: private, for everything that the agent keeps beside a program.

In /tmp anybody may have made a folder of any name before us, with a debugpy of his in it. A folder is used when it is
ours alone and nobody else can put another one in its place; else one is made that nobody could foresee.
"""

from __future__ import annotations

import contextlib
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

#: Names another runtime folder. Every start of the single file passes here: this module imports nothing else of ours.
ENV_RUNTIME_DIR = "DKDBG_RUNTIME_DIR"
#: Where a folder for temporary files may be, the user's own choice first.
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - what is in them is checked


class RuntimeDirError(Exception):
    """The runtime folder cannot be used, with the reason in plain words."""


def default_runtime_dir() -> str:
    """Return the runtime folder's path: DKDBG_RUNTIME_DIR, else /tmp/dkdbg-UID. Nothing is created."""
    return os.environ.get(ENV_RUNTIME_DIR) or "/tmp/%s" % _name()  # noqa: S108


def open_runtime_dir(path: Optional[str] = None) -> str:
    """Create the runtime folder, mode 0700, and return its absolute path.

    One that cannot be written, or that others could exchange, is replaced by one with a name that nobody foresees.

    Raises:
        RuntimeDirError: it belongs to somebody else or is no folder. A foreign folder could hand us a changed debugpy
            to run.
    """
    wanted = os.path.abspath(path or default_runtime_dir())
    if _is_exchangeable(wanted):
        return temporary_folder(_name())
    try:
        os.makedirs(wanted, mode=0o700)
        if _is_exchangeable(wanted):  # the umask left those above it open
            return temporary_folder(_name())
    except FileExistsError:
        pass
    except OSError:
        return _fresh(_name())
    info = os.lstat(wanted) if path is None else os.stat(wanted)
    reason = _foreign(info)
    if reason:
        raise RuntimeDirError("%s %s: set %s to a folder of yours" % (wanted, reason, ENV_RUNTIME_DIR))
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
    """Return the folders that `open_runtime_dir` may have returned to agents of ours here, the usual one first.

    One that the user has named may be another's when we are root: he looks into a container.
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
    """Return a private folder of ours in /tmp, of this name or, where somebody else has taken it, of one like it.

    Raises:
        OSError: there is no folder for temporary files that can be written.
        RuntimeDirError: others could exchange what is in each of them.
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
    """Return the private folder NAME-RANDOM of ours that there is already, or a new one.

    Raises:
        OSError, RuntimeDirError: see `private_folder`.
    """
    return next(iter(_temporary_ones(name)), "") or _fresh(name)


def _fresh(name: str) -> str:
    import tempfile

    for base in _temporary():
        if os.access(base, os.W_OK | os.X_OK) and not _is_exchangeable(os.path.join(base, name)):
            return tempfile.mkdtemp(prefix=name + "-", dir=base)
    raise RuntimeDirError(
        "everybody here may exchange what is in /tmp: set %s to a folder of yours" % ENV_RUNTIME_DIR
    )


def _name() -> str:
    return "dkdbg-%d" % os.getuid()


def _temporary() -> List[str]:
    own = os.environ.get("TMPDIR", "")
    return ([own] if os.path.isabs(own) and os.path.isdir(own) else []) + list(_TEMPORARY)


def _temporary_ones(name: str) -> List[str]:
    """Folders of ours that `_fresh` has made, or somebody like us."""
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
    """Why this is no folder of ours, empty when it is one."""
    if not stat.S_ISDIR(info.st_mode):
        return "is not a folder"
    if info.st_uid != os.getuid():
        return "belongs to uid %d, not to us (%d)" % (info.st_uid, os.getuid())
    return ""


def _make_private(folder: str, info: os.stat_result) -> bool:
    """Close our folder to others; False when one of them could write before and has left something there.

    Then it stays as it is: it may be a folder that people share.

    Raises:
        OSError: it cannot be closed.
    """
    mode = stat.S_IMODE(info.st_mode)
    was_open = bool(mode & 0o022)
    if was_open and not _is_all_ours(folder):
        return False
    if mode & 0o066:  # with 0711 others only pass through, to folders that are theirs
        os.chmod(folder, 0o700)
    if was_open and not _is_all_ours(folder):
        os.chmod(folder, mode)
        return False
    return True


def _is_all_ours(folder: str) -> bool:
    with os.scandir(folder) as entries:
        for entry in entries:
            info = entry.stat(follow_symlinks=False)
            if info.st_uid != os.getuid() or (not entry.is_symlink() and info.st_mode & 0o022):
                return False
    return True


def _is_exchangeable(path: str) -> bool:
    """Tell whether a user other than root and us could put something else in the place of `path`.

    He could where he owns a folder above it, or may write to one that has not the sticky bit, which /tmp has.
    """
    # `/` is root's, or, in a user namespace without root, nobody's that we know.
    trusted = (0, os.getuid(), os.stat("/").st_uid)
    above = os.path.dirname(path)
    for start in {above, os.path.realpath(above)}:
        each = start
        while True:
            try:
                info = os.lstat(each)
            except OSError:
                info = None  # will be made, by us
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
    # A group that is called by the number of its only member is his own, and root's group is root's.
    shared = info.st_mode & 0o020 and info.st_gid not in (0, info.st_uid)
    return not (info.st_mode & 0o002 or shared)
