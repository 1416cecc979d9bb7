"""Finds the user of a local connection: loopback is open to all users of a machine.

Queries the kernel as `ss` does (sock_diag(7), linux/inet_diag.h): one query and answer for each connection. Where
that is unsupported, reads /proc/net/tcp, which lists all connections. If a connection comes from outside this network
namespace (Docker's proxy, a port forward), the kernel lists no socket of its other end here, and so no user.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct

from dkdbg.agent.proxy.listener.peers import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, List, Mapping, Optional, Set, Tuple

    #: uid and inode of a socket; the inode is 0 when no process has it: already closed, or not accepted yet.
    Owner = Tuple[int, int]
    Address = Tuple[Any, ...]

_SOCK_DIAG, _BY_FAMILY, _ERROR = 4, 20, 2
#: Struct formats: nlmsghdr; inet_diag_req_v2 up to its socket; ports and addresses of inet_diag_sockid;
#: inet_diag_msg from its expiry on.
_HEADER, _QUERY, _SOCKET, _REST = "=IHHII", "=BBBBI", "!HH16s16s", "=IIIII"
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_ESTABLISHED, _CLOSE, _LISTENS = 1, 7, "0A"
#: An attribute of inet_diag_msg, INET_DIAG_CGROUP_ID.
_CGROUP_ID = 21
_TIMEOUT_S = 2.0
_CLOSED = "it is closed already"
_UNKNOWN = "cannot tell which user is at the other end"
#: uid that the kernel reports for a user unknown in this user namespace.
_NOBODY_UID = 65534


def of_this_agent(environment: Mapping[str, str]) -> Set[int]:
    """Return the uids that may attach without a token: root, our own, and users who control the program anyway.

    The latter are the caller of sudo, and the owner of the working directory: in a dev container, where the agent may
    run as root, that is the user.
    """
    uids = {0, os.getuid()}
    with contextlib.suppress(OSError):
        uids.add(os.stat(".").st_uid)
    with contextlib.suppress(ValueError, KeyError):
        uids.add(int(environment["SUDO_UID"]))
    return uids


def refusal(sock: socket.socket, allowed: Optional[Set[int]]) -> str:
    """Return why a connection of another user of this machine is refused, in one line; empty if it is accepted.

    Args:
        sock: our end. allowed: see `of_this_agent`; None for all users whose end is still open.
    """
    try:
        peer, local = sock.getpeername(), sock.getsockname()
    except OSError:
        return _CLOSED
    try:
        found = _owner(peer, local)
        if found is None and not _is_gone(sock, peer, local):
            return ""
    except (OSError, ValueError, struct.error):  # unsupported, as on macOS, or out of file descriptors
        return _UNKNOWN if reports_owners() else ""
    # The sender of the data is unknown: the other end is outside of this kernel (Windows around WSL), or gone.
    if found is None:
        return _UNKNOWN if _state(sock) == _ESTABLISHED else _CLOSED
    # A closed socket has no owner. Ours may still be established: no FIN arrives while its receive window is full.
    if not found[1]:
        return _CLOSED
    uid = found[0]
    if allowed is None or uid in allowed or (uid == _NOBODY_UID and not knows_all_users()):
        return ""
    return "it comes from another user of this machine, uid %d" % uid


def reports_owners() -> bool:
    """Tell whether the system reports the owners of connections."""
    return os.path.exists(_TABLES[0])


def other_end(sock: socket.socket) -> Optional[Owner]:
    """Return the owner of the socket at the other end; None if it is outside this network namespace.

    Raises:
        OSError: this system does not report owners, or the connection is closed already.
    """
    return _owner(sock.getpeername(), sock.getsockname())


def listening(address: Address) -> Optional[Owner]:
    """Return the owner of the socket that listens on an address, or on its port for all addresses; None without one.

    Raises:
        OSError: this system does not report owners.
    """
    return next((owner for state, owner in _listed(address, None) if state == _LISTENS), None)


def is_own_server(server: socket.socket, *, default: bool = False) -> bool:
    """Tell whether the server of a connection is a process of this user or of root; True where the system cannot tell.

    Args:
        default: the answer for a server outside this network namespace.
    """
    try:
        owner = other_end(server)
        if owner is None:
            return default
        if not owner[1]:  # the connection waits to be accepted
            owner = listening(server.getpeername())
    except OSError:
        return not reports_owners()
    return owner is not None and owner[0] in (0, os.getuid())


def knows_all_users() -> bool:
    """Tell whether this is the machine's own user namespace."""
    with open("/proc/self/uid_map") as table:
        return table.read().split() == ["0", "0", "4294967295"]


def cgroups(sock: socket.socket) -> Tuple[Optional[int], Optional[int]]:
    """Return the ids of the cgroups in which the other end of a connection and ours were created.

    None for another network namespace, or a kernel before Linux 5.9.

    Raises:
        OSError: the kernel does not report them, or the connection is closed already.
        AttributeError: this is not Linux.
    """
    peer, local = sock.getpeername(), sock.getsockname()
    return _cgroup(_diagnosed(peer, local)), _cgroup(_diagnosed(local, peer))


