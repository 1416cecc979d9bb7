"""Drops from root to the owner of the mounted workspace, so that the program's files belong to the developer.

A checked-in compose file cannot know a teammate's uid, and compose sees no $UID (bash does not export it).
The mount does: its owner in the container is the developer, whatever the uid, also where a rootless engine
maps it to 0.
"""

from __future__ import annotations

import os

from dkdbg.agent.state import runtime_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import MutableMapping

#: Environment variable with the path in the container whose owner the agent becomes.
OWNER_ENV = "DKDBG_OWNER"


def become_owner(environ: MutableMapping[str, str]) -> None:
    """Become the owner of `$DKDBG_OWNER` when we are root and it belongs to another user; else do nothing.

    Supplementary groups are kept (compose's group_add gives a GPU's device files), root's own group is not.
    HOME is moved when the user cannot write to it, because caches of torch, pip and Hugging Face go there;
    USER is set because getpass.getuser() raises KeyError for a uid without a passwd entry.

    Args:
        environ: os.environ, changed in place.
    """
    path = environ.get(OWNER_ENV)
    if not path or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return
    try:
        status = os.stat(path)
    except OSError:
        return
    if status.st_uid == 0:
        return
    groups = sorted({group for group in os.getgroups() if group != 0} | {status.st_gid})
    try:
        os.setgroups(groups)
        os.setgid(status.st_gid)
        os.setuid(status.st_uid)
    except OSError:
        # Without CAP_SETUID (cap_drop: ALL) the program runs as root, as it would without dkdbg.
        return
    _give_home(environ, status.st_uid)


def _give_home(environ: MutableMapping[str, str], uid: int) -> None:
    home, name = None, "dkdbg"
    try:
        import pwd

        entry = pwd.getpwuid(uid)
        home, name = entry.pw_dir, entry.pw_name
    except (ImportError, KeyError):
        pass
    current = environ.get("HOME", "/root")
    if current in ("/root", "/", "") or not os.access(current, os.W_OK):
        if home is None or not os.access(home, os.W_OK):
            try:
                home = runtime_dir.private_folder("dkdbg-home-%d" % uid)
            except (OSError, runtime_dir.RuntimeDirError):
                return
        environ["HOME"] = home
    environ.setdefault("USER", name)
    environ.setdefault("LOGNAME", name)
