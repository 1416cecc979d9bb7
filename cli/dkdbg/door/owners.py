"""Whose process is at the other end of a connection on this machine: loopback is shared by all its users.

Linux tells it in /proc/net/tcp, also of other users' processes. Where there is no such table (macOS tells it only of
one's own processes), nobody is kept out here, and `dkdbg attach` says so.
"""

from __future__ import annotations

import ipaddress
import os
import pwd
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Mapping

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTEN = "0A"


@dataclass(frozen=True)
class _Row:
    """One socket: its state as two hexadecimal digits, its user, and its inode, 0 when no process has it."""

    state: str
    uid: int
    inode: int


def are_told() -> bool:
    """Whether this system tells whose connections there are."""
    return _TABLES[0].exists()


def refusal(client: socket.socket) -> str:
    """Return why the client of an accepted connection is refused, in one line; empty when it is one of ours.

    Raises:
        OSError: it is gone already.
    """
    if not are_told():
        return ""
    row = next(_rows(client.getpeername(), client.getsockname()), None)
    if row is None or not row.inode:  # closed already: what is said of its user then is not true
        return "the user at the other end cannot be told"
    return "" if row.uid in ours(os.environ) else f"it is a process of {_named(row.uid)}"


def is_ours(server: socket.socket) -> bool:
    """Whether what has, or is about to have, the other end of a connection that we opened is ours, root's, or elsewhere.

    Raises:
        OSError: the connection is gone already.
    """
    if not are_told():
        return True
    theirs = server.getpeername()
    row = next(_rows(theirs, server.getsockname()), None)
    if row is None:  # on another machine, in a container
        return True
    if not row.inode:  # it waits to be accepted
        listening = [each for each in _rows(theirs, None) if each.state == _LISTEN]
        return bool(listening) and listening[0].uid in ours(os.environ)
    return row.uid in ours(os.environ)


def ours(environ: Mapping[str, str]) -> set[int]:
    """Return the users that may do what we may: ourselves, root, and who has become root by sudo."""
    known = {0, os.getuid()}
    before = environ.get("SUDO_UID", "")
    if os.getuid() == 0 and before.isascii() and before.isdigit() and len(before) < 11:
        known.add(int(before))
    return known


def _rows(local: tuple[Any, ...], remote: tuple[Any, ...] | None) -> Iterator[_Row]:
    """Find sockets of this network namespace by their own address and the other end's.

    Args:
        remote: None for listening ones; those of this very address come first.
    """
    locals_ = list(_written(local))
    if remote is None:
        anywhere = f"{local[1]:04X}"
        locals_ += [f"00000000:{anywhere}", f"{'0' * 32}:{anywhere}"]
        needles = [f": {each} " for each in locals_]
    else:
        needles = [f": {own} {other} " for own, other in zip(locals_, _written(remote), strict=True)]
    tables = [_read(table) for table in _TABLES]
    for needle in needles:
        for table in tables:
            begin = table.find(needle)
            while begin >= 0:
                fields = table[begin + 2 : table.find("\n", begin)].split()
                yield _Row(fields[2], int(fields[6]), int(fields[8]))
                begin = table.find(needle, begin + 1)


def _written(address: tuple[Any, ...]) -> tuple[str, str] | tuple[str]:
    """Return an address as the tables have it; one of IPv4 also as a socket for both families has it."""
    found, port = ipaddress.ip_address(str(address[0]).partition("%")[0]), f"{int(address[1]):04X}"
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if isinstance(found, ipaddress.IPv6Address):
        return (f"{_words(found.packed)}:{port}",)
    mapped = b"\0" * 10 + b"\xff\xff" + found.packed
    return f"{_words(found.packed)}:{port}", f"{_words(mapped)}:{port}"


def _words(packed: bytes) -> str:
    """The kernel prints an address as 32-bit numbers of this machine's byte order."""
    return "".join(f"{each:08X}" for each in struct.unpack(f"={len(packed) // 4}I", packed))


def _read(table: Path) -> str:
    try:
        return table.read_text("ascii")
    except OSError:
        return ""


def _named(uid: int) -> str:
    try:
        return f"another user of this machine ({pwd.getpwuid(uid).pw_name})"
    except KeyError:
        return f"another user of this machine (uid {uid})"
