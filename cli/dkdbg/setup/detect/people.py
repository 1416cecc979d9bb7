"""List the other users of this machine, because a user who can log in can connect to a port on 127.0.0.1."""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

from dkdbg.repository import folders

#: Lowest user id of a human user; lower ids belong to services (login.defs: 1000; macOS: 501).
FIRST_UID = 500 if sys.platform == "darwin" else 1000
NOBODY = 65534
_NO_LOGIN = frozenset({"nologin", "false", "true", "sync", "halt", "shutdown", ""})
#: Maximum entries to check in the folder of home directories.
_MAX_HOMES = 2000


def others() -> tuple[str, ...]:
    """Return the names of other users with a home directory here, sorted; the list may be incomplete.

    Users are accounts with a login shell and a home directory, and owners of folders beside this user's home, because a
    directory service (LDAP, SSSD) often lists no accounts. Root does not count. If there is only one user, assume that
    this is the one who runs dkdbg, and return nothing.
    """
    me = os.getuid()
    names = {
        entry.pw_uid: entry.pw_name
        for entry in pwd.getpwall()
        if _is_person(entry.pw_uid)
        and Path(entry.pw_shell).name not in _NO_LOGIN
        and not folders.is_gone(Path(entry.pw_dir))
    }
    for uid in _owners(Path.home().parent):
        if uid not in names:
            names[uid] = _name(uid)
    return tuple(sorted(name for uid, name in names.items() if uid != me)) if len(names) > 1 else ()


def _is_person(uid: int) -> bool:
    return FIRST_UID <= uid < NOBODY or uid > NOBODY + 1


def _owners(homes: Path) -> set[int]:
    if homes == Path("/"):  # the folders beside root's home are /usr, /var and so on
        return set()
    found: set[int] = set()
    try:
        with os.scandir(homes) as entries:
            for count, entry in enumerate(entries):
                if count >= _MAX_HOMES:
                    break
                if entry.is_dir(follow_symlinks=False):
                    found.add(entry.stat(follow_symlinks=False).st_uid)
    except OSError:
        return set()
    return {uid for uid in found if _is_person(uid)}


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
