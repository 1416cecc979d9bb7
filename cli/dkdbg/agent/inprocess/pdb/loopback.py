"""Tells whether an address is reachable from this machine alone."""

from __future__ import annotations

import socket


def is_loopback(host: str) -> bool:
    """Tell whether a host name has only loopback addresses; False for the empty name, which means all interfaces.

    An unresolvable name counts as not loopback: listening on it fails later, and until then a token is required.
    """
    if not host:
        return False
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return bool(found) and all(is_loopback_address(str(each[4][0])) for each in found)


def is_loopback_address(address: str) -> bool:
    """Tell whether the address of a bound socket is loopback."""
    return address == "::1" or address.startswith(("127.", "::ffff:127."))
