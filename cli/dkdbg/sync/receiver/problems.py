"""Errors that refuse an operation or end the stream, and explanations of OSErrors."""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple


class SyncError(Exception):
    """An error to report to the host, with a reason and a hint for the user."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


class Refused(SyncError):  # noqa: N818 - FAILED in the stream, not a bug
    """One operation failed; it changed nothing, and the stream continues."""


class Fatal(SyncError):  # noqa: N818 - ERROR in the stream
    """Error that ends the stream, unlike Refused."""


class CutError(Exception):
    """The stream was cut, and the host should connect again. The text is one line.

    No ERROR frame is sent: the host would take it for a refusal, and not connect again.
    """


_SPACE = "make room on the target; sync sends the file again within a minute, or at its next start"
_WORDS = {
    errno.ENOSPC: ("no space left on the target's file system", _SPACE),
    errno.EROFS: ("the target's file system is read-only", "mount the workspace writable, or sync elsewhere"),
    errno.ENAMETOOLONG: ("the name is too long for the target's file system", ""),
    errno.ENOTDIR: ("a symlink, or something that is not a folder, is where a folder should be", ""),
    errno.ELOOP: ("a symlink is where a folder should be; sync does not write through symlinks", ""),
    errno.ENOENT: ("the entry, or a folder above it, is missing", ""),
    errno.EISDIR: ("a folder is in the way", ""),
    errno.ENOTEMPTY: ("a non-empty folder is in the way", ""),
    errno.EXDEV: (
        "a mounted folder of another file system is in the way",
        "unmount or move it on the target",
    ),
    errno.EBUSY: (
        "it is a mount point on the target, or in use",
        "leave it out with [sync] ignore in dkdbg.toml",
    ),
    errno.EMFILE: ("too many open files in the receiver", ""),
    errno.EINVAL: ("the target's file system does not allow this name or value", ""),
    errno.EILSEQ: ("the target's file system requires names in UTF-8", ""),
}
if hasattr(errno, "EDQUOT"):
    _WORDS[errno.EDQUOT] = ("the disk quota on the target is used up", _SPACE)


def explain(error: OSError) -> Tuple[str, str]:
    """Return reason and hint for an operation's OSError."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return (
            "no permission: sync runs as %s on the target" % user_name(os.geteuid()),
            "give the folder to that user, or run sync as its owner",
        )
    reason, hint = _WORDS.get(error.errno or 0, ("", ""))
    return reason or "%s" % (error.strerror or error), hint


def unwritable(root: str, info: os.stat_result, error: OSError) -> Fatal:
    """Return the error for a root in which sync cannot create `.dkdbg-sync/`."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return Fatal(
            "%s is not writable: it belongs to %s, mode %04o, and sync runs as %s"
            % (root, user_name(info.st_uid), stat.S_IMODE(info.st_mode), user_name(os.geteuid())),
            "give the folder to that user (chown), or run sync as its owner",
        )
    if error.errno == errno.EROFS:
        return Fatal(
            "%s is on a read-only file system" % root,
            "mount a writable volume at that path, or sync to another folder (dkdbg sync: --to PATH)",
        )
    reason, hint = explain(error)
    return Fatal("sync cannot write to %s: %s" % (root, reason), hint)


def user_name(uid: int) -> str:
    """Return `uid 1000 (alice)`, without the name if the target does not know it."""
    name = login_name(uid)
    return "uid %d (%s)" % (uid, name) if name else "uid %d" % uid


def login_name(uid: int) -> str:
    """Return the user's name; empty if the target does not know it."""
    try:
        import pwd

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):
        return ""
