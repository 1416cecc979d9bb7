"""What a tree of processes listens on, read from /proc as `ss -lntuxp` does, in whatever container it runs."""

import contextlib
import ipaddress
import socket
import stat
import struct
from dataclasses import dataclass
from pathlib import Path

#: `st` of /proc/net/tcp, net/tcp_states.h; bound datagram sockets are in state 7.
_LISTEN, _BOUND = "0A", "07"
#: Flag of a listening socket in /proc/net/unix, __SO_ACCEPTCON of linux/net.h.
_ACCEPTS = 0x10000


@dataclass(frozen=True, order=True)
class Listening:
    """A socket that somebody can send to.

    Attributes:
        kind: `tcp`, `udp`, or `unix`.
        address: host and port, or the path as the process itself sees it (`@...` for an abstract one).
        program: the command line of a process that holds it.
        is_shut: only this machine (for a container: only what is in it) or only its owner can come to it.
    """

    kind: str
    address: str
    program: str
    is_shut: bool


def _is_shut(kind: str, address: str, pid: int) -> bool:
    if kind != "unix":
        return ipaddress.ip_address(address.rpartition(":")[0].strip("[]")).is_loopback
    if address.startswith("@"):  # any user of this machine may connect to an abstract one
        return False
    found = Path(f"/proc/{pid}/root", address.lstrip("/")).parent.stat()
    owner = Path(f"/proc/{pid}").stat().st_uid
    return stat.S_IMODE(found.st_mode) & 0o077 == 0 and found.st_uid in (owner, 0)


def tree(*pids: int) -> list[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = list(pids)
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def command_lines(*pids: int) -> list[bytes]:
    """Those of these processes and all below them; one that ends meanwhile has none."""
    found = []
    for pid in tree(*pids):
        with contextlib.suppress(OSError):
            found.append(Path(f"/proc/{pid}/cmdline").read_bytes())
    return found


def of(*pids: int) -> list[Listening]:
    """What these processes and all below them listen on; one that ends meanwhile has nothing."""
    found = set()
    for pid in tree(*pids):
        with contextlib.suppress(OSError):
            found |= _of_one(pid)
    return sorted(found)


def _of_one(pid: int) -> set[Listening]:
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.add(str(entry.readlink()))
    program = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    found = set()
    for kind, state in (("tcp", _LISTEN), ("tcp6", _LISTEN), ("udp", _BOUND), ("udp6", _BOUND)):
        for line in Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == state and f"socket:[{words[9]}]" in inodes:
                address = _address(words[1])
                found.add(Listening(kind.removesuffix("6"), address, program, _is_shut("tcp", address, pid)))
    for line in Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]:
        words = line.split(maxsplit=7)
        # Bound datagram sockets take messages too: their type is 2 (SOCK_DGRAM).
        takes = int(words[3], 16) & _ACCEPTS or words[4] == "0002"
        if takes and len(words) == 8 and f"socket:[{words[6]}]" in inodes:
            found.add(Listening("unix", words[7], program, _is_shut("unix", words[7], pid)))
    return found


def _address(text: str) -> str:
    host, _, port = text.partition(":")
    raw = b"".join(struct.pack("<I", int(host[n : n + 8], 16)) for n in range(0, len(host), 8))
    if len(raw) == 4:
        return f"{socket.inet_ntoa(raw)}:{int(port, 16)}"
    return f"[{socket.inet_ntop(socket.AF_INET6, raw)}]:{int(port, 16)}"
