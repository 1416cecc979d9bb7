"""Whose connection on this machine it is: loopback is open to all its users, and the kernel knows who has connected.

Asked of the kernel as `ss` asks it (sock_diag(7), linux/inet_diag.h): one question and answer for one connection,
however many there are. A connection from outside this network namespace, Docker's proxy or a port forward, has no
other end in it, and nothing is said of it.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping, Optional, Set, Tuple

_SOCK_DIAG, _BY_FAMILY, _ERROR = 4, 20, 2
#: nlmsghdr; inet_diag_req_v2 up to its socket; ports and addresses of inet_diag_sockid; inet_diag_msg from its expiry on.
_HEADER, _ASKED, _SOCKET, _REST = "=IHHII", "=BBBBI", "!HH16s16s", "=IIIII"
_ESTABLISHED = 1
_LIMIT = 2.0
_GONE = "it is nobody's any more"
#: What the kernel says of a user that this user namespace does not know.
_NOBODY = 65534


def of_this_agent(environment: Mapping[str, str]) -> Set[int]:
    """Return the uids that may attach without a token: root, our own, and who decides anyway what the program does.

    That is who has called sudo, and the owner of the folder in which it runs: the user of a dev container, where the
    agent may be root's.
    """
    uids = {0, os.getuid()}
    with contextlib.suppress(OSError):
        uids.add(os.stat(".").st_uid)
    with contextlib.suppress(ValueError, KeyError):
        uids.add(int(environment["SUDO_UID"]))
    return uids


def refusal(sock: socket.socket, allowed: Set[int]) -> str:
    """Return why a connection of another user of this machine is refused, in one line; empty for all others.

    Args:
        sock: our end. allowed: see `of_this_agent`.
    """
    try:
        sock.getpeername()
    except OSError:
        return _GONE
    try:
        found = _other_end(sock)
        if found is None and not _is_local(sock):
            return ""
        # Who has closed has left no owner behind, or nothing: what he has sent is nobody's.
        if found is None or not found[1]:
            return "" if _state(sock) == _ESTABLISHED else _GONE
    except (OSError, ValueError, struct.error):  # no such question here: macOS, gVisor
        return ""
    uid = found[0]
    if uid in allowed or (uid == _NOBODY and not _knows_all_users()):
        return ""
    return "it comes from another user of this machine, uid %d" % uid


def _other_end(sock: socket.socket) -> Optional[Tuple[int, int]]:
    """Return the uid and the inode of the socket at the other end of a connection; None when it is not here.

    The inode of one that its process has closed is 0.

    Raises:
        OSError: the kernel does not answer such questions.
    """
    theirs, ours = sock.getpeername(), sock.getsockname()
    source, target = _packed(str(theirs[0])), _packed(str(ours[0]))
    family = socket.AF_INET if len(source) == 4 else socket.AF_INET6
    scope = theirs[3] if len(theirs) > 3 else 0
    which = struct.pack(_SOCKET, theirs[1], ours[1], source, target)
    asked = struct.pack(_ASKED, family, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + which
    asked += struct.pack("=III", scope, 0xFFFFFFFF, 0xFFFFFFFF)
    head = struct.pack(_HEADER, struct.calcsize(_HEADER) + len(asked), _BY_FAMILY, 1, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as kernel:  # type: ignore[attr-defined,unused-ignore]
        kernel.settimeout(_LIMIT)
        kernel.send(head + asked)
        answer = kernel.recv(4096)
    start = struct.calcsize(_HEADER)
    kind = struct.unpack_from(_HEADER, answer)[1]
    if kind == _ERROR:
        (number,) = struct.unpack_from("=i", answer, start)
        if -number == 2:  # ENOENT
            return None
        raise OSError(-number, os.strerror(-number))
    if answer[start + 4 : start + 4 + len(which)] != which:  # one that listens there
        return None
    _, _, _, uid, inode = struct.unpack_from(_REST, answer, start + 4 + 48)
    return int(uid), int(inode)


def _packed(text: str) -> bytes:
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).packed


def _is_local(sock: socket.socket) -> bool:
    theirs, ours = _packed(str(sock.getpeername()[0])), _packed(str(sock.getsockname()[0]))
    return theirs == ours or ipaddress.ip_address(theirs).is_loopback


def _state(sock: socket.socket) -> int:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]  # type: ignore[attr-defined,unused-ignore]


def _knows_all_users() -> bool:
    """Tell whether this is the machine's own user namespace."""
    with open("/proc/self/uid_map") as table:
        return table.read().split() == ["0", "0", "4294967295"]
