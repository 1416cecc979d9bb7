"""Drops from root to the owner of the mounted workspace, so that the program's files belong to the developer.

A checked-in compose file cannot know each developer's uid, and compose sees no $UID (bash does not export it). The
mount shows it: its owner in the container is the developer, even where a rootless engine maps the uid to 0.
"""

from __future__ import annotations

import contextlib
import os

from dkdbg.agent.state import runtime_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ctypes import CDLL
    from typing import MutableMapping, Optional

#: Environment variables: the path in the container whose owner the agent becomes; the user that the program runs as
#: without dkdbg, and whose home it has; a copy of settings.ENV_OWN_CONTAINER, because settings.py must not be imported
#: before the agent is unpacked.
OWNER_ENV, HOME_ENV, OWN_CONTAINER_ENV = "DKDBG_OWNER", "DKDBG_HOME_OF", "DKDBG_OWN_CONTAINER"
#: Root's rights on other users' files, bits 0 to 4 (linux/capability.h): CAP_CHOWN, CAP_DAC_OVERRIDE,
#: CAP_DAC_READ_SEARCH, CAP_FOWNER and CAP_FSETID; and the subset, second and third, that only allows to read and write.
#: A program that does not run as root without dkdbg gets only those: with the others it could leave a setuid file of
#: root's in a mount.
_FILE_RIGHTS, _ACCESS_RIGHTS = 0b11111, 0b00110
#: PR_SET_KEEPCAPS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE (linux/prctl.h), _LINUX_CAPABILITY_VERSION_3.
_KEEP_CAPS, _AMBIENT, _RAISE, _VERSION = 8, 47, 2, 0x20080522
#: PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP: makes access(2), and so os.access, respect the rights that a user keeps.
_SECUREBITS, _NO_SETUID_FIXUP = 28, 1 << 2


def become_owner(environ: MutableMapping[str, str]) -> None:
    """If we are root and `$DKDBG_OWNER` is another user's, become that user. Changes `environ`, which is os.environ.

    In a container that is there for the program alone, keep root's rights on files: without dkdbg the program could
    write into volumes, /var/log and /root, which belong to root or to the image's user. New files belong to the owner
    all the same.

    Keep the supplementary groups (compose's group_add grants access to GPU device files), but not root's own group.
    Change HOME if the user cannot write to it, because torch, pip and Hugging Face have their caches there. Set USER,
    because getpass.getuser() raises KeyError for a uid without a passwd entry.
    """
    path = environ.get(OWNER_ENV)
    if not path or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return
    try:
        status = os.stat(path)
    except OSError:
        return
    if status.st_uid == 0:
        _is_home(environ)
        return
    libc = _libc() if environ.get(OWN_CONTAINER_ENV) == "1" else None
    groups = sorted({group for group in os.getgroups() if group != 0} | {status.st_gid})
    try:
        os.setgroups(groups)
        os.setgid(status.st_gid)
        if libc is not None:
            libc.prctl(_KEEP_CAPS, 1, 0, 0, 0)
            libc.prctl(
                _SECUREBITS, 1 << 4 | _NO_SETUID_FIXUP, 0, 0, 0
            )  # 1 << 4 (SECBIT_KEEP_CAPS): set by _KEEP_CAPS
        os.setuid(status.st_uid)
    except OSError:
        # Without CAP_SETUID (cap_drop: ALL) the program runs as root, as it would without dkdbg.
        return
    rights = _FILE_RIGHTS if environ.get(HOME_ENV) in ("0", "root") else _ACCESS_RIGHTS
    keeps_home = libc is not None and _keep_rights(rights, libc) and _is_home(environ)
    _give_home(environ, status.st_uid, keeps=keeps_home)


def _libc() -> Optional[CDLL]:
    with contextlib.suppress(ImportError, OSError, AttributeError):  # a Python without ctypes
        import ctypes

        libc = ctypes.CDLL(None)
        _ = libc.capget, libc.capset, libc.prctl
        return libc
    return None


def _keep_rights(rights: int, libc: CDLL) -> bool:
    """Keep those of these rights that the container has, across exec too; return whether any are kept."""
    import ctypes

    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable of the bits 0 to 31, and of 32 to 63
    if libc.capget(header, sets):
        return False
    kept = sets[1] & rights
    if libc.capset(header, (ctypes.c_uint32 * 6)(kept, kept, kept)):
        return False
    ambient = [libc.prctl(_AMBIENT, _RAISE, bit, 0, 0) for bit in range(32) if kept >> bit & 1]
    return bool(ambient) and not any(ambient)


def _is_home(environ: MutableMapping[str, str]) -> bool:
    """Set HOME to its value without dkdbg; return False where that is unknown."""
    user = environ.get(HOME_ENV, "")
    with contextlib.suppress(ImportError, KeyError, ValueError):  # int() refuses `²`
        import pwd

        entry = pwd.getpwuid(int(user)) if user.isdigit() else pwd.getpwnam(user)
        # Replace root's HOME, set only because the debug service starts as root; keep a HOME from the image's ENV.
        if environ.get("HOME", "/root") in ("/root", "/", ""):
            environ["HOME"] = entry.pw_dir
        return True
    return False


def _give_home(environ: MutableMapping[str, str], uid: int, *, keeps: bool) -> None:
    home, name = None, "dkdbg"
    try:
        import pwd

        entry = pwd.getpwuid(uid)
        home, name = entry.pw_dir, entry.pw_name
    except (ImportError, KeyError):
        pass
    current = environ.get("HOME", "/root")
    if not keeps and (current in ("/root", "/", "") or not os.access(current, os.W_OK)):
        if home is None or not os.access(home, os.W_OK):
            try:
                home = runtime_dir.private_folder("dkdbg-home-%d" % uid)
            except (OSError, runtime_dir.RuntimeDirError):
                return
        environ["HOME"] = home
    environ.setdefault("USER", name)
    environ.setdefault("LOGNAME", name)
