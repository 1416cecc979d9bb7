"""Decides which peers may connect to a listener beyond loopback: not the neighbours on a container network.

Docker puts all containers of a network into one subnet, and a debug port lets its client run code. A connection
to a published port arrives from the gateway (Linux) or from outside the subnet (Docker Desktop, or with the
client's own address). So a peer from a directly attached subnet is refused unless it is the default gateway.
"""

from __future__ import annotations

import ipaddress
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional, Union

    Address = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
    Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

_RTF_GATEWAY = 0x2


class AllowList:
    """Value of DKDBG_ALLOW: empty, `any`, or networks that are accepted besides the default ones.

    Raises:
        ValueError: an entry is neither `any` nor a network.
    """

    def __init__(self, text: str = "") -> None:
        items = [word.strip() for word in text.split(",") if word.strip()]
        self.anyone = "any" in items
        self.networks: List[Network] = [
            ipaddress.ip_network(word, strict=False) for word in items if word != "any"
        ]


class Routes:
    """Directly attached subnets and default gateways of this network namespace.

    Attributes:
        known: False when the tables could not be read (no /proc): then only loopback, this machine's own address and
            the networks of DKDBG_ALLOW are accepted.
    """

    def __init__(self, subnets: List[Network], gateways: List[Address], known: bool = True) -> None:
        self.subnets = subnets
        self.gateways = gateways
        self.known = known


def refusal(peer: str, local: str, allow: AllowList, routes: Optional[Routes] = None) -> str:
    """Return why a peer is refused, in one line; empty when it may connect.

    Args:
        peer: the address that the connection comes from.
        local: our own address of the same connection.
        allow: networks that the user added.
        routes: the tables; read now by default, since networks change while a container runs.
    """
    address, own = plain(peer), plain(local)
    if allow.anyone or address.is_loopback or address == own:
        return ""
    if any(address.version == network.version and address in network for network in allow.networks):
        return ""
    known = routes or read_routes()
    if not known.known:
        return "cannot read this machine's routing table"
    if address in known.gateways:
        return ""
    for network in known.subnets:
        if address.version == network.version and address in network:
            return "it is a neighbour in %s, not the gateway" % network
    if address.is_link_local:
        return "it is a link-local address"
    return ""


def read_routes(proc: str = "/proc/net") -> Routes:
    """Read the kernel's routing tables of this network namespace; `proc` has `route` and `ipv6_route`."""
    subnets: List[Network] = []
    gateways: List[Address] = []
    v4 = _lines(proc + "/route")
    for line in v4[1:]:
        columns = line.split()
        if len(columns) < 8:
            continue
        destination, gateway, mask = (_ipv4(columns[i]) for i in (1, 2, 7))
        if int(columns[3], 16) & _RTF_GATEWAY:
            if int(mask) == 0:
                gateways.append(gateway)
        elif int(mask):
            subnets.append(ipaddress.ip_network("%s/%s" % (destination, mask), strict=False))
    v6 = _lines(proc + "/ipv6_route")
    for line in v6:
        columns = line.split()
        if len(columns) < 10 or columns[9] == "lo":
            continue
        target = ipaddress.IPv6Address(bytes.fromhex(columns[0]))
        length = int(columns[1], 16)
        if int(columns[8], 16) & _RTF_GATEWAY:
            if length == 0:
                gateways.append(ipaddress.IPv6Address(bytes.fromhex(columns[4])))
        elif 0 < length < 128 and not target.is_multicast:
            subnets.append(ipaddress.ip_network((target, length), strict=False))
    return Routes(subnets, gateways, known=bool(v4 or v6))


def plain(text: str) -> Address:
    """Parse an address without its scope; an IPv4 client of an IPv6 socket counts as IPv4."""
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _ipv4(column: str) -> ipaddress.IPv4Address:
    """Parse an address of /proc/net/route: a host-order number of network-order bytes."""
    return ipaddress.IPv4Address(struct.pack("=I", int(column, 16)))


def _lines(path: str) -> List[str]:
    try:
        with open(path) as table:
            return table.read().splitlines()
    except OSError:
        return []
