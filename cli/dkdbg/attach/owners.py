"""Whose process is at the other end of a connection on this machine: loopback is shared by all its users.

Where a system does not tell (macOS tells it only of one's own processes), nobody is kept out here, and `dkdbg attach`
says so.
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
    """Return why the client of an accepted connection is refused, in one line; empty when it is one of ours.

    Raises:
        OSError: it is gone already.
    """
    if not local_users.are_told():
        return ""
    owner = local_users.other_end(client)
    if owner is None or not owner[1]:  # closed already: what is said of its user then is not true
        return "cannot tell which user is at the other end"
    return "" if owner[0] in ours(os.environ) else f"it is a process of {_named(owner[0])}"


def is_ours(server: socket.socket) -> bool:
    """Whether what has, or is about to have, the other end of a connection that we opened is ours, root's, or elsewhere.

    Raises:
        OSError: the connection is gone already.
    """
    if not local_users.are_told():
        return True
    owner = local_users.other_end(server)
    if owner is not None and not owner[1]:  # it waits to be accepted
        owner = local_users.listening(server.getpeername())
        return owner is not None and owner[0] in ours(os.environ)
    return owner is None or owner[0] in ours(os.environ)  # None: on another machine, in a container


def ours(environ: Mapping[str, str]) -> set[int]:
    """Return the users that may do what we may: ourselves, root, and who has become root by sudo."""
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