def _owner(peer: Address, local: Address) -> Optional[Owner]:
    """Return the owner of the other end of a connection; see `other_end`."""
    try:
        found = _asked(peer, local)
    except (OSError, ValueError, struct.error, AttributeError):
        # sock_diag is unsupported: gVisor, or a kernel that may not load its module for it.
        return next((each[1] for each in _listed(peer, local)), None)
    if found is None and _is_local(peer, local):
        # Without that module the kernel may answer as for an unknown socket.
        with contextlib.suppress(OSError):
            return next((each[1] for each in _listed(peer, local)), None)
    return found


def _is_gone(sock: socket.socket, peer: Address, local: Address) -> bool:
    """Tell whether the other end was not found because it is closed, not because it is elsewhere.

    Elsewhere means outside this network namespace. A port forward into gVisor, where sock_diag is unsupported, has no
    socket at its other end.
    """
    state = _state(sock)
    if not _is_local(peer, local):
        return state == _CLOSE
    with contextlib.suppress(OSError):
        return _asked(local, peer) is not None or state != _ESTABLISHED
    return state != _ESTABLISHED


# -- by sock_diag -------------------------------------------------------------------------------------------------


def _asked(peer: Address, local: Address) -> Optional[Owner]:
    """Return the owner of the socket at `peer` that is connected to `local`. Raises OSError: unsupported."""
    message = _diagnosed(peer, local)
    if message is None:
        return None
    _, _, _, uid, inode = struct.unpack_from(_REST, message, 4 + 48)
    return int(uid), int(inode)


def _cgroup(message: Optional[bytes]) -> Optional[int]:
    at = 4 + 48 + struct.calcsize(_REST)
    while message is not None and at < len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if kind == _CGROUP_ID:
            return int(struct.unpack_from("=Q", message, at + 4)[0])
        at += max(4, (length + 3) & ~3)
    return None


def _diagnosed(peer: Address, local: Address) -> Optional[bytes]:
    """Return the inet_diag_msg of the socket with these addresses, or None. Raises OSError: unsupported."""
    family = socket.AF_INET if plain(peer[0]).version == 4 else socket.AF_INET6
    scope = peer[3] if len(peer) > 3 else 0
    forms = zip(_forms(peer), _forms(local))
    whiches = [struct.pack(_SOCKET, peer[1], local[1], source, target) for source, target in forms]
    asked = struct.pack(_QUERY, family, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + whiches[0]
    asked += struct.pack("=III", scope, 0xFFFFFFFF, 0xFFFFFFFF)
    head = struct.pack(_HEADER, struct.calcsize(_HEADER) + len(asked), _BY_FAMILY, 1, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as kernel:  # type: ignore[attr-defined,unused-ignore]
        kernel.settimeout(_TIMEOUT_S)
        kernel.send(head + asked)
        answer = kernel.recv(4096)
    start = struct.calcsize(_HEADER)
    kind = struct.unpack_from(_HEADER, answer)[1]
    if kind == _ERROR:
        (number,) = struct.unpack_from("=i", answer, start)
        if -number == 2:  # ENOENT
            return None
        raise OSError(-number, os.strerror(-number))
    if answer[start + 4 : start + 4 + len(whiches[0])] not in whiches:  # a listening socket
        return None
    return answer[start:]


# -- from /proc/net/tcp -------------------------------------------------------------------------------------------


def _listed(local: Address, remote: Optional[Address]) -> Iterator[Tuple[str, Owner]]:
    """Yield state and owner of sockets with these addresses (None: any). Raises OSError: there are no tables."""
    own = _written(local)
    if remote is None:  # sockets of this exact address come first
        everywhere = "%04X" % local[1]
        own += ["00000000:" + everywhere, "0" * 32 + ":" + everywhere]
        needles = [": %s " % each for each in own]
    else:
        needles = [": %s %s " % each for each in zip(own, _written(remote))]
    tables: List[str] = []
    for path in _TABLES:
        with contextlib.suppress(FileNotFoundError), open(path) as table:
            tables.append(table.read())
    if not tables:
        raise OSError("there is no %s" % _TABLES[0])
    for needle in needles:
        for text in tables:
            begin = text.find(needle)
            while begin >= 0:
                fields = text[begin + 2 : text.find("\n", begin)].split()
                yield fields[2], (int(fields[6]), int(fields[8]))
                begin = text.find(needle, begin + 1)


def _written(address: Address) -> List[str]:
    """Return an address in each form in which the tables may list it."""
    port = "%04X" % address[1]
    # The kernel prints an address as 32-bit numbers of this machine's byte order.
    return [
        "".join("%08X" % each for each in struct.unpack("=%dI" % (len(form) // 4), form)) + ":" + port
        for form in _forms(address)
    ]


def _forms(address: Address) -> List[bytes]:
    """Return the bytes of an address; an IPv4 address also as mapped to IPv6 on a dual-stack socket."""
    packed = plain(address[0]).packed
    return [packed] if len(packed) == 16 else [packed, b"\0" * 10 + b"\xff\xff" + packed]


def _is_local(peer: Address, local: Address) -> bool:
    address = plain(peer[0])
    return bool(address == plain(local[0]) or address.is_loopback)


def _state(sock: socket.socket) -> int:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]  # type: ignore[attr-defined,unused-ignore]
