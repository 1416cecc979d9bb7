"""Finds the owner of the other end of a local connection: all users of a machine share loopback.

Where the system does not tell (macOS does only for the user's own processes), all are accepted, and `dkdbg attach`
warns.
"""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING

from dkdbg.agent.proxy.listener import local_users

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping


def refusal(client: socket.socket) -> str:
    """Return why the client of an accepted connection is refused, in one line; empty if it is trusted.

    Raises:
        OSError: it is closed already.
    """
    if not local_users.reports_owners():
        return ""
    owner = local_users.other_end(client)
    if owner is None or not owner[1]:  # closed already, so that the reported user is wrong
        return "cannot tell which user is at the other end"
    return "" if owner[0] in ours(os.environ) else f"it is a process of {_named(owner[0])}"


def is_ours(server: socket.socket) -> bool:
    """Tell whether the server of a connection is this user's, root's, or on another machine.

    Raises:
        OSError: the connection is closed already.
    """
    if not local_users.reports_owners():
        return True
    owner = local_users.other_end(server)
    if owner is not None and not owner[1]:  # not accepted yet
        owner = local_users.listening(server.getpeername())
        return owner is not None and owner[0] in ours(os.environ)
    return owner is None or owner[0] in ours(os.environ)  # None: on another machine, in a container


def ours(environ: Mapping[str, str]) -> set[int]:
    """Return the trusted uids: our own, root, and the caller of sudo."""
    known = {0, os.getuid()}
    before = environ.get("SUDO_UID", "")
    if os.getuid() == 0 and before.isascii() and before.isdigit() and len(before) < 11:
        known.add(int(before))
    return known


def _named(uid: int) -> str:
    try:
        return f"another user of this machine ({pwd.getpwuid(uid).pw_name})"
    except KeyError:
        return f"another user of this machine (uid {uid})"
