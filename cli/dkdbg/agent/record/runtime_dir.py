"""The runtime folder: private, for everything that the agent keeps beside a program."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

#: Names another runtime folder. Every start of the single file passes here: this module imports nothing else of ours.
ENV_RUNTIME_DIR = "DKDBG_RUNTIME_DIR"


class RuntimeDirError(Exception):
    """The runtime folder cannot be used, with the reason in plain words."""


def default_runtime_dir() -> str:
    """Return the runtime folder's path: DKDBG_RUNTIME_DIR, else /tmp/dkdbg-UID. Nothing is created."""
    return os.environ.get(ENV_RUNTIME_DIR) or "/tmp/dkdbg-%d" % os.getuid()  # noqa: S108


def open_runtime_dir(path: Optional[str] = None) -> str:
    """Create the runtime folder, mode 0700, and return its absolute path.

    A folder that cannot be written is replaced by a new temporary one.

    Raises:
        RuntimeDirError: it exists and belongs to somebody else, or it is no folder. A foreign folder could hand
            us a changed debugpy to run.
    """
    wanted = os.path.abspath(path or default_runtime_dir())
    try:
        os.makedirs(wanted, mode=0o700)
    except FileExistsError:
        pass
    except OSError:
        return _temporary_runtime_dir()
    info = os.lstat(wanted) if path is None else os.stat(wanted)
    if not stat.S_ISDIR(info.st_mode):
        raise RuntimeDirError("%s is not a folder: set %s to another place" % (wanted, ENV_RUNTIME_DIR))
    if info.st_uid != os.getuid():
        raise RuntimeDirError(
            "%s belongs to uid %d, not to us (%d): set %s to a folder of yours"
            % (wanted, info.st_uid, os.getuid(), ENV_RUNTIME_DIR)
        )
    try:
        if stat.S_IMODE(info.st_mode) != 0o700:
            os.chmod(wanted, 0o700)
        probe = os.path.join(wanted, ".w%d" % os.getpid())
        os.mkdir(probe)
        os.rmdir(probe)
    except OSError:
        return _temporary_runtime_dir()
    return wanted


def _temporary_runtime_dir() -> str:
    import tempfile

    return tempfile.mkdtemp(prefix="dkdbg-%d-" % os.getuid())
